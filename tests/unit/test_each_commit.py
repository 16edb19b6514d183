"""What `make test` leaves out comes back: with a change of its subject, or with another commit."""

import subprocess
from pathlib import Path

import pytest

from tests.faults.mutations import MUTATIONS
from tests.fixtures.each_commit import ALWAYS, Choice, Commit, read_commit
from txqueue_torture.scenario import known_scenarios

NAMES = [*MUTATIONS, *known_scenarios()]


def test_what_is_always_played_exists() -> None:
    """A scenario or mutation that gets another name is named anew."""
    assert {*NAMES, "unmutated"} >= ALWAYS


def test_each_is_played_by_a_quarter_of_the_commits() -> None:
    """Within some twenty commits each scenario and mutation has its turn."""
    plays = {name: sum(Commit(f"{n:x}", ()).chooses(name) for n in range(400)) for name in NAMES}
    assert 60 <= min(plays.values()) <= max(plays.values()) <= 140


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("a group has no limit", "schema/functions/groups.sql"),
        ("expiry", "laboratory/txqueue_torture/scenarios/expiry.py"),
    ],
)
def test_a_changed_subject_is_played(name: str, changed: str) -> None:
    """The code that a mutation changes, and the module of a scenario."""
    assert Choice(Commit("1", (changed,))).is_played(name)
    assert Choice(Commit("1", None)).is_played(name)


def test_a_folder_has_changed_by_any_of_its_files() -> None:
    """And one of a similar name has not."""
    commit = Commit("1", ("docs/howto/django.md",))
    assert commit.touches(["docs/howto"])
    assert commit.touches(["docs/howto/django.md"])
    assert not commit.touches(["docs/how", "docs/tutorial"])


def test_without_the_commits_of_a_day_all_may_have_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in the shallow clone of a service, and in an unpacked source distribution."""
    monkeypatch.setattr("tests.fixtures.each_commit.ROOT", tmp_path)
    assert read_commit().changed is None
    for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "one"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True)
    assert read_commit().changed is None

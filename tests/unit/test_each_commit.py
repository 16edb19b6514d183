"""What `make test` leaves out comes back: with a change of its subject, or with another commit."""

import os
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


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which the commit is looked for."""
    monkeypatch.setattr("tests.fixtures.each_commit.ROOT", tmp_path)
    monkeypatch.delenv("TXQUEUE_TEST_SINCE", raising=False)
    for who in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{who}_NAME", "a")
        monkeypatch.setenv(f"GIT_{who}_EMAIL", "a@example.org")
    return tmp_path


def write(repository: Path, name: str, moment: int) -> None:
    """Commit a new file at some second."""
    (repository / name).touch()
    for words in (["init", "-q"], ["add", name], ["commit", "-q", "-m", name]):
        date = {"GIT_COMMITTER_DATE": f"{1_700_000_000 + moment} +0000"}
        subprocess.run(["git", *words], cwd=repository, env={**os.environ, **date}, check=True)


def test_without_the_commit_before_all_may_have_changed(repository: Path) -> None:
    """As in the shallow clone of a service, and in an unpacked source distribution."""
    assert read_commit().changed is None
    write(repository, "one", 0)
    assert read_commit().changed is None


def test_what_came_with_the_commit_has_changed(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was written together with it, or since the commit that a service has tested last."""
    for name, moment in (("one", 0), ("two", 600), ("three", 630), ("four", 690)):
        write(repository, name, moment)
    assert sorted(read_commit().changed or ()) == ["four", "three", "two"]
    monkeypatch.setenv("TXQUEUE_TEST_SINCE", "HEAD~1")
    assert read_commit().changed == ("four",)
    monkeypatch.setenv("TXQUEUE_TEST_SINCE", "0" * 40)
    assert read_commit().changed is None

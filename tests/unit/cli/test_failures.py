"""The list of kinds of failure, as far as it says that there may be more."""

from datetime import UTC, datetime
from typing import Any

import pytest

from txqueue.cli.failures import MOST_JOBS, MOST_KINDS
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run


def kind(number: int, failed: int) -> dict[str, Any]:
    """One kind, as the database returns it."""
    return {
        "fingerprint": f"kind{number}",
        "work_type": "test.kind",
        "failed": failed,
        "waiting": 7,
        "last_seen": datetime(2030, 1, 1, tzinfo=UTC),
        "example": 5,
        "error": "ValueError: no",
    }


def listed(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    kinds: list[dict[str, Any]],
) -> str:
    """List kinds of failure; returns what is printed."""
    monkeypatch.setattr("txqueue.cli.failures.read", lambda *_: kinds)
    assert run(["failures"], GlobalOptions()) == 0
    return capsys.readouterr().out


def test_a_count_that_was_cut_short_has_a_plus(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the count that has reached the bound."""
    said = listed(monkeypatch, capsys, [kind(1, MOST_JOBS), kind(2, MOST_JOBS - 1)])
    assert "10,000+" in said
    assert "9,999 " in said
    assert "7+" not in said
    assert "more" not in said


def test_a_list_that_was_cut_short_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In its last line."""
    said = listed(monkeypatch, capsys, [kind(each, 1) for each in range(MOST_KINDS)])
    assert said.splitlines()[-1] == "There may be more than 1,000 kinds."


@pytest.mark.parametrize("act", ["retry", "discard", "postpone"])
def test_the_help_of_an_act_says_that_it_covers_all_work_types(
    capsys: pytest.CaptureFixture[str], act: str
) -> None:
    """Though the list has a line for each."""
    run(["failures", act, "--help"], GlobalOptions())
    assert "of all work types" in " ".join(capsys.readouterr().out.split())

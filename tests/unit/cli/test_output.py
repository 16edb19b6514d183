"""Tables for people, in windows of any width, and of failures, which there may be more of."""

from __future__ import annotations

import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from txqueue.cli.history import MOST_JOBS, MOST_KINDS
from txqueue.cli.options import GlobalOptions
from txqueue.cli.output import table
from txqueue.cli.root import run

TYPE = "orders.reports.quarterly.MakeTheReportOfOneCustomer"
HEADS = [">job", "type", "queue", "", ">runs"]


def drawn(width: int, work_type: str = TYPE) -> list[str]:
    """Return the lines of a table in a window of this width."""
    out = Console(file=io.StringIO(), width=width, color_system=None)
    out.print(table("Jobs", HEADS, [[7, work_type, "default", "##", 0], [8, "a.B", "q", "", 1]]))
    assert isinstance(out.file, io.StringIO)
    return [line.rstrip() for line in out.file.getvalue().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_table_has_a_line_for_each_row_or_a_few(width: int) -> None:
    """Where a cell is folded once, it can still be read."""
    lines = drawn(width)
    assert lines[0] == "Jobs"
    assert lines[1].split() == ["job", "type", "queue", "runs"]
    assert len(lines) <= 5


def test_in_a_narrow_window_names_lose_their_middle() -> None:
    """As much as needed; a line names the option that shows them whole."""
    assert drawn(45, work_type="shop.Mail")[1].split() == ["job", "type", "queue", "runs"]
    lines = drawn(45)
    assert "orders.rep…eCustomer" in lines[2]
    assert lines[-1].strip() == "-o wide shows all of it"


def test_in_a_very_narrow_window_rows_are_blocks() -> None:
    """A type that is broken into many pieces could be neither read nor copied."""
    lines = drawn(30)
    assert lines[:3] == ["Jobs", "job    7", f"type   {TYPE[:23]}"]
    assert "".join(line.split()[-1] for line in lines[2:5]) == TYPE
    assert "job    8" in lines


@pytest.mark.parametrize("width", [16, 30])
def test_no_width_is_too_narrow(width: int) -> None:
    """Nothing is cut off."""
    assert TYPE in "".join(line.replace("type", "").strip() for line in drawn(width))


def test_a_window_without_a_width() -> None:
    """As of a terminal that does not tell it: something is drawn."""
    assert len(drawn(1)) > len(HEADS)


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
    monkeypatch.setattr("txqueue.cli.history.read", lambda *_: kinds)
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

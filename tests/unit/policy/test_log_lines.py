"""How entries of the log are written as JSON, and how they are kept with failed attempts."""

import json
from typing import Any

import pytest

from tests.unit.logs.running import Untold
from txqueue.policy.log_lines import (
    LONGEST_ENTRY,
    MOST_BYTES,
    LogEntry,
    json_line,
    kept_text,
    last_entries,
)

AT = 1_700_000_000.25
TIME = "2023-11-14T22:13:20.250Z"


def entry(message: str = "sent", **more: Any) -> LogEntry:
    """An entry of a handler's."""
    return LogEntry(AT, "warning", "shop.mail", message, **more)


def parsed(line: str) -> Any:
    """A line as a strict parser reads it."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    assert "\n" not in line
    return json.loads(line, parse_constant=refuse)


def test_a_line_has_the_entry_and_the_fields_of_its_job() -> None:
    """Without a traceback there is no such field."""
    assert parsed(json_line(entry(), {"job": 7, "trace_id": "4bf9"})) == {
        "time": TIME,
        "level": "warning",
        "logger": "shop.mail",
        "message": "sent",
        "job": 7,
        "trace_id": "4bf9",
    }
    assert parsed(json_line(entry(traceback="T\nE"), {}))["traceback"] == "T\nE"


def test_no_field_replaces_one_of_the_entry() -> None:
    """A line always says when and what."""
    assert parsed(json_line(entry(), {"message": "x", "time": 0}))["message"] == "sent"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({1}, "{1}"),
        (float("nan"), "nan"),
        ({(1, 2): 3}, "{(1, 2): 3}"),
        (Untold(), "a Untold that has no text"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_cannot_carry_becomes_text(value: object, text: str) -> None:
    """The line and its other fields stay as they are."""
    told = parsed(json_line(entry(), {"job": 7, "more": value}))
    assert (told["job"], told["more"], told["message"]) == (7, text, "sent")


def test_a_line_is_ascii_whatever_it_says() -> None:
    """So no encoding of the stream can refuse it, and no line break ends it early."""
    message = "\N{PILE OF POO} \ud800 \x1b[31m\r\n\u2028"
    line = json_line(entry(message), {})
    assert line.isascii()
    assert parsed(line)["message"] == message


def test_a_kept_entry_is_cut_and_can_be_stored() -> None:
    """With the last line of a traceback only."""
    trace = "Traceback:\n  File\nKeyError: 'k'\n"
    assert kept_text(entry(traceback=trace)) == f"{TIME} warning shop.mail: sent (KeyError: 'k')"
    assert len(kept_text(entry("x" * 5000))) == LONGEST_ENTRY
    kept_text(entry("a\x00b\ud800")).encode()
    assert "\x00" not in kept_text(entry("a\x00b"))


def test_the_last_entries_that_fit_are_kept() -> None:
    """In bytes, not in characters."""
    assert last_entries([]) is None
    assert last_entries(["a", "b"]) == "a\nb"
    # Each of 4,001 bytes, with its line break: two of them fit.
    long = [letter + "\N{PILE OF POO}" * (LONGEST_ENTRY - 1) + "xxx" for letter in "abc"]
    kept = last_entries(long)
    assert kept is not None
    assert [line[0] for line in kept.split("\n")] == ["b", "c"]
    assert len(kept.encode()) <= MOST_BYTES

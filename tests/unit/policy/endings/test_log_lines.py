"""How entries of the log are written as JSON, and how they are kept with failed attempts."""

import json
from typing import Any

import pytest

from tests.unit.logs.running import Untold
from txqueue.policy.endings.log_lines import (
    LONGEST_ENTRY,
    LONGEST_MESSAGE,
    MOST_BYTES,
    LogEntry,
    json_line,
    kept_text,
    last_entries,
    text_line,
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


def test_no_text_of_an_error_looks_like_an_entry() -> None:
    """Whatever ends a line for a reader, what follows is indented, and controls are shown."""
    forged = f"{TIME} critical web-1 shop: forged"
    breaks = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1d", "\x85", "\u2028", "\u2029")
    for line_break in breaks:
        told = entry(f"no{line_break}{forged}", traceback=f"E: x{line_break}{forged}")
        first, *more = text_line(told, {"node": "web-1", "job": 7}).split("\n")
        assert first == f"{TIME} warning web-1 job 7 shop.mail: no"
        assert more == [f"    {forged}", "    E: x", f"    {forged}"]
    assert text_line(entry("a\x1b[2K\x08\u202eb\tc"), {}).endswith(": a\\x1b[2K\\x08\\x202eb\tc")


@pytest.mark.parametrize(
    ("logger", "shown"),
    [
        ("txqueue.node.leasing.heartbeats.Heartbeats", "txqueue"),
        ("twisted.internet.base", "twisted"),
        ("log_legacy", "log"),
        ("txqueue_shop.mail", "txqueue_shop.mail"),
        ("shop.mail", "shop.mail"),
    ],
)
def test_text_names_a_library_and_json_its_part(logger: str, shown: str) -> None:
    """A newcomer reads which library speaks; the part is for filters."""
    logged = LogEntry(AT, "info", logger, "sent")
    assert f" {shown}: sent" in text_line(logged, {})
    assert parsed(json_line(logged, {}))["logger"] == logger


def test_a_line_is_one_line_that_postgresql_stores() -> None:
    """In UTF-8, without what jsonb refuses; no line break of any reader's ends it early."""
    line = json_line(entry("\N{PILE OF POO} \ud800 \x00 \x1b[31m\r\n\u2028\x85"), {"x": "\x00"})
    assert line.splitlines() == [line]
    assert b"\xf0\x9f\x92\xa9" in line.encode()
    told = parsed(line)
    assert told["message"] == "\N{PILE OF POO} ? \ufffd \x1b[31m\r\n\u2028\x85"
    assert told["x"] == "\ufffd"


def test_long_texts_are_cut_with_a_mark() -> None:
    """Of a traceback the end is kept, where the error is; the line has a bound."""
    long = LogEntry(AT, "x" * 9999, "y" * 9999, "m" * 99_999, "t" * 99_999 + "!", "s" * 99_999)
    line = json_line(long, {"more": "z" * 9999, "number": 10**5000, "list": ["z"] * 9999})
    told = parsed(line)
    assert told["message"] == "m" * LONGEST_MESSAGE + " [...]"
    assert told["traceback"].startswith("[...] t")
    assert told["traceback"].endswith("t!")
    assert all(told[name].endswith(" [...]") for name in ("level", "logger", "more", "list"))
    assert len(line) < 60_000
    whole = "m" * LONGEST_MESSAGE
    assert parsed(json_line(entry(whole), {}))["message"] == whole


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

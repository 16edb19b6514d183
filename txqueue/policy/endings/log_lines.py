"""Formats entries of the log: as JSON, as text, and as what is kept with a failed attempt."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, cast

from attrs import frozen

from txqueue.model.foreign import is_a, text_of
from txqueue.policy.endings.outcome import storable

LONGEST_ENTRY, MOST_BYTES = 1000, 8192
# Characters of the parts of a line of JSON.
LONGEST_MESSAGE, LONGEST_TRACE, LONGEST_FIELD = 8000, 16_000, 1000
CUT: Final = "[...]"
_LIBRARIES: Final = ("txqueue", "twisted")
# That of Twisted's former interface.
_PLAIN_NAMES: Final = {"log_legacy": "log"}
_LARGEST: Final = 2**63
# Line breaks of Unicode, which JSON need not escape, but at which some readers end a line.
_LINE_BREAKS: Final = "\x85\u2028\u2029"
# What would change what a terminal shows of other lines, or the order of characters.
_UNSEEN: Final = re.compile(
    r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]"
)


@frozen
class LogEntry:
    """An entry of the log, whichever library it came through.

    Attributes:
        at: When it was logged, in seconds since 1970.
        level: ``debug``, ``info``, ``warning``, ``error`` or ``critical``.
        logger: The logger's name.
        message: The text.
        traceback: An exception with its traceback; empty for none.
        stack: The stack of the caller, if it asked for it; empty for none.
    """

    at: float
    level: str
    logger: str
    message: str
    traceback: str = ""
    stack: str = ""


def json_line(entry: LogEntry, fields: Mapping[str, Any]) -> str:
    """Return an entry as one line with a JSON object, without its line break.

    Long texts are cut, so that the line has a bound; PostgreSQL's jsonb accepts the line.

    Args:
        entry: The entry.
        fields: More fields, such as those of the running job; none replaces one of the entry's.
            A value that is neither a number nor a truth value becomes text.
    """
    own = _parts(entry)
    more = {text_of(name): _carried(value) for name, value in fields.items() if name not in own}
    line = json.dumps({**own, **more}, ensure_ascii=False)
    for character in _LINE_BREAKS:
        line = line.replace(character, f"\\u{ord(character):04x}")
    return line


def text_line(entry: LogEntry, fields: Mapping[str, Any]) -> str:
    """Return an entry as a line of text, without its last line break.

    Further lines of the message, and those of a traceback, are indented: no text of an error looks
    like an entry.

    Args:
        entry: The entry.
        fields: More fields, of which ``node`` and ``job`` are shown.
    """
    parts = _parts(entry)
    job = f" job {fields['job']}" if "job" in fields else ""
    head = f"{parts.pop('time')} {parts.pop('level')} {fields.get('node', '-')}{job}"
    texts = [f"{head} {_short(parts.pop('logger'))}: {parts.pop('message')}", *parts.values()]
    lines = [line for text in texts for line in text.splitlines()]
    return _UNSEEN.sub(lambda unseen: f"\\x{ord(unseen[0]):02x}", "\n    ".join(lines))


def _short(logger: str) -> str:
    """Return a logger's name for people: which part of a library has a line is for JSON."""
    package, _, _ = logger.partition(".")
    return package if package in _LIBRARIES else _PLAIN_NAMES.get(logger, logger)


def _parts(entry: LogEntry) -> dict[str, str]:
    """Return the fields of an entry, each within its bound."""
    return {
        "time": _time(entry.at),
        "level": _start_of(entry.level, LONGEST_FIELD),
        "logger": _start_of(entry.logger, LONGEST_FIELD),
        "message": _start_of(entry.message, LONGEST_MESSAGE),
        **({"traceback": _end_of(entry.traceback)} if entry.traceback else {}),
        **({"stack": _end_of(entry.stack)} if entry.stack else {}),
    }


def _start_of(text: str, longest: int) -> str:
    return storable(text if len(text) <= longest else f"{text[:longest]} {CUT}")


def _end_of(text: str) -> str:
    """Return the end of a traceback, where its error is."""
    return storable(text if len(text) <= LONGEST_TRACE else f"{CUT} {text[-LONGEST_TRACE:]}")


def _carried(value: object) -> object:
    """Return a field's value as JSON carries it everywhere: numbers have bounds too."""
    # Of a subclass only the number itself is taken: its text may be anything.
    if value is None or is_a(value, bool):
        return value
    if is_a(value, int) and -_LARGEST <= (whole := int.__int__(cast("int", value))) < _LARGEST:
        return whole
    if is_a(value, float) and math.isfinite(number := float.__float__(cast("float", value))):
        return number
    return _start_of(text_of(value), LONGEST_FIELD)


def kept_text(entry: LogEntry) -> str:
    """Return an entry as it is kept with a failed attempt: of a traceback only the last line."""
    text = f"{_time(entry.at)} {entry.level} {entry.logger}: {entry.message}"
    if entry.traceback:
        text += f" ({entry.traceback.rstrip().rpartition(chr(10))[2]})"
    return storable(text[:LONGEST_ENTRY])


def last_entries(entries: Iterable[str]) -> str | None:
    """Return the last entries that are not too long together, a line for each; None for none."""
    lines: list[str] = []
    left = MOST_BYTES
    for entry in reversed(list(entries)):
        left -= len(entry.encode()) + 1
        if left < 0:
            break
        lines.append(entry)
    return "\n".join(reversed(lines)) or None


def _time(at: float) -> str:
    """Return a time as RFC 3339 has it, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"

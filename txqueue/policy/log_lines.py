"""Formats entries of the log: as JSON, and as the text that is kept with a failed attempt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from attrs import frozen

from txqueue.policy.outcome import storable

__all__ = ["LogEntry", "json_line", "kept_text", "last_entries"]

LONGEST_ENTRY, MOST_BYTES = 1000, 8192


@frozen
class LogEntry:
    """An entry of the log, whichever library it came through.

    Attributes:
        at: When it was logged, in seconds since 1970.
        level: ``debug``, ``info``, ``warning``, ``error`` or ``critical``.
        logger: The logger's name.
        message: The text.
        traceback: An exception with its traceback; empty for none.
    """

    at: float
    level: str
    logger: str
    message: str
    traceback: str = ""


def json_line(entry: LogEntry, fields: Mapping[str, Any]) -> str:
    """Return an entry as one line with a JSON object, without its line break.

    Args:
        entry: The entry.
        fields: More fields, such as those of the running job; none replaces one of the entry's.
            A value that JSON cannot carry becomes text.
    """
    own = {
        "time": _time(entry.at),
        "level": entry.level,
        "logger": entry.logger,
        "message": entry.message,
        **({"traceback": entry.traceback} if entry.traceback else {}),
    }
    whole = {**own, **{name: fields[name] for name in fields if name not in own}}
    try:
        return json.dumps(whole, allow_nan=False)
    except (TypeError, ValueError, RecursionError):
        return json.dumps({str(name): _as_text(value) for name, value in whole.items()})


def kept_text(entry: LogEntry) -> str:
    """Return an entry as it is kept with a failed attempt: of a traceback only the last line."""
    text = f"{_time(entry.at)} {entry.level} {entry.logger}: {entry.message}"
    if entry.traceback:
        text += f" ({entry.traceback.rstrip().rpartition(chr(10))[2]})"
    return storable(text[:LONGEST_ENTRY])


def last_entries(entries: Iterable[str]) -> str | None:
    """Return the last entries that are not too long together, a line for each; None for none."""
    kept: list[str] = []
    left = MOST_BYTES
    for entry in reversed(list(entries)):
        left -= len(entry.encode()) + 1
        if left < 0:
            break
        kept.append(entry)
    return "\n".join(reversed(kept)) or None


def _time(at: float) -> str:
    """Return a time as RFC 3339 has it, in UTC."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def _as_text(value: object) -> object:
    if value is None or isinstance(value, bool | int | str):
        return value
    try:
        return str(value)
    except Exception:
        return f"a {type(value).__name__} that has no text"

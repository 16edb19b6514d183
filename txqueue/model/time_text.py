"""Reads lengths of time, dates and times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["length_of", "length_text", "moment_of"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def length_of(text: str) -> timedelta:
    """Return the length of time that a text such as ``90s``, ``5min`` or ``2h`` says.

    Raises:
        ValueError: When it is not a length of time; the message says how to write one.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip() or "s"
    try:
        if float(number) >= 0:
            return timedelta(seconds=float(number) * _UNITS[unit])
    except (KeyError, ValueError, OverflowError):
        """It is none."""
    raise ValueError(f"{text!r} is not a length of time; write 90s, 5min, 2h or 1d")


def length_text(seconds: float) -> str:
    """Return a length of time as `length_of` reads it, in the largest unit that fits."""
    for unit in ("d", "h", "min"):
        number = seconds / _UNITS[unit]
        if number >= 1 and number.is_integer():
            return f"{number:.0f}{unit}"
    return f"{round(seconds, 6):.15g}s"


def moment_of(text: str) -> datetime:
    """Return the moment of a date, or a date and time, in ISO 8601; in UTC without an offset.

    Raises:
        ValueError: When it is none; the message says how to write one.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a day or a moment, such as 2026-11-22T13:00") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

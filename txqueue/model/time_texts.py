"""Reads lengths of time, dates and times as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["read_length", "read_moment"]

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def read_length(text: str) -> timedelta:
    """Return a length of time, such as 90s, 5min, 2h or 1d; a bare number has seconds.

    Raises:
        ValueError: When the text is not a length of time.
    """
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip() or "s"
    if unit not in _UNITS or not float(number) >= 0:
        raise ValueError(text)
    try:
        return timedelta(seconds=float(number) * _UNITS[unit])
    except OverflowError:
        raise ValueError(text) from None


def read_moment(text: str) -> datetime:
    """Return a date, or a date and time, in ISO 8601, in UTC unless it has an offset.

    Raises:
        ValueError: When the text is not a moment.
    """
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

"""Moments of a job's facts, as PostgreSQL writes them in JSON; Python lacks some of them."""

from __future__ import annotations

from datetime import UTC, datetime

__all__ = ["seconds_between", "shown_moment"]


def shown_moment(text: str) -> str:
    """Return a moment for people; one that Python cannot have stays as it is written."""
    parsed = _parsed(text) if not text.endswith("infinity") else None
    is_far = parsed is None or parsed.year in (datetime.min.year, datetime.max.year)
    return text if is_far else f"{parsed:%Y-%m-%d %H:%M:%S %z}"


def seconds_between(later: str, earlier: str) -> float:
    """Return the seconds from one moment to a later one, which may be infinite."""
    if later.endswith("infinity"):
        return float("-inf") if later.startswith("-") else float("inf")
    return (_parsed(later) - _parsed(earlier)).total_seconds()


def _parsed(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        # A timestamp before year 1 or after 9999: use the nearest that Python has.
        return (datetime.min if text.endswith("BC") else datetime.max).replace(tzinfo=UTC)

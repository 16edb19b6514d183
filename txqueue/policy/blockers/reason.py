"""One reason why a job does not run, and how the facts about it are read and written for people."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, Final

from attrs import frozen

from txqueue.model.humanize import age
from txqueue.model.shell_commands import limit_command

__all__ = [
    "HEAVY_HEAD",
    "Blocker",
    "Facts",
    "Gravity",
    "ago",
    "control",
    "is_due",
    "raised",
    "seconds_between",
    "shown_moment",
    "until",
]


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


Facts = Mapping[str, Any]


class Gravity(IntEnum):
    """What it takes until a job runs; the gravest last."""

    COURSE = 0
    """Only time, or the ends of other jobs."""
    ACT = 1
    """An act of an operator: something was stopped on purpose, or a session holds a lock."""
    FAULT = 2
    """A repair: no node can run the job."""


HEAVY_HEAD: Final = "heavy_head"
"""The kind of the warning about a job that runs without an act, but keeps others waiting."""


@frozen
class Blocker:
    """One reason why a job does not run.

    Attributes:
        reason: One word for programs; see `Explanation`.
        detail: The reason in one sentence for people.
        remedy: What would make the job run.
        gravity: What it takes.
        kind: The kind of the warning about it, if a warning counts its jobs by name already.
        is_open: Whether a signal has to come, which is neither an act nor a matter of time.
    """

    reason: str
    detail: str
    remedy: str
    gravity: Gravity = Gravity.COURSE
    kind: str = "blocked_jobs"
    is_open: bool = False


def control(facts: Facts, kind: str) -> Mapping[str, Any]:
    """Return the limits and the pause of the job's queue, group or tenant."""
    return next((row for row in facts["controls"] if row["kind"] == kind), {})


def is_due(facts: Facts) -> bool:
    """Tell whether the moment has come before which the job may not run."""
    return seconds_between(facts["job"]["not_before"], facts["now"]) <= 0


def raised(kind: str, key: str, option: str) -> str:
    """Return how to raise a limit."""
    return f"to allow more: {limit_command(kind, key, f'{option} N')}"


def ago(facts: Facts, column: str) -> str:
    """Return how long ago a moment of the job was."""
    return age(seconds_between(facts["now"], facts["job"][column]))


def until(facts: Facts, moment: str) -> str:
    """Return when a moment will be."""
    left = seconds_between(moment, facts["now"])
    if left == float("inf"):
        return "never"
    return f"in {age(left)}" if left >= 1 else "about now"

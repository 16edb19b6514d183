"""Decides, without I/O, when schedules start that are overdue because no node ticked them."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

from attrs import frozen

__all__ = ["DueStart", "start_delays"]

# A start that is late by more seconds is overdue: so much is the delay between two checks.
LATE = 1.0
# Cron schedules are not spread: many that name the same minute start together at all times.
# Overdue starts are spread over this multiple of the longest time that one of them is overdue, so
# that a short hiccup delays none of them for long; and at least so many begin in each second.
SPREAD, LEAST_A_SECOND = 2.0, 1.0


@frozen
class DueStart:
    """A cool-down, or a schedule of even intervals, that is due.

    Attributes:
        name: The schedule's name.
        seconds: Its time between the end of a job and the start of the next, or its interval.
        priority: The priority of its jobs.
        late: The seconds since it was due.
    """

    name: str
    seconds: float
    priority: int
    late: float


def start_delays(starts: Sequence[DueStart]) -> dict[str, float]:
    """Spread overdue starts over the schedules' own length.

    Cool-downs that start together end together, and would do so again and again.

    Args:
        starts: All cool-downs and even intervals that are due now.

    Returns:
        The seconds from now to the start of each that is delayed, by name. Those of the highest
        priority start first; among the others, the order is the same on every node.
    """
    overdue = sorted((start for start in starts if start.late > LATE), key=_order)
    window = SPREAD * max((start.late for start in overdue), default=0.0)
    return {
        start.name: min(min(start.seconds, window) * place / len(overdue), place / LEAST_A_SECOND)
        for place, start in enumerate(overdue)
        if place
    }


def _order(start: DueStart) -> tuple[int, bytes]:
    """Order by priority; then by chance, as neighbours may have cool-downs of the same length."""
    text = start.name.encode(errors="surrogatepass")
    return -start.priority, blake2b(text, digest_size=8).digest()

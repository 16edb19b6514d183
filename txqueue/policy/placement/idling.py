"""Decides, without I/O, which idle nodes a notification wakes, and how often they poll."""

from __future__ import annotations

import re

from attrs import frozen

__all__ = ["WakePlace", "idle_delay", "is_about_jobs", "wakes"]

# The text of a notification by wake_masters(): how many jobs at least, and the transaction.
_TEXT = re.compile(r"jobs(?: (\d{1,18}) (\d{1,20}))?")
# The fewest nodes that a notification wakes: one may just have died, another have got other jobs.
WOKEN = 4
# A master whose claim found nothing claims again soon, as an enqueue may have read the sleep flag
# before the master set it; then at growing intervals. The longest interval grows with the number
# of nodes: together they still poll SHARED times a second or more.
FIRST_IDLE, LONGEST_IDLE, SHARED, LONGEST_OF_MANY = 0.05, 1.0, 16, 4.0


@frozen
class WakePlace:
    """The place of a node among the live nodes that have room and serve the same queues and types.

    Attributes:
        number: The place, from 0.
        of: How many nodes there are.
    """

    number: int
    of: int


def is_about_jobs(text: str) -> bool:
    """Whether a notification is about jobs only, and not about schedules."""
    return _TEXT.fullmatch(text) is not None


def wakes(text: str, place: WakePlace | None) -> bool:
    """Return whether a notification wakes a node.

    As many nodes wake as there are jobs, and at least `WOKEN`; which ones changes from transaction
    to transaction.

    Args:
        text: The text of the notification.
        place: The node's place; None if it is not known.
    """
    if place is None or place.of <= WOKEN:
        return True
    matched = _TEXT.fullmatch(text)
    if matched is None or matched[1] is None:
        return True
    jobs, transaction = int(matched[1]), int(matched[2])
    return (place.number - transaction * WOKEN) % place.of < max(jobs, WOKEN)


def idle_delay(empty_claims: int, place: WakePlace | None = None) -> float:
    """Return the seconds to sleep after a number of claims in a row found nothing.

    Args:
        empty_claims: How many claims.
        place: The node's place among nodes of its kind; None if it is not known.
    """
    nodes = 1 if place is None else place.of
    longest = min(max(LONGEST_IDLE, nodes / SHARED), LONGEST_OF_MANY)
    delay: float = FIRST_IDLE * (1 << min(empty_claims - 1, 20))
    return min(delay, longest)

"""Decides, without I/O, which idle nodes a notification wakes, and how often they poll."""

from __future__ import annotations

import re

from attrs import frozen

# The text of a notification by wake_masters(): how many jobs at least, and the transaction.
_TEXT = re.compile(r"jobs(?: (\d{1,18}) (\d{1,20}))?")
# The fewest nodes that a notification wakes: one may just have died, another have got other jobs.
WOKEN = 4
# A master whose claim found nothing claims again soon, as an enqueue may have read the sleep flag
# before the master set it; then at growing intervals. The longest interval grows with the number
# of nodes: together they still poll SHARED times a second or more.
FIRST_IDLE, LONGEST_IDLE, SHARED, LONGEST_OF_MANY = 0.05, 1.0, 16, 4.0
# While heartbeats look and notifications are known to arrive, claims are rare from the one on that
# follows about ten seconds without a job.
SLOW_FROM = 14
# Seconds between two looks of an idle node, and between two claims if heartbeats look as often.
LOOK, SELDOM = 4.0, 10.0
# Heartbeats in a lease, and the fewest: a node that is silent for longer is suspected by its peers.
BEATS_A_LEASE, LEAST_BEATS = 4, 3


@frozen
class IdlePace:
    """How often a node sends statements while no node has jobs and notifications arrive.

    Each heartbeat looks for jobs and schedules, and wakes what acts on them; so nothing waits
    longer for a lost notification than until the next heartbeat or claim.

    Attributes:
        lease: The node's lease in seconds.
        poll: The longest time without a look, in seconds; None for the usual one.
    """

    lease: float
    poll: float | None = None

    @property
    def beat(self) -> float:
        """Seconds between two heartbeats while any node has jobs."""
        return self.lease / BEATS_A_LEASE

    @property
    def idle_beat(self) -> float:
        """Seconds between two heartbeats of an idle node."""
        return min(max(self.beat, self.poll or 0.0), self.lease / LEAST_BEATS)

    @property
    def claim(self) -> float:
        """The most seconds between two claims of an idle node."""
        look = LOOK if self.poll is None else self.poll
        return max(look, SELDOM) if self.idle_beat <= look else look

    def upkeep(self, usual: float) -> float:
        """Return the seconds between two steps of other services, for the usual ones."""
        return max(usual, self.poll or 0.0)


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


def idle_delay(
    empty_claims: int, place: WakePlace | None = None, slowest: float = LONGEST_IDLE
) -> float:
    """Return the seconds to sleep after a number of claims in a row found nothing.

    Args:
        empty_claims: How many claims.
        place: The node's place among nodes of its kind; None if it is not known.
        slowest: The most seconds, if heartbeats look and notifications are known to arrive.
    """
    nodes = 1 if place is None else place.of
    longest = min(max(LONGEST_IDLE, nodes / SHARED), LONGEST_OF_MANY)
    delay: float = FIRST_IDLE * (1 << min(empty_claims - 1, 20))
    return min(delay, longest if empty_claims < SLOW_FROM else max(longest, slowest))

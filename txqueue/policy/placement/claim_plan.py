"""Decides, without I/O, where among the ready jobs a claim begins and how much it asks for, which
idle nodes a notification wakes, and how often they poll.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from attrs import define, evolve, field, frozen

from txqueue.policy.placement.room import Room

# The place of a job among the ready ones: its rank, as text of the server, and its number.
JobPlace = tuple[str, int]
FIRST_PLACE: JobPlace = ("-infinity", 0)
REWIND = 0.1
"""For so many seconds, claims go on at the place that the last one reached, to skip the dead rows
of claimed jobs. A new job of a smaller rank may be claimed that much later. The time is longer
while many ready jobs are of types that only other nodes run, or an old snapshot keeps many dead
rows; then claims that left no job go on as well, for as long as a look back is worth.
"""
# Claims that read much which the node may not take spend no more than this part of the time on it,
# but look back once in LONGEST_REWIND seconds.
SEARCH_SHARE, LONGEST_REWIND = 0.1, 1.0
# The rank that a claim returns if it left jobs because a tenant's or queue's share was used up.
ANYWHERE = FIRST_PLACE[0]


class ClaimPlace:
    """Where claims go on, and when one goes back to the first rank.

    Attributes:
        rewound_at: When the last claim from the first rank began.
    """

    def __init__(self) -> None:
        self.rewound_at = float("-inf")
        self._reached: JobPlace | None = None
        self._has_left = False
        self._interval = 0.0
        # How long the last claim from the first rank searched.
        self._searched = 0.0
        # From when on a claim goes back to jobs that have become ready.
        self._goes_back_from = float("-inf")

    @property
    def is_searching(self) -> bool:
        """Whether a claim from the first rank had to read much that the node may not take."""
        return self._interval > 0

    @property
    def rewind_due(self) -> float:
        """When a claim goes back to the first rank."""
        least = REWIND if self._has_left else 0.0
        return self.rewound_at + max(least, self._interval)

    @property
    def look_due(self) -> float:
        """When to look from the first rank on again if no jobs were left."""
        return self.rewound_at + max(REWIND, self._interval)

    def rewind(self) -> None:
        """Have the next claim begin at the first rank."""
        self.rewound_at = float("-inf")

    def next(self, now: float, freed: JobPlace | None) -> JobPlace | None:
        """Return where a claim begins; None for the first rank.

        Args:
            now: The time.
            freed: The first job that has become ready since the last claim.
        """
        if self._reached is None or now >= self.rewind_due:
            self.rewound_at = now
            return None
        if freed is not None and self.is_searching and now >= self._goes_back_from:
            return earlier(self._reached, freed)
        return self._reached

    def claimed(
        self,
        begun: JobPlace | None,
        reached: JobPlace | None,
        passed: JobPlace | None,
        *,
        searched: float,
        took_jobs: bool,
        now: float,
    ) -> None:
        """Note a claim.

        Args:
            begun: Where it began.
            reached: Where it left ready jobs; None if it left none.
            passed: Where the next one may go on if this one searched.
            searched: The seconds that it spent on what the node may not take.
            took_jobs: Whether it took jobs.
            now: The time after it.
        """
        if begun is None:
            confirmed = confirmed_search(searched, self._searched, took_jobs=took_jobs)
            self._interval = rewind_interval(confirmed)
            self._searched = searched
        else:
            self._goes_back_from = now + rewind_interval(searched)
        self._has_left = reached is not None
        if reached is not None:
            self._reached = None if reached[0] == ANYWHERE else reached
        elif not self.is_searching:
            self._reached = None
        elif begun is None:
            self._reached = passed or self._reached
        elif not searched:
            # Others that become ready may be near the place to which this claim went back.
            self._reached = begun


def rewind_interval(searched: float) -> float:
    """Return the seconds between two claims that read the ready jobs from the first one on.

    Args:
        searched: The seconds that the last such claim spent on what the node may not take; 0 if
            it had not to search.
    """
    return min(searched / SEARCH_SHARE, LONGEST_REWIND)


def confirmed_search(searched: float, before: float, *, took_jobs: bool) -> float:
    """Return the seconds that a claim is believed to have spent on what the node may not take.

    On a busy server a claim that takes jobs is often interrupted for as long, which would make jobs
    of a smaller rank wait. What must be read past is there again at the next look back.

    Args:
        searched: The seconds by the claim.
        before: The seconds by the last claim from the first job on before it.
        took_jobs: Whether the claim took jobs.
    """
    return min(searched, before) if took_jobs else searched


def earlier(one: JobPlace, other: JobPlace) -> JobPlace:
    """Return the first of two places; the first of all if their ranks cannot be compared."""
    try:
        return min(one, other, key=_key)
    except (TypeError, ValueError):
        # Not each moment of the server is one of Python, nor in this form behind every pooler.
        return FIRST_PLACE


def _key(place: JobPlace) -> tuple[datetime, int]:
    return datetime.fromisoformat(place[0]), place[1]


# By how much claims shrink each time, and to which part at most; each one too many costs a
# statement's patience. They double again after one that took less than QUICK seconds.
SHRINKAGE, LEAST, QUICK = 8, 4096, 1.0


@define
class ClaimShare:
    """The part of its queues and of the workers' room that a node's next claim asks for.

    Args:
        all_queues: The queues that the node serves.

    Attributes:
        parts: How many claims ask for all queues, one after the other.
    """

    all_queues: Sequence[str]
    parts: int = field(default=1, init=False)
    _turn: int = field(default=0, init=False)

    @property
    def is_part(self) -> bool:
        """Whether a claim asks for less than there is."""
        return self.parts > 1

    def shrink(self) -> None:
        """Have claims ask for less, as one took too long."""
        self.parts = min(self.parts * SHRINKAGE, LEAST)

    def answered(self, seconds: float) -> None:
        """Have claims ask for more if one was answered quickly."""
        if seconds < QUICK:
            self.parts = max(1, self.parts // 2)

    def next_queues(self) -> Sequence[str]:
        """Return the queues of the next claim: of a part, others each time."""
        self._turn += 1
        parts = min(self.parts, len(self.all_queues))
        return self.all_queues[self._turn % parts :: parts]

    def of(self, room: Room) -> Room:
        """Return the room of the next claim, with space for the heaviest job all the same."""
        free = max(room.free // self.parts, min(room.free, room.largest))
        return evolve(room, free=free, ahead=min(room.ahead, free)) if self.is_part else room


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

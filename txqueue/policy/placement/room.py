"""Decides how much a claim takes, when it runs, which worker gets jobs or gives them back;
unstarted jobs are divided among peers and released.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

from attrs import frozen

from txqueue.model.assignment import JobKey

# A worker holds the jobs it runs, and as many more as it finishes in this many seconds.
HORIZON = 0.1
MOST_AHEAD = 20_000
# Half-life, in seconds, of what a worker's measured pace remembers.
MEMORY = 0.1
# The least time, in seconds, over which the pace is measured.
PACE_WINDOW = 0.02
# The longest delay between two claims while there is little room, seconds; and while jobs wait in
# each worker, in which about half of what it was sent in advance is finished. It is over once less
# than RESERVE of that is left in one.
CLAIM_PAUSE, STOCKED_PAUSE, RESERVE = 0.008, HORIZON / 2, 0.3
# The most jobs that a claim of ordinary jobs takes, usually and in a stream: one worker gets them.
# So many new jobs in a claim are a stream.
FEW, MANY, STREAM = 15, 64, 16


@frozen
class Load:
    """The load of one worker.

    Attributes:
        key: Identifies the worker.
        capacity: The weight that it runs at a time.
        outstanding: The weight of the jobs that it has got and not yet reported as finished.
        rate: The weight that it has recently finished per second.
        left: The part of `outstanding` that threads of ended jobs keep.
    """

    key: int
    capacity: int
    outstanding: int
    rate: float = 0.0
    left: int = 0

    @property
    def limit(self) -> int:
        """The weight that the worker may hold: its capacity, plus what it finishes in a tenth of a
        second.
        """
        return self.capacity + min(int(self.rate * HORIZON), MOST_AHEAD)

    @property
    def free(self) -> int:
        """The weight that can still be handed to the worker."""
        return max(0, self.limit - self.outstanding)

    @property
    def idle(self) -> int:
        """The weight that the worker could start at once."""
        return max(0, self.capacity - self.outstanding)


@frozen
class Room:
    """What a claim may take.

    Attributes:
        free: The weight that all workers together can still take.
        limit: The weight that all workers could take if they held nothing.
        largest: The weight of the heaviest job for which a worker has room.
        capacity: The largest capacity of a worker.
        workers: How many workers have room.
        ahead: The part of `limit` that workers have beyond their capacity, as they end jobs
            quickly.
        is_stocked: Whether each worker holds what it can run at a time, and some of what it got in
            advance.
    """

    free: int
    limit: int
    largest: int
    capacity: int
    workers: int
    ahead: int = 0
    is_stocked: bool = False


def room_of(loads: Iterable[Load]) -> Room:
    """Return what a claim may take, from the load of each worker."""
    # In one loop: this is computed for each claim, and so for each job that comes alone.
    free = limit = largest = capacity = workers = ahead = 0
    is_stocked = True
    for load in loads:
        its_limit = load.limit
        its_room = its_limit - load.outstanding
        limit += its_limit
        ahead += its_limit - load.capacity
        capacity = max(capacity, load.capacity)
        stock = load.capacity + RESERVE * (its_limit - load.capacity)
        is_stocked = is_stocked and load.outstanding >= stock
        if its_room > 0:
            free += its_room
            if load.left:
                # No end of a job makes room for a heavier one.
                its_room = min(its_room, load.capacity - load.left)
            largest = max(largest, its_room)
            workers += 1
    return Room(free, limit, largest, capacity, workers, ahead, is_stocked and capacity > 0)


def least_loaded(loads: Sequence[Load]) -> Load:
    """Return the load of the worker that can start most at once; on a tie, has most room."""
    return max(loads, key=lambda load: (load.idle, load.free, -load.outstanding, -load.key))


def ahead_of(loads: Iterable[Load]) -> tuple[int, int]:
    """Return the weight that waits in the workers, and how much of it exceeds their limits."""
    known = list(loads)
    ahead = sum(max(0, load.outstanding - load.capacity) for load in known)
    return ahead, sum(max(0, load.outstanding - load.limit) for load in known)


def give_back_shares(loads: Sequence[Load], most: int | None) -> dict[int, int | None]:
    """Decide how much of its waiting work each worker gives back.

    Args:
        loads: The load of each worker.
        most: The total weight to give back; None for all of it.

    Returns:
        The weight that each worker gives back, by its key; None for all that waits in it. The
        worker with the most waiting work gives first.
    """
    if most is None:
        return {load.key: None for load in loads}
    shares: dict[int, int | None] = {}
    for load in sorted(loads, key=lambda load: load.capacity - load.outstanding):
        shares[load.key] = share = min(most, max(0, load.outstanding - load.capacity))
        most -= share
    return shares


def updated_rate(rate: float, weight: int, seconds: float) -> float:
    """Return a worker's new pace from its former pace and the weight it has finished since."""
    if seconds <= 0:
        return rate
    keep = math.pow(0.5, seconds / MEMORY)
    return rate * keep + weight / seconds * (1 - keep)


class PaceMeter:
    """Measures the weight that a worker finishes per second.

    Args:
        now: The time by the monotonic clock.

    Attributes:
        measured_at: When the rate was measured last.
    """

    __slots__ = ("_rate", "_weight", "measured_at")

    def __init__(self, now: float) -> None:
        self.measured_at = now
        self._rate = 0.0
        self._weight = 0

    def add(self, weight: int, now: float) -> None:
        """Note that the worker has finished jobs."""
        self._weight += weight
        if (elapsed := now - self.measured_at) >= PACE_WINDOW:
            self._rate = updated_rate(self._rate, self._weight, elapsed)
            self.measured_at, self._weight = now, 0

    def rate(self, now: float) -> float:
        """Return the weight per second; it falls while the worker finishes nothing."""
        elapsed = now - self.measured_at
        if elapsed < PACE_WINDOW:
            return self._rate
        rate = updated_rate(self._rate, self._weight, PACE_WINDOW)
        return updated_rate(rate, 0, elapsed - PACE_WINDOW)


def claim_delay(room: Room, since_last: float) -> float | None:
    """Return how long to wait before the next claim, so that claims are large while workers are
    busy.

    Args:
        room: What the workers can still take.
        since_last: Seconds since the last claim began.

    Returns:
        Seconds; None to wait until a job finishes.
    """
    if room.free == 0:
        return None
    if room.free * 4 >= room.limit:
        return 0.0
    return max(0.0, (STOCKED_PAUSE if room.is_stocked else CLAIM_PAUSE) - since_last)


def is_stream(jobs: int) -> bool:
    """Return whether a claim took so many new jobs that the next one finds several, too."""
    return jobs >= STREAM


def ordinary_jobs(room: Room, *, in_stream: bool) -> int:
    """Return how many jobs a claim of ordinary jobs takes at most, which one worker gets.

    Args:
        room: What the workers can still take.
        in_stream: Whether many are expected.
    """
    return min(MANY if in_stream else FEW, room.largest)


@frozen
class Unstarted:
    """Jobs that workers gave back unstarted.

    Attributes:
        jobs: The jobs.
        weight: The sum of their weights; an estimate if they are a part of other unstarted jobs.
    """

    jobs: Sequence[JobKey] = ()
    weight: int = 0

    def __add__(self, other: Unstarted) -> Unstarted:
        return Unstarted([*self.jobs, *other.jobs], self.weight + other.weight)

    @property
    def ids(self) -> dict[int, list[int]]:
        """The numbers of the jobs by assignment."""
        ids: dict[int, list[int]] = {}
        for assignment, job_id in self.jobs:
            ids.setdefault(assignment, []).append(job_id)
        return ids

    def without(self, gone: Collection[int]) -> Unstarted:
        """Return the jobs whose numbers are not in `gone`."""
        return self._part([job for job in self.jobs if job.job_id not in gone])

    def cut(self, weight: int) -> tuple[Unstarted, Unstarted]:
        """Divide the jobs into a part of about a given weight, and the rest."""
        jobs = -(-weight * len(self.jobs) // max(1, self.weight))
        return self._part(self.jobs[:jobs]), self._part(self.jobs[jobs:])

    def batches(self, most: int) -> list[Unstarted]:
        """Divide the jobs into parts of at most `most` jobs."""
        starts = range(0, len(self.jobs), most)
        return [self._part(self.jobs[start : start + most]) for start in starts]

    def _part(self, jobs: Sequence[JobKey]) -> Unstarted:
        return Unstarted(jobs, self.weight * len(jobs) // max(1, len(self.jobs)))

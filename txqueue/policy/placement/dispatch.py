"""Decides, without I/O, how much a claim takes, when it runs, and which worker gets its jobs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

__all__ = [
    "Load",
    "NodeLoad",
    "Room",
    "claim_delay",
    "credit_limit",
    "is_too_fast",
    "least_loaded",
    "new_credit",
    "open_credit",
    "rewind_interval",
    "room_of",
    "updated_rate",
]

# A worker holds the jobs it runs, and as many more as it finishes in this many seconds.
HORIZON = 0.1
MOST_AHEAD = 20_000
# Half-life, in seconds, of what a worker's measured pace remembers.
MEMORY = 0.1
# The longest delay between two claims while there is little room, seconds.
CLAIM_PAUSE = 0.008
# Claims that read many ready jobs which the node may not take, such as jobs of other nodes' types,
# spend no more than this part of the time on it, but look back once in LONGEST_REWIND seconds.
SEARCH_SHARE, LONGEST_REWIND = 0.1, 1.0
# The weight that one client may enqueue as assigned before its node grants more credit, and the
# steps in which credit is spread over the nodes.
MOST_CREDIT, CREDIT_STEP = 32, 4


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
    """

    free: int
    limit: int
    largest: int
    capacity: int
    workers: int


@frozen
class NodeLoad:
    """The load of one node of the cluster, for direct dispatch.

    Attributes:
        node_id: The node.
        incarnation: The node's run.
        outstanding: The weight of the jobs that the node has got and not yet finished, plus the
            weight granted to clients as credit.
        capacity: The weight that the node can take in all.
    """

    node_id: int
    incarnation: int
    outstanding: int
    capacity: int

    @property
    def fullness(self) -> float:
        """The node's load as a fraction of its capacity."""
        return self.outstanding / self.capacity if self.capacity > 0 else 1.0


def credit_limit(nodes: Sequence[NodeLoad], clients: int) -> int:
    """Return the credit that each client may have: an equal share of the nodes, up to a limit."""
    total = sum(node.capacity for node in nodes)
    return min(MOST_CREDIT, total // max(1, clients))


def new_credit(nodes: Sequence[NodeLoad], weight: int) -> dict[int, int]:
    """Spread new credit over the nodes, each step to the least loaded node that has room for it.

    Args:
        nodes: The loads of the nodes, first that of the granting node, which wins ties.
        weight: The largest weight to spread.

    Returns:
        The credit by incarnation; less than `weight` in all if the nodes have less room.
    """
    given: dict[int, int] = {}
    loads = list(nodes)
    while weight > 0 and loads:
        step = min(CREDIT_STEP, weight)
        chosen = min(loads, key=lambda node: node.fullness)
        if chosen.outstanding + step > chosen.capacity:
            loads.remove(chosen)
            continue
        given[chosen.incarnation] = given.get(chosen.incarnation, 0) + step
        loads[loads.index(chosen)] = evolve(chosen, outstanding=chosen.outstanding + step)
        weight -= step
    return given


def room_of(loads: Iterable[Load]) -> Room:
    """Return what a claim may take, from the load of each worker."""
    # In one loop: this is computed for each claim, and so for each job that comes alone.
    free = limit = largest = capacity = workers = 0
    for load in loads:
        its_limit = load.limit
        its_room = its_limit - load.outstanding
        limit += its_limit
        capacity = max(capacity, load.capacity)
        if its_room > 0:
            free += its_room
            if load.left:
                # No end of a job makes room for a heavier one.
                its_room = min(its_room, load.capacity - load.left)
            largest = max(largest, its_room)
            workers += 1
    return Room(free=free, limit=limit, largest=largest, capacity=capacity, workers=workers)


def least_loaded(loads: Sequence[Load]) -> Load:
    """Return the load of the worker that can start most at once; on a tie, has most room."""
    return max(loads, key=lambda load: (load.idle, load.free, -load.outstanding, -load.key))


def updated_rate(rate: float, weight: int, seconds: float) -> float:
    """Return a worker's new pace from its former pace and the weight it has finished since."""
    if seconds <= 0:
        return rate
    keep = math.pow(0.5, seconds / MEMORY)
    return rate * keep + weight / seconds * (1 - keep)


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
    return max(0.0, CLAIM_PAUSE - since_last)


def rewind_interval(least: float, searched: float) -> float:
    """Return the seconds between two claims that read the ready jobs from the first one on.

    Args:
        least: The interval when the claims need not search.
        searched: The seconds that the last such claim spent on jobs that the node may not take.
    """
    return max(least, min(searched / SEARCH_SHARE, LONGEST_REWIND))


# The most jobs for a node that is alone, and the most while there are others: it is used up soon,
# so that the nodes take turns.
MOST, TURN = 32, 8
# Jobs a second, and part of the time, from which on they are claimed, many at a time: the
# notification of a commit holds a lock of the whole server until the commit is on disk, so that
# other commits with notifications wait.
MOST_A_SECOND, MOST_OF_THE_TIME = 1_000, 0.5


def open_credit(room: Room, *, is_alone: bool) -> int:
    """Return how many jobs any session may enqueue as assigned to a node.

    Args:
        room: What the node's workers can still take.
        is_alone: Whether no other node can take the same jobs.
    """
    return min(MOST if is_alone else TURN, room.free // 2)


def is_too_fast(jobs: int, seconds: float, committing: float) -> bool:
    """Return whether jobs were enqueued too fast to be assigned one by one.

    Args:
        jobs: How many were enqueued as assigned.
        seconds: The time since they could be.
        committing: How long their commits took, in seconds.
    """
    return jobs > seconds * MOST_A_SECOND or committing > seconds * MOST_OF_THE_TIME

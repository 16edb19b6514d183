"""Dispatch: room, least load, claim pauses. Decisions on values, without reactor or database."""

import math
from collections.abc import Iterable, Sequence

from attrs import evolve, frozen

__all__ = [
    "Load",
    "NodeLoad",
    "Room",
    "claim_delay",
    "credit_limit",
    "idle_delay",
    "least_loaded",
    "new_credit",
    "room_of",
    "updated_rate",
]

# A worker holds what it runs and what it will run within this many seconds, judged by its pace.
HORIZON = 0.1
MOST_AHEAD = 20_000
# Half of a pace is forgotten in so many seconds: a burst is followed as soon as that.
MEMORY = 0.1
# How far the next claim may follow the last while there is little room, seconds.
CLAIM_PAUSE = 0.008
# A master that finds nothing looks again soon, because an enqueue may have read the sleep flag
# before it was set, and then ever more seldom.
FIRST_IDLE, LONGEST_IDLE = 0.05, 1.0
# Weight of the jobs that one client may enqueue assigned before its node grants more, and the
# steps in which it is spread over the nodes.
MOST_CREDIT, CREDIT_STEP = 32, 4


@frozen
class Load:
    """What one worker holds.

    Attributes:
        key: Names the worker.
        capacity: Weight it may run at a time.
        outstanding: Weight handed to it and not yet reported back.
        rate: Weight it finishes a second, of late.
    """

    key: int
    capacity: int
    outstanding: int
    rate: float = 0.0

    @property
    def limit(self) -> int:
        """Weight it may hold: its capacity, and ahead of it what its pace carries off soon."""
        return self.capacity + min(int(self.rate * HORIZON), MOST_AHEAD)

    @property
    def free(self) -> int:
        """Weight it can still be handed."""
        return max(0, self.limit - self.outstanding)

    @property
    def idle(self) -> int:
        """Weight it could start at once."""
        return max(0, self.capacity - self.outstanding)


@frozen
class Room:
    """What a claim may take.

    Attributes:
        free: Weight that all workers together can be handed.
        limit: Weight they could be handed if they held nothing.
        largest: Weight of the heaviest job that some worker can be handed.
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
    """What one node of the cluster holds, or may be handed by clients with credit for it.

    Attributes:
        node_id: The node.
        incarnation: Its run.
        outstanding: Weight handed to it and not yet reported back, and weight in credit.
        capacity: Weight that it can be handed in all.
    """

    node_id: int
    incarnation: int
    outstanding: int
    capacity: int

    @property
    def fullness(self) -> float:
        """What it holds, as a part of what it can be handed."""
        return self.outstanding / self.capacity if self.capacity > 0 else 1.0


def credit_limit(nodes: Sequence[NodeLoad], clients: int) -> int:
    """Say how much credit each of some clients may have: their share of the nodes, to a bound."""
    total = sum(node.capacity for node in nodes)
    return min(MOST_CREDIT, total // max(1, clients))


def new_credit(nodes: Sequence[NodeLoad], weight: int) -> dict[int, int]:
    """Spread new credit over nodes, each step to the least loaded one that has room for it.

    Args:
        nodes: The own node first: it wins ties.
        weight: How much to spread at most.

    Returns:
        Weight by incarnation; less in all if there is less room.
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
    """Sum up what a claim may take."""
    known = list(loads)
    return Room(
        free=sum(load.free for load in known),
        limit=sum(load.limit for load in known),
        largest=max((load.free for load in known), default=0),
        capacity=max((load.capacity for load in known), default=0),
        workers=sum(load.free > 0 for load in known),
    )


def least_loaded(loads: Sequence[Load]) -> Load:
    """Choose the worker for a chunk: that which can start most, then that with most room."""
    return max(loads, key=lambda load: (load.idle, load.free, -load.outstanding, -load.key))


def updated_rate(rate: float, weight: int, seconds: float) -> float:
    """Fold what was finished in the last seconds into a pace, older times fading."""
    if seconds <= 0:
        return rate
    keep = math.pow(0.5, seconds / MEMORY)
    return rate * keep + weight / seconds * (1 - keep)


def claim_delay(room: Room, since_last: float) -> float | None:
    """Say how long to wait before the next claim, so that claims are large while workers are busy.

    Args:
        room: What the workers can be handed.
        since_last: Seconds since the last claim began.

    Returns:
        Seconds; None to wait until something is finished.
    """
    if room.free == 0:
        return None
    if room.free * 4 >= room.limit:
        return 0.0
    return max(0.0, CLAIM_PAUSE - since_last)


def idle_delay(empty_claims: int) -> float:
    """Say how long to sleep after so many claims in a row found nothing, seconds."""
    delay = FIRST_IDLE * (1 << min(empty_claims - 1, 20))
    return min(delay, LONGEST_IDLE)

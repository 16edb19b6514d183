"""Who gets what: decisions on plain values, without a reactor or a database."""

import math
from collections.abc import Iterable, Sequence

from attrs import frozen

__all__ = ["Load", "Room", "claim_delay", "idle_delay", "least_loaded", "room_of", "updated_rate"]

# A worker holds what it runs and what it will run within this many seconds, judged by its pace.
HORIZON = 0.1
MOST_AHEAD = 20_000
# How far the next claim may follow the last while there is little room, seconds.
CLAIM_PAUSE = 0.008
# A master that finds nothing looks again soon, because an enqueue may have read the sleep flag
# before it was set, and then ever more seldom.
FIRST_IDLE, LONGEST_IDLE = 0.05, 1.0


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
    """Choose the worker for a chunk: the most free weight, then the least outstanding."""
    return max(loads, key=lambda load: (load.free, -load.outstanding, -load.key))


def updated_rate(rate: float, weight: int, seconds: float, memory: float = 0.25) -> float:
    """Fold what was finished in the last seconds into a pace, older times fading."""
    keep = math.pow(0.5, seconds / memory)
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

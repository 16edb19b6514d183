"""What services of a node are built with in tests, where several need the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

from attrs import define, field

from txqueue.model.assignment import Assignment, CancelledJob, StartedJob
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.periodic import Alarm
from txqueue.policy.placement.room import Load, Room, Unstarted

NODE, INCARNATION = 1, 7


def lease_of(incarnation: int = INCARNATION, node_id: int = NODE) -> Lease:
    """A lease that holds as long as no test takes it away."""
    lease = Lease(float("inf"))
    lease.register(Identity(node_id, incarnation))
    lease.renew(0.0)
    lease.note_answer()
    return lease


class Loop:
    """A reactor that records calls of `stop`."""

    def __init__(self) -> None:
        self.stops = 0

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any) -> None:
        """Call at once: it runs."""
        callable(*args)

    def stop(self) -> None:
        """Count it."""
        self.stops += 1


@define
class Named:
    """An inbox: the assignments that it is to read."""

    numbers: list[int] = field(factory=list)
    is_empty: bool = True

    def read(self, assignments: Sequence[int]) -> None:
        """Note them."""
        self.numbers += assignments


@define
class Workers:
    """Workers that run nothing: they note what they are handed, and have room for it."""

    capacity: int = 100
    held: int = 0
    performed: list[Assignment] = field(factory=list)
    jobs: dict[int, set[int]] = field(factory=dict)
    loads: list[Load] = field(factory=list)
    unstarted: Unstarted = field(factory=Unstarted)
    asked: list[int | None] = field(factory=list)
    cancelled: list[CancelledJob] = field(factory=list)
    takes_suspects: bool = True

    @property
    def room(self) -> Room:
        """What is not held."""
        free = max(0, self.capacity - self.held)
        return Room(free, self.capacity, free, self.capacity, int(free > 0))

    @property
    def load(self) -> float:
        """The part that is held."""
        return self.held / self.capacity

    def perform(self, assignments: Sequence[Assignment]) -> None:
        """Hold the assignments without end."""
        self.performed += assignments
        self.held += sum(each.weight for each in assignments)

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Give up the tail."""
        self.asked.append(most)
        part, self.unstarted = self.unstarted.cut(1_000_000 if most is None else most)
        return part

    def cancel(self, job: CancelledJob) -> None:
        """Note it."""
        self.cancelled.append(job)

    @property
    def assignments(self) -> list[int]:
        """The assignments that are held."""
        return list(self.jobs)

    @property
    def holdings(self) -> Counter[int]:
        """How many jobs of each."""
        return Counter({assignment: len(ids) for assignment, ids in self.jobs.items()})

    async def holds(self, assignments: Collection[int]) -> dict[int, set[int]]:
        """Which jobs those are."""
        return {assignment: self.jobs.get(assignment, set()) for assignment in assignments}


@define
class Records:
    """What writes down how jobs end: how much was noted, and how much is written."""

    noted: int = 0
    written: int = 0
    given_back: list[tuple[int, list[int] | None]] = field(factory=list)
    started: list[StartedJob] = field(factory=list)

    @property
    def mark(self) -> int:
        """How many ends were noted."""
        return self.noted

    def has_written(self, mark: int) -> bool:
        """Tell whether so many are written."""
        return self.written >= mark

    @property
    def is_clean(self) -> bool:
        """Whether all is written."""
        return self.written >= self.noted

    def start(self, jobs: Iterable[StartedJob]) -> None:
        """Note what runs."""
        self.started += jobs

    def give_back(self, assignment: int, *, died: bool, ids: list[int] | None = None) -> None:
        """Note it."""
        assert not died
        self.given_back.append((assignment, ids))


def fake(double: object) -> Any:
    """A double of a service, as the service's type for the type checker."""
    return double


def is_rung(alarm: Alarm) -> bool:
    """Tell whether an alarm was rung since it was last waited for, and wait for it."""
    rung, alarm._rung = alarm._rung, False
    return rung

"""Nodes without processes: real distribution of jobs among workers that only hold them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import define, field
from twisted.internet.task import Clock

from txqueue.model.assignment import Assignment
from txqueue.node.workers.suspects import Suspects, blocking_report
from txqueue.node.workers.workload import Workers
from txqueue.policy.placement.room import Load

__all__ = ["CLOSED", "HeldWorker", "ModelledNode"]

CLOSED = ("blocked", "stuck", "starting", "crowded", "open")
"""What a worker may be."""


@define(eq=False)
class HeldWorker:
    """A worker process that holds what it is given until a test ends them."""

    key: int
    capacity: int
    is_ready: bool = True
    is_late: bool = False
    is_stuck: bool = False
    is_apart: bool = False
    is_ending: bool = False
    weights: dict[int, int] = field(factory=dict)
    held: dict[int, int] = field(factory=dict)
    runs: None = None
    pid: int = 0
    left: int = 0
    rate: float = 0.0
    outlived: tuple[int, ...] = (1,)
    blocking: set[int] = field(factory=set)

    @property
    def outstanding(self) -> int:
        """The weight of the jobs that it holds."""
        return sum(self.weights.values())

    @property
    def weight(self) -> int:
        """The weight that is taken, also by threads of ended jobs."""
        return self.outstanding + self.left

    @property
    def is_crowded(self) -> bool:
        """Whether those keep half of it."""
        return 2 * self.left >= self.capacity

    @property
    def load(self) -> Load:
        """Its load; jobs have ended lately at some rate."""
        return Load(self.key, self.capacity, self.weight, self.rate, self.left)

    @property
    def state(self) -> str:
        """What it is: one of `CLOSED`."""
        if not self.is_ready:
            return "starting"
        if self.left:
            return "crowded"
        return "blocked" if self.is_late else "stuck" if self.is_stuck else "open"

    @property
    def in_flight(self) -> set[int]:
        """The jobs that are said to run: where it is blocked, those that block it."""
        return self.blocking

    @property
    def blocker(self) -> int:
        """The job that blocks it; 0 if one of several does, or none."""
        return next(iter(self.blocking)) if len(self.blocking) == 1 else 0

    @property
    def is_able(self) -> bool:
        """Whether it starts and ends jobs."""
        return self.is_ready and not self.is_late and not self.is_stuck

    def perform(self, assignments: Sequence[Assignment]) -> None:
        """Hold the jobs."""
        for assignment in assignments:
            self.held[assignment.number] = assignment.jobs
            self.weights[assignment.number] = assignment.weight

    def finished(self, assignment: int) -> None:
        """Let go of the jobs of an assignment."""
        self.held.pop(assignment, None)
        if not self.held:
            self.blocking = set()
        self.weights.pop(assignment, None)

    def renew(self, until: float, incarnation: int) -> None:
        """Take no notice: the lease never expires."""

    def becomes(self, state: str) -> None:
        """Be blocked, stuck, starting, crowded by threads of ended jobs, or open."""
        self.left = self.capacity - 1 if state == "crowded" else 0
        self.is_late, self.is_stuck = state == "blocked", state == "stuck"
        self.is_ready = state != "starting"
        self.blocking = set()


@define
class _Returned:
    """Receives the assignments that no worker could take."""

    numbers: list[int] = field(factory=list)

    def give_back(self, assignment: int, *, died: bool, ids: Sequence[int] | None = None) -> None:
        """Note it."""
        assert not died
        assert ids is None
        self.numbers.append(assignment)


class Registry(Protocol):
    """The session that registers nodes."""

    def registered(
        self, name: str, queues: list[str], work_types: Sequence[Mapping[str, Any]], capacity: int
    ) -> tuple[int, int]:
        """Register a run of a node; return its number and its incarnation."""


class ModelledNode:
    """One run of a node: its row, and its workers."""

    def __init__(
        self,
        session: Registry,
        name: str,
        *,
        queues: Sequence[str],
        work_types: Sequence[Mapping[str, Any]],
        keyless: Sequence[str],
        workers: int,
        capacity: int,
    ) -> None:
        self.name, self.queues, self.keyless = name, list(queues), list(keyless)
        self.work_types = [each["work_type"] for each in work_types]
        self.state = "alive"
        self.returned = _Returned()
        self._reported: object = None
        self.capacity = capacity
        self.workers = Workers(
            Clock(),
            count=workers,
            capacity=capacity,
            reports=self.returned,  # type: ignore[arg-type]
            suspects=Suspects(Clock()),
        )
        self._started = workers
        for key in range(workers):
            self.workers.add(HeldWorker(key, capacity))  # type: ignore[arg-type]
        self.node_id, self.incarnation = session.registered(
            name, self.queues, work_types, workers * capacity
        )

    @property
    def each(self) -> list[HeldWorker]:
        """The processes, also those for suspects."""
        return self.workers.all  # type: ignore[return-value]

    @property
    def regular(self) -> list[HeldWorker]:
        """The workers for other jobs than suspects."""
        return [each for each in self.each if not each.is_apart]

    def perform(self, assignment: Assignment) -> None:
        """Hand an assignment to a worker; start a process for one of suspects."""
        if assignment.is_alone:
            self._started += 1
            apart = HeldWorker(self._started, self.capacity, is_apart=True)
            self.workers.add(apart)  # type: ignore[arg-type]
            apart.perform([assignment])
        else:
            self.workers.perform([assignment])

    def report(self) -> dict[str, Any]:
        """What its heartbeats say, as those of a real node do."""
        return {
            "workers": len(self.regular),
            "unable": len(self.workers.regular) - len(self.workers.able),
            "closed": self.workers.closed,
            "room": self.workers.room_report(),
            "left": self.workers.left,
            "keyless": self.keyless,
            **blocking_report(self.workers.all),
        }

    def is_changed(self) -> bool:
        """Whether it has not been asked so since what its heartbeats say has changed."""
        last, self._reported = self._reported, (self.workers.load, self.report())
        return last != self._reported

    def may_take(self, ready: set[tuple[str, str]] | None) -> bool:
        """Whether a claim may find a job: ready ones are of these queues and types, if known."""
        return self.workers.room.free > 0 and (
            ready is None
            or any(queue in self.queues and kind in self.work_types for queue, kind in ready)
        )

    def finished(self, assignment: int) -> None:
        """Note that the jobs of an assignment have ended or were returned."""
        for worker in self.each:
            if assignment in worker.held:
                worker.finished(assignment)
                if worker.is_apart:
                    self.workers.remove(worker)  # type: ignore[arg-type]

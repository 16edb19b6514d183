"""Worker processes simulated inside their masters' process, for benchmarks of many nodes."""

from __future__ import annotations

import json
import os
import socket
from collections import Counter, deque
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from txqueue.model.assignment import AssignedJob, Assignment, read_chunk
from txqueue.node.workers.starter import PIPE_FD
from txqueue.wire.commands import (
    CancelRunning,
    Configure,
    Finish,
    GiveBack,
    Hold,
    Perform,
    RenewLease,
)
from txqueue.wire.pipe import PipeFactory, PromptPipe

__all__ = ["SimulatedWorker", "simulating"]


class SimulatedWorker:
    """The other end of a master's pipe: ends each job after the time that its payload says.

    Args:
        reactor: Times the jobs.
        descriptor: A connected socket.
        capacity: How many jobs it runs at a time.
    """

    def __init__(self, reactor: Any, descriptor: int, capacity: int) -> None:
        self._reactor = reactor
        self._capacity = capacity
        self._waiting: deque[tuple[Assignment, AssignedJob]] = deque()
        self._held: Counter[int] = Counter()
        self._jobs: dict[int, set[int]] = {}
        self._running = 0
        self._pipe = PromptPipe(
            {
                Configure: lambda settings: {},  # noqa: ARG005 - the command's argument
                RenewLease: lambda until, incarnation: {},  # noqa: ARG005
                CancelRunning: lambda assignment, job_id, who: {},  # noqa: ARG005
                Perform: self._perform,
                GiveBack: self._give_back,
                Hold: self._hold,
            },
            lost=lambda: None,
        )
        with socket.socket(fileno=os.dup(descriptor)) as pipe:
            pipe.setblocking(False)
            reactor.adoptStreamConnection(pipe.fileno(), socket.AF_UNIX, PipeFactory(self._pipe))

    def _perform(self, **message: Any) -> dict[str, Any]:
        assignment = Assignment(
            *(
                message[name]
                for name in ("incarnation", "assignment", "lane", "jobs", "weight", "chunk")
            )
        )
        jobs = read_chunk(assignment.chunk)
        self._jobs[assignment.number] = {job.job_id for job in jobs}
        self._waiting.extend((assignment, job) for job in jobs)
        self._begin()
        return {}

    def _begin(self) -> None:
        while self._waiting and self._running < self._capacity:
            self._running += 1
            assignment, job = self._waiting.popleft()
            seconds = dict(job.payload)["seconds"]
            self._reactor.callLater(seconds, self._end, assignment, job.job_id)

    def _end(self, assignment: Assignment, job_id: int) -> None:
        self._running -= 1
        self._let_go(assignment.number, job_id)
        self._pipe.say(
            Finish,
            lane=assignment.lane,
            assignment=assignment.number,
            weight=1,
            jobs=1,
            ids=str(job_id),
            results="",
        )
        self._begin()

    def _let_go(self, assignment: int, job_id: int) -> None:
        self._jobs[assignment].discard(job_id)
        if not self._jobs[assignment]:
            del self._jobs[assignment]

    def _give_back(self, most: int | None = None) -> dict[str, Any]:
        unstarted: dict[int, list[int]] = {}
        count = len(self._waiting) if most is None else min(most, len(self._waiting))
        for _ in range(count):
            assignment, job = self._waiting.pop()
            unstarted.setdefault(assignment.number, []).append(job.job_id)
            self._let_go(assignment.number, job.job_id)
        return {"unstarted": json.dumps(unstarted), "weight": count}

    def _hold(self, assignments: str) -> dict[str, Any]:
        held = {each: sorted(self._jobs.get(each, ())) for each in json.loads(assignments)}
        return {"held": json.dumps(held)}


@frozen
class Process:
    """Stands for the process of a simulated worker, which ends with this one."""

    pid: int

    def signalProcess(self, signalID: str) -> None:
        """Do nothing."""


def simulating(kind: type[Any], capacity: int) -> type[Any]:
    """Return a reactor class that starts simulated workers instead of processes.

    Args:
        kind: The class of a reactor.
        capacity: How many jobs each worker runs at a time.
    """

    def spawn(reactor: Any, *_: object, childFDs: Mapping[int, int], **__: object) -> Process:
        SimulatedWorker(reactor, childFDs[PIPE_FD], capacity)
        return Process(os.getpid())

    return type("SimulatingReactor", (kind,), {"spawnProcess": spawn})

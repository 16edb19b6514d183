"""What a node reports of its worker processes, and the suspects that wait for a process of their
own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from attrs import define

from txqueue.model.assignment import Assignment, StartedJob
from txqueue.node.state.periodic import Alarm, Periodic
from txqueue.store.node.functions import StoredFunctions
from txqueue.system.clock import Clock

if TYPE_CHECKING:
    from txqueue.node.workers.pool import WorkerPool
    from txqueue.node.workers.process import WorkerProcess
    from txqueue.node.workers.workload import Workers

MOST_NAMED: Final = 10
"""How many jobs that have left threads behind a heartbeat names."""

MOST_SILENT: Final = 1_000
"""How many jobs of each kind in workers that do not answer a heartbeat names.

Jobs that wait for one that is not named are said to wait for its end.
"""


def blocking_report(workers: Iterable[WorkerProcess]) -> dict[str, Any]:
    """Return, as plain data, what runs in workers that do not answer.

    ``blocking`` has jobs that block one, ``maybe_blocking`` those of which some do, and
    ``beside`` the job that blocks the worker of each innocent one. Only the first ones.
    """
    late = [worker for worker in workers if worker.is_late]
    culprits = {worker.blocker: worker for worker in late if worker.blocker}
    unknown = {job_id for worker in late if not worker.blocker for job_id in worker.blocking}
    beside = {
        job_id: culprit
        for culprit, worker in culprits.items()
        for job_id in sorted(worker.in_flight - {culprit})
    }
    return {
        "blocking": sorted(culprits)[:MOST_SILENT],
        "maybe_blocking": sorted(unknown)[:MOST_SILENT],
        "beside": dict(list(beside.items())[:MOST_SILENT]),
    }


def described(workers: Iterable[WorkerProcess]) -> list[dict[str, int | bool]]:
    """Return each worker's process id, whether it is ready, blocked, stuck, crowded, for suspects
    or ending, the jobs and weight it holds, and how much of that threads of ended jobs keep.
    """
    return [
        {
            "pid": worker.pid,
            "is_ready": worker.is_ready,
            "is_late": worker.is_late,
            "is_stuck": worker.is_stuck,
            "is_crowded": worker.is_crowded,
            "is_apart": worker.is_apart,
            "is_ending": worker.is_ending,
            "jobs": sum(worker.held.values()),
            "weight": worker.weight,
            "left": worker.left,
        }
        for worker in workers
    ]


# The most processes that a node runs for suspects, beside its workers.
MOST_PROCESSES = 4


class Suspects:
    """Assignments of suspects that wait for a process, and how many such processes start.

    A suspect was running when two processes died. It runs in a process that is started for it, so
    that it neither ends other jobs nor makes them wait.

    Attributes:
        waiting: The assignments that wait.
        starting: How many processes for suspects start, or start again after a pause.
        alarm: Rings when a suspect waits, and when a process has become idle or has ended.
    """

    def __init__(self, clock: Clock) -> None:
        self.waiting: deque[Assignment] = deque()
        self.starting = 0
        self.alarm = Alarm(clock)

    def on_start(self) -> None:
        """Note that a process has become ready, or that its start has failed for good."""
        self.starting -= 1
        self.alarm.ring()


# Seconds for which an idle process is kept for the next suspect.
KEEP = 5.0


def is_free(process: WorkerProcess) -> bool:
    """Tell whether a process for suspects can get one."""
    return process.is_ready and not (process.held or process.is_late or process.is_stuck)


@define(eq=False, repr=False, slots=False)
class SuspectProcesses(Periodic):
    """Starts a process for each assignment of suspects that waits for one, up to a limit.

    The starts of suspects are noted in the database before they run: if a suspect ends its host at
    once, it counts another death, as those do not that were only assigned to the node.

    Args:
        clock: Times how long a process is idle.
        functions: Note the starts.
        suspects: The suspects that wait.
        workers: Have the processes.
        starter: Starts them.
    """

    name = "suspects"

    _functions: StoredFunctions
    _suspects: Suspects
    _workers: Workers
    _starter: WorkerPool

    def __attrs_post_init__(self) -> None:
        self.alarm = self._suspects.alarm
        # Since when each idle process has been idle, by its key.
        self._idle: dict[int, float] = {}

    async def step(self) -> float | None:
        """Give suspects to free processes, start those that are missing, and end idle ones."""
        suspects = self._suspects
        while suspects.waiting and self._free is not None:
            await self._place(suspects.waiting[0])
        running = sum(process.is_ready for process in self._workers.apart)
        while len(suspects.waiting) > suspects.starting < MOST_PROCESSES - running:
            suspects.starting += 1
            self._starter.start_apart()
        return self._end_idle()

    @property
    def _free(self) -> WorkerProcess | None:
        return next(filter(is_free, self._workers.apart), None)

    async def _place(self, suspect: Assignment) -> None:
        """Note that jobs start, and send them to a process unless they were returned meanwhile."""
        jobs = await self._functions.jobs_of(suspect.incarnation, [suspect.number])
        starts = [StartedJob(suspect.number, job.job_id, 0.0, None) for job in jobs]
        await self._functions.started(suspect.incarnation, starts)
        waiting, process = self._suspects.waiting, self._free
        if process is not None and waiting and waiting[0] is suspect:
            process.perform([waiting.popleft()])

    def _end_idle(self) -> float | None:
        """End idle processes; return the seconds until another one may have been idle for long."""
        now = self._clock.seconds()
        idle = [
            process for process in self._workers.apart if process.is_ready and not process.weight
        ]
        self._idle = {process.key: self._idle.get(process.key, now) for process in idle}
        for process in idle:
            if now - self._idle[process.key] >= KEEP:
                del self._idle[process.key]
                process.retire()
        return min(self._idle.values()) + KEEP - now if self._idle else None

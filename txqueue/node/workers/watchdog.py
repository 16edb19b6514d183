"""Detects worker processes that do not answer; returns their unstarted jobs to the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import define
from twisted.logger import Logger

from txqueue.model.assignment import JobKey, StartedJob
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Alarm, Periodic
from txqueue.store.node.functions import StoredFunctions

if TYPE_CHECKING:
    from txqueue.node.workers.completions import Completions
    from txqueue.node.workers.process import WorkerProcess
    from txqueue.node.workers.workload import Workers

# Seconds between two pings, and seconds of silence after which a worker must not start other jobs;
# after twice that silence, its unstarted jobs are returned to the queue.
EVERY, SILENT = 1.0, 2.0
# A worker that holds no job is pinged only in every so many checks.
IDLE_CHECKS = 5
# Seconds of silence after which a worker that runs no job is replaced: nothing is lost with it.
REPLACE_AFTER = 30.0
# A check that is later than this many seconds stops no worker: the master itself has been busy, and
# the answers may wait to be read.
LATE = 0.5

# Why a worker does not answer although it runs no job.
IDLE = "it is stopped or gets no core, or a handler has closed its descriptors"


@define(eq=False, repr=False, slots=False)
class Watchdog(Periodic):
    """Pings the workers. A worker that a job blocks keeps that job and loses its unstarted ones.

    When a worker begins or ceases to answer, or to be stuck, a heartbeat says so at once: by it
    operators see why jobs do not start.

    Worker and master share memory with the started jobs and a flag that forbids starting others. So
    the unstarted jobs of a worker that cannot answer can be returned safely: the worker does not
    start them later either.

    A silent worker that runs no job never answers again if a handler has closed the descriptors of
    its reactor: it is replaced.

    A worker that answers may still be stuck: functions in threads go on after their jobs have ended
    by a timeout, say, and leave no room for others. It loses its unstarted jobs, too. So does one
    that such functions have filled in part, as these jobs may not fit any more; if they keep half
    of it, and nothing starts or ends there, it is killed like a stuck one.

    Args:
        clock: Times the pings.
        functions: The stored functions.
        lease: The node's lease; without it no job is returned.
        workers: The workers.
        records: Writes the outcomes of jobs.
        heartbeats: The alarm of the heartbeats.
        kill_after: Seconds after which a silent or stuck worker is killed; None for never.
    """

    name = "watchdog"
    log = Logger()

    _functions: StoredFunctions
    _lease: Lease
    _workers: Workers
    _records: Completions
    _heartbeats: Alarm
    _kill_after: float | None = None

    def __attrs_post_init__(self) -> None:
        self._due_at = float("inf")
        self._checks = 0
        self._reported: tuple[Mapping[str, object], Mapping[str, object]] = {}, {}
        # By process id, the mark of the outcomes noted when the process was stopped.
        self._marks: dict[int, int] = {}
        # The process ids of silent workers whose running jobs were reported.
        self._noted: set[int] = set()
        # By process id, what workers can start that threads of ended jobs fill, and the weight
        # of these.
        self._filled: dict[int, tuple[str, int]] = {}

    async def step(self) -> float | None:
        """Measure and ping the workers, idle ones less often, and act on silent ones."""
        late = max(0.0, self._clock.seconds() - self._due_at)
        for worker in self._workers.ready:
            worker.measure()
            await self._act_on(worker, late)
            if worker.held or self._checks % IDLE_CHECKS == 0:
                worker.ping()
        self._checks += 1
        self._report()
        self._due_at = self._clock.seconds() + EVERY
        return EVERY

    def _report(self) -> None:
        """Have a heartbeat sent if other workers can start jobs than at the last check."""
        if (report := (self._workers.closed, self._workers.left)) != self._reported:
            self._reported = report
            self._heartbeats.ring()

    async def _act_on(self, worker: WorkerProcess, late: float) -> None:
        """Stop, relieve or kill a worker that has been silent or stuck for too long.

        Args:
            worker: The worker.
            late: Seconds by which this check is late; they are not counted as silence for a kill.
        """
        self._look_at_threads(worker)
        if self._kill_after is not None and worker.silent - late >= self._kill_after:
            self._kill(worker)
        elif self._kill_after is not None and _filled_for(worker) >= self._kill_after:
            self._kill_stuck(worker)
        elif worker.silent - late >= REPLACE_AFTER and _is_empty(worker):
            self._replace(worker)
        elif worker.is_stopped:
            if worker.silent >= 2 * SILENT:
                await self._relieve(worker)
        elif worker.silent >= SILENT and late <= LATE:
            self._stop(worker)

    def _kill(self, worker: WorkerProcess) -> None:
        self.log.error(
            "worker process {pid} has not answered for {silent:.0f} s, and is killed;"
            " it runs {running}",
            pid=worker.pid,
            silent=worker.silent,
            running=_named(worker.in_flight),
        )
        worker.kill()

    def _replace(self, worker: WorkerProcess) -> None:
        self.log.error(
            "worker process {pid} has not answered for {silent:.0f} s although it runs no job, and"
            " is replaced: {why}",
            pid=worker.pid,
            silent=worker.silent,
            why=IDLE,
        )
        worker.kill()

    def _look_at_threads(self, worker: WorkerProcess) -> None:
        """Relieve a worker that threads of ended jobs fill, or that runs nothing beside them."""
        if not worker.left:
            self._filled.pop(worker.pid, None)
            return
        filled = "no job" if worker.stuck else "few jobs" if worker.is_crowded else ""
        before, less = self._filled.get(worker.pid, ("", 0))
        self._filled[worker.pid] = filled, worker.left
        if is_new := bool(filled) and filled != before:
            self._log_filled(worker, filled)
        # A job that is too heavy now would keep all others behind it from starting.
        is_waiting = bool(worker.held) and not worker.in_flight and not worker.stuck
        if is_new or is_waiting or (filled and worker.left > less):
            worker.relieve()

    def _log_filled(self, worker: WorkerProcess, filled: str) -> None:
        self.log.warn(
            "worker process {pid} can start {filled}: functions in threads go on after the ends"
            " of {outlived}. Its unstarted jobs run elsewhere{remedy}",
            pid=worker.pid,
            filled=filled,
            outlived=_named(worker.outlived),
            remedy="" if self._kill_after else "; --kill-stuck replaces such a worker",
        )

    def _kill_stuck(self, worker: WorkerProcess) -> None:
        self.log.error(
            "worker process {pid} has started no job for {seconds:.0f} s, and is killed: functions"
            " in threads went on after the ends of {outlived}; it runs {running}",
            pid=worker.pid,
            seconds=_filled_for(worker),
            outlived=_named(worker.outlived),
            running=_named(worker.in_flight),
        )
        worker.kill()

    def _stop(self, worker: WorkerProcess) -> None:
        self.log.warn(
            "worker process {pid} has not answered for {silent:.0f} s: {why}."
            " Its unstarted jobs run elsewhere; it is running {running}",
            pid=worker.pid,
            silent=worker.silent,
            why=_why_silent(worker),
            running=_named(worker.in_flight),
        )
        self._marks[worker.pid] = self._records.mark
        self._noted.discard(worker.pid)
        worker.stop()

    async def _relieve(self, worker: WorkerProcess) -> None:
        """Return a stopped worker's unstarted jobs to the queue, once its reports are written."""
        identity, begun = self._lease.identity, worker.begun
        if identity is None or begun is None or not worker.held:
            return
        if not self._records.has_written(self._marks.get(worker.pid, self._records.mark)):
            return
        assigned = await self._functions.jobs_of(identity.incarnation, sorted(worker.held))
        if worker.is_stopped:
            worker.disown(job for job in assigned if job.job_id not in begun)
            self._note_started(worker, assigned)

    def _note_started(self, worker: WorkerProcess, assigned: Iterable[JobKey]) -> None:
        """Report what a silent worker runs, once: it could not report what blocked it at once."""
        if worker.pid not in self._noted:
            self._noted.add(worker.pid)
            self._records.start(
                StartedJob(job.assignment, job.job_id, worker.silent, None)
                for job in assigned
                if job.job_id in worker.in_flight
            )


def _why_silent(worker: WorkerProcess) -> str:
    if not worker.in_flight:
        return IDLE
    if worker.blocker:
        return f"the handler of job {worker.blocker} blocks it"
    return "a handler that had waited blocks it, or it is stopped or gets no core"


def _filled_for(worker: WorkerProcess) -> float:
    """Seconds for which threads of ended jobs have kept a worker from starting any."""
    return max(worker.stuck, worker.crowded)


def _is_empty(worker: WorkerProcess) -> bool:
    """Tell whether a worker runs no job and will start none, and no job has left a thread."""
    return worker.is_stopped and not worker.in_flight and not worker.outlived


def _named(ids: Iterable[int]) -> str:
    known = sorted(ids)
    more = "" if len(known) <= 5 else f" and {len(known) - 5} others"
    return f"jobs {', '.join(map(str, known[:5]))}{more}" if known else "no job"

"""Finds worker processes that do not answer, and has what waits in them run elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from twisted.logger import Logger

from txqueue.model.assignment import JobKey
from txqueue.node.collaborators import Records
from txqueue.node.lease import Lease
from txqueue.node.periodic import Periodic
from txqueue.store.functions import StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["EVERY", "SILENT", "Watchdog", "Watched", "WatchedWorkers"]

# Seconds from one ping to the next, and after which a worker that does not answer begins no other
# job. After as long again it is known to have begun none.
EVERY, SILENT = 1.0, 2.0


class Watched(Protocol):
    """A worker process, as far as it is watched."""

    pid: int

    @property
    def silent(self) -> float:
        """Seconds since it was asked something that it has not answered; 0 if it has."""

    @property
    def is_stopped(self) -> bool:
        """Whether it was told to begin no other job."""

    @property
    def held(self) -> dict[int, int]:
        """How many jobs it holds, by assignment."""

    @property
    def in_flight(self) -> set[int]:
        """The numbers of the jobs that it runs."""

    @property
    def begun(self) -> set[int] | None:
        """The numbers of the jobs that it has begun; None if that is not known."""

    def ping(self) -> None:
        """Ask it whether it is there."""

    def stop(self) -> None:
        """Have it begin no other job until it has said what it has not begun."""

    def disown(self, jobs: Iterable[JobKey]) -> None:
        """Give back jobs that it will not begin."""

    def kill(self) -> None:
        """End it at once."""


class WatchedWorkers(Protocol):
    """The workers, one by one."""

    @property
    def ready(self) -> Sequence[Watched]:
        """The workers that can be handed jobs."""


class Watchdog(Periodic):
    """Pings the workers. One that is blocked by a job keeps that job, and no other.

    What a worker has begun stands in memory that it shares with its master, and so does the word
    that it is to begin no other job. So what it has not begun can be given back safely while it
    cannot answer: it does not begin that later either.

    Args:
        clock: Times the pings.
        engine: The stored functions.
        lease: Without it nothing is given back.
        workers: The workers.
        records: What writes down how jobs end.
        kill_after: Seconds of silence after which a worker is ended; None for never.
    """

    name = "watchdog"
    log = Logger()

    def __init__(
        self,
        clock: Clock,
        engine: StoredFunctions,
        *,
        lease: Lease,
        workers: WatchedWorkers,
        records: Records,
        kill_after: float | None = None,
    ) -> None:
        super().__init__(clock)
        self._engine = engine
        self._lease = lease
        self._workers = workers
        self._records = records
        self._kill_after = kill_after
        # What was noted when each process that is stopped was.
        self._marks: dict[int, int] = {}

    async def step(self) -> float | None:
        """Ping each worker that has something to do, and see to those that were silent."""
        for worker in self._workers.ready:
            if self._kill_after is not None and worker.silent >= self._kill_after:
                self._kill(worker)
            elif worker.silent >= SILENT and not worker.is_stopped:
                self._stop(worker)
            elif worker.silent >= 2 * SILENT:
                await self._relieve(worker)
            if worker.held:
                worker.ping()
        return EVERY

    def _kill(self, worker: Watched) -> None:
        self.log.error(
            "worker process {pid} has not answered for {silent:.0f} s, and is ended;"
            " it runs {running}",
            pid=worker.pid,
            silent=worker.silent,
            running=_named(worker.in_flight),
        )
        worker.kill()

    def _stop(self, worker: Watched) -> None:
        self.log.warn(
            "worker process {pid} has not answered for {silent:.0f} s: a handler blocks it."
            " What waits in it runs elsewhere; it runs {running}",
            pid=worker.pid,
            silent=worker.silent,
            running=_named(worker.in_flight),
        )
        self._marks[worker.pid] = self._records.mark
        worker.stop()

    async def _relieve(self, worker: Watched) -> None:
        """Give back what a stopped worker has not begun; what it has reported is written first."""
        identity, begun = self._lease.identity, worker.begun
        if identity is None or begun is None:
            return
        if not self._records.has_written(self._marks.get(worker.pid, self._records.mark)):
            return
        assigned = await self._engine.jobs_of(identity.incarnation, sorted(worker.held))
        if worker.is_stopped:
            worker.disown(each for each in assigned if each.job_id not in begun)


def _named(ids: Iterable[int]) -> str:
    known = sorted(ids)
    more = "" if len(known) <= 5 else f" and {len(known) - 5} others"
    return f"jobs {', '.join(map(str, known[:5]))}{more}" if known else "no job"

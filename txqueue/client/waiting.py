"""Waits for jobs to end: one query serves all waiting callers of a process.

The query runs as soon as a node announces an end, and otherwise at growing intervals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from txqueue.model.job import Job
from txqueue.policy.backoff import Backoff
from txqueue.system.clock import Clock, Timer

__all__ = ["EndWaiter"]

FIRST, FACTOR, LONGEST = 0.015, 1.5, 0.5


class EndWaiter:
    """All callers of one process that wait for jobs.

    Args:
        clock: Times the polls.
        ask: Returns the jobs, among those given by number, that have ended.
        before_look: Called before each poll, to request announcements of ends.
    """

    def __init__(
        self,
        clock: Clock,
        ask: Callable[[Sequence[int]], Awaitable[list[Job]]],
        before_look: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._ask = ask
        self._before_look = before_look
        self._is_notified = False
        self._waiters: dict[int, list[Deferred[Job]]] = {}
        self._timer: Timer | None = None
        self._is_asking = False
        self._backoff = Backoff(FIRST, LONGEST, FACTOR)

    def ended(self, job_id: int) -> Deferred[Job]:
        """Return a Deferred that fires with the job once the job has ended."""
        waiter: Deferred[Job] = Deferred(lambda _: self._forget(job_id, waiter))
        self._waiters.setdefault(job_id, []).append(waiter)
        self._backoff.reset()
        if not self._is_asking:
            self._schedule(0)
        return waiter

    def note_ends(self, ended: frozenset[int] | None) -> None:
        """Poll at once if an awaited job has ended; None means that any job may have ended."""
        if not self._waiters or (ended is not None and ended.isdisjoint(self._waiters)):
            return
        self._is_notified = True
        if not self._is_asking:
            self._schedule(0)

    def stop(self) -> None:
        """Cancel all waits."""
        for waiters in list(self._waiters.values()):
            for waiter in list(waiters):
                waiter.cancel()

    def _forget(self, job_id: int, waiter: Deferred[Job]) -> None:
        waiters = self._waiters.get(job_id, [])
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            self._waiters.pop(job_id, None)
        if not self._waiters and self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _schedule(self, delay: float) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(delay, lambda: Deferred.fromCoroutine(self._look()))

    async def _look(self) -> None:
        self._is_asking = True
        self._is_notified = False
        self._before_look()
        try:
            jobs = await self._ask(list(self._waiters))
        except Exception as error:
            self._fail_all(error)
            return
        finally:
            self._is_asking = False
        for job in jobs:
            for waiter in self._waiters.pop(job.id, []):
                _tell(waiter, job)
        if self._waiters and self._is_notified:
            self._schedule(0)
        elif self._waiters:
            self._schedule(self._backoff.take())

    def _fail_all(self, error: Exception) -> None:
        waiters_by_job, self._waiters = self._waiters, {}
        for waiters in waiters_by_job.values():
            for waiter in waiters:
                _tell(waiter, Failure(error))


def _tell(waiter: Deferred[Job], ending: Job | Failure) -> None:
    # An earlier caller's callback may have cancelled this wait.
    if not waiter.called:
        waiter.callback(ending)

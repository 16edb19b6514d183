"""Waits for jobs to end: one query serves all waiting callers of a process.

The query runs as soon as a node announces an end, and otherwise at growing intervals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from txqueue.model.job import Job
from txqueue.policy.awaited_ends import AwaitedEnds
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
        self._awaited: AwaitedEnds[Deferred[Job]] = AwaitedEnds()
        self._timer: Timer | None = None
        self._is_asking = False
        self._backoff = Backoff(FIRST, LONGEST, FACTOR)

    def ended(self, job_id: int) -> Deferred[Job]:
        """Return a Deferred that fires with the job once its end is announced or found.

        The caller reads the job next, as an end before this call is not announced, and then calls
        `look_soon` or cancels the Deferred.
        """
        waiter: Deferred[Job] = Deferred(lambda _: self._forget(job_id, waiter))
        self._awaited.add(job_id, waiter)
        return waiter

    def look_soon(self) -> None:
        """Request announcements, and poll from now on: a caller has read that its job runs."""
        self._before_look()
        self._backoff.reset()
        if self._awaited and not self._is_asking:
            self._schedule(self._backoff.take())

    def note_ends(self, ended: frozenset[int] | None) -> None:
        """Poll at once if an awaited job has ended; None means that any job may have ended."""
        if self._awaited.note(ended) and not self._is_asking:
            self._schedule(0)

    def stop(self) -> None:
        """Cancel all waits."""
        for waiter, _ in self._awaited.released():
            waiter.cancel()
        self._cancel_timer()

    def _forget(self, job_id: int, waiter: Deferred[Job]) -> None:
        self._awaited.discard(job_id, waiter)
        if not self._awaited:
            self._cancel_timer()

    def _cancel_timer(self) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def _schedule(self, delay: float) -> None:
        self._cancel_timer()
        self._timer = self._clock.callLater(delay, lambda: Deferred.fromCoroutine(self._look()))

    async def _look(self) -> None:
        self._is_asking = True
        self._before_look()
        self._awaited.note(None)
        try:
            jobs = await self._ask(self._awaited.take())
        except Exception as error:
            for waiter, _ in self._awaited.released():
                _tell(waiter, Failure(error))
            return
        finally:
            self._is_asking = False
        for waiter, job in self._awaited.told(jobs):
            _tell(waiter, job)
        if self._awaited:
            self._schedule(0 if self._awaited.is_noted else self._backoff.take())


def _tell(waiter: Deferred[Job], ending: Job | Failure) -> None:
    # An earlier caller's callback may have cancelled this wait.
    if not waiter.called:
        waiter.callback(ending)

"""Waits for jobs to end: one query and one listening connection serve all waiting callers of a
process.

The query runs as soon as a node announces an end, and otherwise at growing intervals.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.model.job import Job
from txqueue.policy.awaited_ends import (
    ANNOUNCED_FOR,
    FACTOR,
    FIRST,
    LONGEST,
    REQUESTED_EVERY,
    AwaitedEnds,
    job_ids_in,
)
from txqueue.policy.backoff import Backoff
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.listener import Listener
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.system.clock import Clock, Timer


@define(eq=False, repr=False, slots=False)
class EndNotifications:
    """Receives the ends of jobs while callers wait; if this fails, callers notice ends by polling.

    Args:
        clock: Schedules the renewals and watches the connection's socket.
        dsn: The database; None to not listen.
        pool: Lends the connection on which announcements are requested.
        schema: The name of the schema.

    Attributes:
        on_ends: Called with the numbers of jobs that ended, or with None if any job may have ended.
    """

    log = Logger()

    _clock: IStoreReactor
    _dsn: str | None
    _pool: ConnectionPool
    _schema: str
    on_ends: Callable[[frozenset[int] | None], None] = lambda _: None

    def __attrs_post_init__(self) -> None:
        channel = f"{self._schema}_ended"
        self._listener = Listener(self._clock, self._dsn or "", channel, self._receive)
        self._requested_at = float("-inf")
        self._request: Deferred[None] | None = None
        self._is_stopped = self._dsn is None

    def needed(self) -> None:
        """Request announcements for the next seconds, in the background."""
        is_due = self._clock.seconds() - self._requested_at >= REQUESTED_EVERY
        if is_due and self._request is None and not self._is_stopped:
            self._requested_at = self._clock.seconds()
            request = self._request = Deferred.fromCoroutine(self._ask())
            request.addErrback(lambda failure: failure.trap(CancelledError) and None)
            request.addBoth(self._asked)

    def _receive(self, texts: Sequence[str]) -> None:
        for text in texts:
            self.on_ends(job_ids_in(text))

    def close(self) -> None:
        """Stop listening."""
        self._is_stopped = True
        if self._request is not None:
            self._request.cancel()
        self._listener.close()

    def _asked(self, _: object) -> None:
        self._request = None

    async def _ask(self) -> None:
        try:
            await self._listener.check()
            is_new = await self._listener.ensure()
            await self._pool.query(
                f"select {self._schema}.request_end_notices(%s)", (ANNOUNCED_FOR,)
            )
        except ConfigurationError as error:
            self._is_stopped = True
            self.log.info(
                "cannot listen for the ends of jobs, polling instead: {error}", error=error
            )
        except TxqueueError as error:
            self.log.debug(
                "cannot request announcements of jobs' ends, polling instead: {error}", error=error
            )
        else:
            if is_new:
                self.on_ends(None)


@define(eq=False, repr=False, slots=False)
class EndWaiter:
    """All callers of one process that wait for jobs.

    Args:
        clock: Times the polls.
        ask: Returns the jobs, among those given by number, that are there.
        before_look: Called before each poll, to request announcements of ends.
    """

    _clock: Clock
    _ask: Callable[[Sequence[int]], Awaitable[list[Job]]]
    _before_look: Callable[[], None] = lambda: None
    _awaited: AwaitedEnds[Deferred[Job | None]] = field(factory=AwaitedEnds, init=False)
    _reads: dict[int, list[Deferred[Job | None]]] = field(factory=dict, init=False)
    _timer: Timer | None = field(default=None, init=False)
    _is_asking: bool = field(default=False, init=False)
    _backoff: Backoff = field(factory=lambda: Backoff(FIRST, LONGEST, FACTOR), init=False)

    def ended(self, job_id: int) -> Deferred[Job | None]:
        """Return a Deferred that fires with the job once its end is announced or found; with None
        once it is gone.

        The caller reads the job next, as an end before this call is not announced, and then calls
        `look_soon` or cancels the Deferred.
        """
        waiter: Deferred[Job | None] = Deferred(lambda _: self._forget(job_id, waiter))
        self._awaited.add(job_id, waiter)
        return waiter

    def read(self, job_id: int) -> Deferred[Job | None]:
        """Return a Deferred of a job, None if it is not there; those of a turn share a read."""
        if not self._reads:
            self._clock.callLater(0, lambda: Deferred.fromCoroutine(self._read_all()))
        answer: Deferred[Job | None] = Deferred()
        self._reads.setdefault(job_id, []).append(answer)
        return answer

    async def _read_all(self) -> None:
        reads, self._reads = self._reads, {}
        found: dict[int, Job | Failure]
        try:
            found = {job.id: job for job in await self._ask(list(reads))}
        except Exception as error:
            found = dict.fromkeys(reads, Failure(error))
        for job_id, answers in reads.items():
            for answer in answers:
                _tell(answer, found.get(job_id))

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

    def _forget(self, job_id: int, waiter: Deferred[Job | None]) -> None:
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
        asked = self._awaited.take()
        try:
            jobs = await self._ask(asked)
        except Exception as error:
            for waiter, _ in self._awaited.released():
                _tell(waiter, Failure(error))
            return
        finally:
            self._is_asking = False
        for waiter, job in self._awaited.told(asked, jobs):
            _tell(waiter, job)
        if self._awaited:
            self._schedule(0 if self._awaited.is_noted else self._backoff.take())


def _tell(waiter: Deferred[Job | None], ending: Job | Failure | None) -> None:
    # An earlier caller's callback may have cancelled this wait.
    if not waiter.called:
        waiter.callback(ending)

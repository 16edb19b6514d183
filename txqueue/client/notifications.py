"""Listens for the ends of jobs while callers wait, on one connection for the whole process."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.policy.awaited_ends import ANNOUNCED_FOR, REQUESTED_EVERY, job_ids_in
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.listener import Listener
from txqueue.store.driver.raw_connection import IStoreReactor

__all__ = ["EndNotifications"]


class EndNotifications:
    """Receives the ends of jobs while callers wait; if this fails, callers notice ends by polling.

    Args:
        reactor: Schedules the renewals and watches the connection's socket.
        dsn: The database; None to not listen.
        pool: Lends the connection on which announcements are requested.
        schema: The name of the schema.

    Attributes:
        on_ends: Called with the numbers of jobs that ended, or with None if any job may have ended.
    """

    log = Logger()

    def __init__(
        self,
        reactor: IStoreReactor,
        dsn: str | None,
        pool: ConnectionPool,
        schema: str,
    ) -> None:
        self._clock = reactor
        self._pool = pool
        self._schema = schema
        self.on_ends: Callable[[frozenset[int] | None], None] = lambda _: None
        self._listener = Listener(reactor, dsn or "", f"{schema}_ended", self._receive)
        self._requested_at = float("-inf")
        self._request: Deferred[None] | None = None
        self._is_stopped = dsn is None

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

"""Listens for jobs' ends while a caller waits: one connection for the whole process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger

from txqueue.errors import ConfigurationError, TxqueueError
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.listener import Listener
from txqueue.system.clock import Clock

__all__ = ["Hearing", "numbers_in"]

# The ends are told for so many seconds after each request, which is made so often while needed.
TOLD_FOR, EVERY = 10, 4.0


class Hearing:
    """Has the database tell which jobs end. A failure is no error: waiting callers also poll.

    Args:
        reactor: Its clock; it watches the socket.
        dsn: The database; None to listen to nothing.
        pool: Where to ask for being told.
        schema: The name of the schema.

    Attributes:
        heard: Called with the numbers of jobs that ended; None if it may be any.
    """

    log = Logger()

    def __init__(
        self,
        reactor: Any,
        dsn: str | None,
        pool: ConnectionPool,
        schema: str,
    ) -> None:
        self._clock: Clock = reactor
        self._pool = pool
        self._schema = schema
        self.heard: Callable[[frozenset[int] | None], None] = lambda _: None
        self._listener = Listener(
            reactor, dsn or "", f"{schema}_ended", lambda text: self.heard(numbers_in(text))
        )
        self._asked_at = float("-inf")
        self._asking: Deferred[None] | None = None
        self._is_deaf = dsn is None

    def needed(self) -> None:
        """See to it that the ends are told for the next seconds; returns at once."""
        is_due = self._clock.seconds() - self._asked_at >= EVERY
        if is_due and self._asking is None and not self._is_deaf:
            self._asked_at = self._clock.seconds()
            asking = self._asking = Deferred.fromCoroutine(self._ask())
            asking.addErrback(lambda failure: failure.trap(CancelledError) and None)
            asking.addBoth(self._asked)

    def close(self) -> None:
        """Stop listening."""
        self._is_deaf = True
        if self._asking is not None:
            self._asking.cancel()
        self._listener.close()

    def _asked(self, _: object) -> None:
        self._asking = None

    async def _ask(self) -> None:
        try:
            is_new = await self._listener.ensure()
            await self._pool.query(f"select {self._schema}.await_ends(%s)", (TOLD_FOR,))
        except ConfigurationError as error:
            self._is_deaf = True
            self.log.info("the ends of jobs are found by asking: {error}", error=error)
        except TxqueueError as error:
            self.log.debug("the ends of jobs are not told: {error}", error=error)
        else:
            if is_new:
                self.heard(None)


def numbers_in(text: str) -> frozenset[int] | None:
    """Return the numbers of the jobs that a notification names; None if it names none."""
    parts = text.split(",")
    return frozenset(map(int, parts)) if all(part.isdecimal() for part in parts) else None

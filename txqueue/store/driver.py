"""txpostgres's connection, for callers that send one statement at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from psycopg2.extensions import POLL_READ, POLL_WRITE
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.python.failure import Failure
from txpostgres import txpostgres

__all__ = ["Driver"]


class Driver(txpostgres.Connection):  # type: ignore[misc] # has no types
    """A connection whose loss is reported to the next caller, and whose answers fire at once.

    For each statement a cursor of txpostgres takes the connection's place in the reactor, and once
    the answer is there it is told a turn of the reactor later: so that many may share a connection,
    as no caller does here.
    """

    _cursor: Any = None
    _pollingD: Any = None

    def send(
        self, sql: str, parameters: Sequence[object], given_up: Callable[[], None]
    ) -> Deferred[Any]:
        """Send a statement; the caller waits for its answer before the next.

        Args:
            sql: The statement.
            parameters: What stands for each ``%s``.
            given_up: Called when the answer is waited for no more: psycopg2's own way to cancel
                blocks until the server has heard it.

        Returns:
            Fires with psycopg2's cursor.
        """

        def cancel(waiting: Deferred[Any]) -> None:
            self._pollingD = None
            given_up()
            waiting.errback(CancelledError())

        self.reactor.removeReader(self)
        try:
            cursor = self._connection.cursor()
            cursor.execute(sql, parameters or None)
        except Exception:
            self._watch()
            return fail()
        self._cursor = cursor
        waiting = self._pollingD = Deferred[Any](cancel)
        self.continuePolling()
        return waiting

    def continuePolling(self, swallowErrors: bool = False) -> None:  # noqa: ARG002 - the driver's
        """Continue the pending operation, and fire its Deferred when it ends.

        Before libpq does anything the socket is let go: should it close it, the reactor could not.
        """
        self.reactor.removeReader(self)
        try:
            state = self._connection.poll()
        except Exception as error:
            self._tell(Failure(error))
            return
        if state == POLL_READ:
            self.reactor.addReader(self)
        elif state == POLL_WRITE:
            self.reactor.addWriter(self)
        else:
            self._tell(self._cursor)

    def doRead(self) -> None:
        """Go on; what came may be a notification."""
        self.continuePolling()

    def _tell(self, answer: object) -> None:
        waiting, self._pollingD = self._pollingD, None
        self._cursor = None
        if waiting is not None:
            # He may close the connection, or send the next statement, which watches by itself.
            waiting.callback(answer)
        if self._pollingD is None:
            self._watch()

    def _watch(self) -> None:
        """Read what arrives while no operation is pending."""
        if not self._connection.closed:
            # An attempt to connect that failed has no socket left to be watched.
            with suppress(ValueError, OSError):
                self.reactor.addReader(self)
            self.checkForNotifies()

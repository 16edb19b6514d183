"""A txpostgres connection that sends one statement at a time, frequent ones prepared."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

from psycopg2.extensions import POLL_READ, POLL_WRITE, STATUS_READY, Notify
from twisted.internet.defer import CancelledError, Deferred, fail
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.internet.interfaces import (
    IReactorFDSet,
    IReactorThreads,
    IReactorTime,
    IReadDescriptor,
    IReadWriteDescriptor,
    IWriteDescriptor,
)
from twisted.python.failure import Failure
from txpostgres import txpostgres
from zope.interface import implementer

OFTEN = 5
"""The use at which a statement is prepared, as psycopg 3's ``prepare_threshold``."""


class Prepared:
    """Counts the uses of one connection's frequent statements, and lists the prepared ones."""

    def __init__(self) -> None:
        self._sent: dict[str, int] = {}
        self._executions: dict[str, str] = {}

    def execution(self, sql: str) -> str | None:
        """Return the SQL that executes a prepared statement; None if it is not prepared."""
        return self._executions.get(sql)

    def is_due(self, sql: str) -> bool:
        """Count the use of a statement; return whether to prepare it first."""
        self._sent[sql] = self._sent.get(sql, 0) + 1
        return self._sent[sql] >= OFTEN

    def preparation(self, sql: str) -> str:
        """Return the SQL that prepares a statement."""
        first, *parts = sql.split("%s")
        numbered = "".join(f"${number}{part}" for number, part in enumerate(parts, 1))
        return f"prepare {name_of(sql)} as {first}{numbered}"

    def was_prepared(self, sql: str) -> str:
        """Note that a statement is prepared, and return the SQL that executes it."""
        marks = ", ".join(["%s"] * sql.count("%s"))
        self._executions[sql] = f"execute {name_of(sql)}" + (f" ({marks})" if marks else "")
        return self._executions[sql]


def name_of(sql: str) -> str:
    """Return the name of a statement, which is the same in every session."""
    return f"txqueue_{blake2b(sql.encode(), digest_size=8).hexdigest()}"


# libpq's CONNECTION_BAD.
_FAILED: Final = 1


class IStoreReactor(IReactorFDSet, IReactorThreads, IReactorTime):
    """The parts of a reactor that this package needs."""


class _Watcher:
    """The reactor that txpostgres gets while it connects, as libpq closes sockets and opens others.

    Before it polls libpq, txpostgres removes a socket as a reader or as a writer, not both, and
    adds it again even if libpq has closed it: a reactor refuses that, or watches another socket
    with the same number. And once it is connected, `Driver` watches the socket instead:
    txpostgres would log a loss for which no caller waits.
    """

    def __init__(self, reactor: IStoreReactor) -> None:
        self._reactor = reactor
        self.callLater = reactor.callLater

    def addReader(self, reader: IReadDescriptor) -> None:
        connection: Any = reader
        session = connection.pollable()
        # txpostgres would poll a failed attempt once more, and log its error.
        if session.status == STATUS_READY or session.info.status == _FAILED:
            return
        # After a failed attempt to connect there is no socket.
        with suppress(ValueError, OSError):
            self._reactor.addReader(reader)

    def addWriter(self, writer: IWriteDescriptor) -> None:
        with suppress(ValueError, OSError):
            self._reactor.addWriter(writer)

    def removeReader(self, descriptor: IReadWriteDescriptor) -> None:
        self._reactor.removeReader(descriptor)
        self._reactor.removeWriter(descriptor)

    removeWriter = removeReader


@implementer(IReadWriteDescriptor)
class Driver:
    """A connection that txpostgres opens and closes; its loss is reported to the next caller.

    txpostgres's own cursors let many callers share a connection: for each statement a cursor
    replaces the connection in the reactor and reports the answer a turn later. Here there is one
    caller, and the socket stays in the reactor. Measured side by side, 30,000 times ``select 1``
    over a unix socket: 52 us each with txpostgres's cursor (30 us of it CPU time), 33 us when the
    socket is added and removed for each statement (17 us).

    The reactor watches a duplicate of the socket's descriptor, because libpq closes its own by
    itself, and a reactor cannot forget a descriptor that is closed.

    Args:
        reactor: Watches the socket.
    """

    def __init__(self, reactor: IStoreReactor) -> None:
        self._reactor = reactor
        self._connection: Any = txpostgres.Connection(_Watcher(reactor))
        self._receivers: list[Callable[[Sequence[Notify]], None]] = []
        # Once it is open: psycopg2's connection, and the descriptor that the reactor watches.
        self._session: Any = None
        self._descriptor = -1
        self._cursor: Any = None
        self._waiting: Deferred[Any] | None = None

    @property
    def session(self) -> Any:
        """psycopg2's connection; None if there was no attempt to connect."""
        # It is asked for several times for each statement.
        return self._connection.pollable() if self._session is None else self._session

    @property
    def is_awaited(self) -> bool:
        """Whether a caller waits for an answer."""
        return self._waiting is not None

    @property
    def is_out_of_step(self) -> bool:
        """Whether psycopg2 takes no statement, as it runs one for which no caller waits."""
        session = self._session
        is_free = session is not None and not self.is_awaited and not session.closed
        return is_free and bool(session.isexecuting())

    async def connect(self, **parameters: object) -> None:
        """Connect with libpq's parameters."""
        await self._connection.connect(**parameters)
        if self.session.closed:
            # The connection may break in the turn of the reactor before txpostgres reports it as
            # open.
            raise ConnectionDone
        try:
            self._descriptor = os.dup(self.session.fileno())
        except OSError as error:
            # This process has no descriptor left.
            raise ConnectionLost(str(error)) from error
        self._session = self.session
        self._reactor.addReader(self)

    def send(
        self, sql: str, parameters: Sequence[object], given_up: Callable[[], None]
    ) -> Deferred[Any]:
        """Send a statement; the caller must wait for the answer before the next.

        Args:
            sql: The statement.
            parameters: The values for the ``%s`` placeholders.
            given_up: Called when the caller cancels; psycopg2's own cancellation would block
                until the server responds.

        Returns:
            Fires with psycopg2's cursor.
        """

        def cancel(waiting: Deferred[Any]) -> None:
            self._waiting = None
            given_up()
            waiting.errback(CancelledError())

        try:
            cursor = self._session.cursor()
            cursor.execute(sql, parameters or None)
        except Exception:
            return fail()
        self._cursor = cursor
        waiting = self._waiting = Deferred[Any](cancel)
        self._go_on()
        return waiting

    def forget_caller(self) -> None:
        """Give no answer: the coroutine that waits is being closed, and cannot take it."""
        self._waiting = None

    def on_notify(self, receive: Callable[[Sequence[Notify]], None]) -> None:
        """Call a function with notifications, those that arrive together at once."""
        self._receivers.append(receive)

    def _hear(self) -> None:
        # At once: txpostgres would tell its observers in a later turn of the reactor.
        if not self.session.notifies:
            return
        notices = list(self.session.notifies)
        self.session.notifies.clear()
        for receive in self._receivers:
            receive(notices)

    def close(self) -> None:
        """Close the connection; harmless if it is closed or was never opened."""
        if self.session is not None:
            self._let_go()
            self._connection.close()
        if self._session is not None:
            self.connectionLost(Failure(ConnectionDone()))

    def _let_go(self) -> None:
        """Stop watching the socket; harmless if that has happened."""
        if self._descriptor >= 0:
            self._reactor.removeReader(self)
            self._reactor.removeWriter(self)
            os.close(self._descriptor)
            self._descriptor = -1

    def _go_on(self) -> None:
        """Poll libpq, and fire the Deferred if the statement has ended."""
        try:
            state = self._session.poll()
        except Exception as error:
            self._fire(Failure(error))
            return
        if state == POLL_WRITE:
            self._reactor.addWriter(self)
        elif state != POLL_READ:
            self._fire(self._cursor)

    def _fire(self, answer: object) -> None:
        if self._session.closed:
            self._let_go()
        waiting, self._waiting = self._waiting, None
        self._cursor = None
        if waiting is not None:
            # The caller may close the connection, or send the next statement.
            waiting.callback(answer)
        if self._waiting is not None:
            return
        if waiting is not None and self._receivers and not self._session.closed:
            # Notifications that came with the answer are still unread in libpq, whose socket will
            # not become readable for them.
            self._go_on()
        else:
            self._hear()

    # Calls by the reactor.

    def doRead(self) -> None:
        """Poll libpq, which may have received a notification."""
        self._go_on()

    def doWrite(self) -> None:
        """Poll libpq."""
        self._reactor.removeWriter(self)
        self._go_on()

    def fileno(self) -> int:
        """Return the watched descriptor; -1 if there is none."""
        return self._descriptor

    def logPrefix(self) -> str:
        """Return a name for the log."""
        return "statement"

    def connectionLost(self, reason: Failure) -> None:
        """Report the loss to the caller, with libpq's reason if it still has one."""
        if not self._session.closed:
            self._go_on()
        elif self._waiting is not None:
            waiting, self._waiting = self._waiting, None
            waiting.errback(reason)

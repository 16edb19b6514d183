"""What the transactions of both queues without Twisted share: their begin and their end."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Generic

from psycopg.pq import TransactionStatus

from txqueue.errors import TransactionMisused
from txqueue.standalone.sessions import AnyConnection, C, Home
from txqueue.store.driver import shared_errors
from txqueue.store.enqueueing.awaited_calls import AwaitedCalls

IS_IN_TRANSACTION: Final[ContextVar[bool]] = ContextVar(
    "txqueue_standalone_transaction", default=False
)
"""Whether the running code is inside the ``transaction()`` of any queue."""


class StandaloneTransaction(Generic[C]):
    """A database transaction, made by `Queue.transaction`.

    Args:
        connection: The connection that is inside the transaction.
        schema: The name of txqueue's schema.
    """

    def __init__(self, connection: C, schema: str) -> None:
        self.unawaited = AwaitedCalls("txn", TransactionMisused)
        self._connection = connection
        self._schema = schema
        self._home = Home()
        self._is_open = True

    def _usable(self) -> C:
        self._home.check()
        if not self._is_open:
            raise TransactionMisused(
                "the transaction has ended and takes no more statements",
                "use it only inside its block; in a coroutine, await each call there",
            )
        return self._connection

    @contextmanager
    def inside(self, raised: list[BaseException]) -> Iterator[None]:
        """Let the application use the transaction inside the block.

        Args:
            raised: Takes the error by which the application leaves the block.

        Raises:
            DatabaseUnavailable: When the connection was lost, and its error was swallowed.
            Refused: When a statement has failed, and its error was swallowed.
            TransactionMisused: When a statement has ended the transaction, or a call was not
                awaited.
            ConfigurationError: When this process is a fork of the one that began it.
        """
        is_nested = IS_IN_TRANSACTION.get()
        IS_IN_TRANSACTION.set(True)
        try:
            yield
        except BaseException as error:
            raised.append(error)
            self._note_end(error)
            raise
        finally:
            IS_IN_TRANSACTION.set(is_nested)
            self._end()
        self._check()

    def _note_end(self, error: BaseException) -> None:
        if self._connection.info.transaction_status == TransactionStatus.IDLE:
            error.add_note(
                "A statement had ended the transaction before: if it was a commit, what was"
                " written until then is kept."
            )

    def _end(self) -> None:
        self._is_open = False
        if self._home.is_left and not self._connection.closed:
            # The session stays the parent's.
            _part(self._connection)

    def _check(self) -> None:
        self._home.check()
        self.unawaited.check()
        status = self._connection.info.transaction_status
        if status == TransactionStatus.UNKNOWN:
            raise shared_errors.unavailable(None, "the connection was lost in the transaction")
        if status == TransactionStatus.INERROR:
            raise shared_errors.rolled_back()
        if status == TransactionStatus.IDLE:
            raise shared_errors.ended_inside()


def _part(connection: AnyConnection) -> None:
    """Close a connection in a fork of the process that opened it, which goes on to use it.

    Whatever this process sent, such as the rollback of an open transaction or the message with
    which libpq closes, would reach the parent's session.
    """
    deaf, peer = socket.socketpair()
    peer.close()
    os.dup2(deaf.fileno(), connection.pgconn.socket)
    deaf.close()
    connection.pgconn.finish()

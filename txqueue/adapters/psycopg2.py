"""Enqueue over a connection of psycopg2, in its transaction.

Connections that were made with ``async_=1`` are txpostgres's: `txqueue.enqueue` is for these.
"""

from __future__ import annotations

from typing import Any, Final

from psycopg2.extensions import TRANSACTION_STATUS_IDLE, cursor
from psycopg2.extensions import connection as Connection

from txqueue.adapters.calls import BlockingCalls, DriverSession

__all__ = ["batch", "enqueue", "enqueue_many", "signal"]


class _Session(DriverSession[Connection]):
    @property
    def is_open(self) -> bool:
        return self.connection.get_transaction_status() != TRANSACTION_STATUS_IDLE

    @property
    def is_alone(self) -> bool:
        return self.connection.autocommit and not self.is_open

    def cursor(self) -> Any:
        # The class of cursors that the connection has by default may return other rows.
        return self.connection.cursor(cursor_factory=cursor)


def _session(connection: Connection) -> _Session:
    if not _is_blocking(connection):
        raise TypeError(
            f"{type(connection).__name__} is no connection of psycopg2 that blocks; for others, see"
            " the other modules of txqueue.adapters, and txqueue.enqueue for txpostgres"
        )
    return _Session(connection)


def _is_blocking(connection: Any) -> bool:
    return isinstance(connection, Connection) and not connection.async_


async def foreign(connection: Any) -> DriverSession[Any] | None:
    """Return the session of a connection of psycopg2; None for other objects."""
    return _Session(connection) if _is_blocking(connection) else None


_calls = BlockingCalls(_session)
enqueue: Final = _calls.enqueue
enqueue_many: Final = _calls.enqueue_many
signal: Final = _calls.signal
batch: Final = _calls.batch

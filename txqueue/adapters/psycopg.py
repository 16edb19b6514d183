"""Enqueue over a connection of psycopg 3, in its transaction: `Connection` or `AsyncConnection`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Final, TypeVar

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from txqueue.adapters.calls import AsyncCalls, AsyncDriverSession, BlockingCalls, DriverSession

__all__ = [
    "abatch",
    "aenqueue",
    "aenqueue_many",
    "asignal",
    "batch",
    "enqueue",
    "enqueue_many",
    "signal",
]

C = TypeVar("C", "Connection[Any]", "AsyncConnection[Any]")


class _Session(DriverSession[C]):
    @property
    def is_open(self) -> bool:
        return self.connection.info.transaction_status != TransactionStatus.IDLE

    @property
    def is_alone(self) -> bool:
        return self.connection.autocommit and not self.is_open

    def together(self) -> Any:
        # In pipeline mode only a synchronized connection says whether a transaction is open, and
        # after an error the server skips all statements, "rollback to savepoint" too, until it is
        # synchronized.
        is_needed = self.connection.pgconn.pipeline_status != PipelineStatus.OFF
        return self.connection.pipeline() if is_needed else nullcontext()

    @property
    def skips(self) -> bool:
        """Whether the server skips statements until the connection is synchronized."""
        return self.connection.pgconn.pipeline_status == PipelineStatus.ABORTED


# The cursors that the connection makes may have other rows, or spell parameters otherwise.
class _BlockingSession(_Session["Connection[Any]"]):
    def rows(self, sql: str, parameters: Any) -> list[Any]:
        if self.skips:
            with self.connection.pipeline():
                pass
        with Cursor(self.connection, row_factory=tuple_row) as cursor:
            cursor.execute(sql.encode(), parameters)
            return cursor.fetchall() if _has_rows(cursor, sql) else []


class _AsyncSession(_Session["AsyncConnection[Any]"], AsyncDriverSession["AsyncConnection[Any]"]):
    async def rows(self, sql: str, parameters: Any) -> list[Any]:
        if self.skips:
            async with self.connection.pipeline():
                pass
        async with AsyncCursor(self.connection, row_factory=tuple_row) as cursor:
            await cursor.execute(sql.encode(), parameters)
            return await cursor.fetchall() if _has_rows(cursor, sql) else []


def _has_rows(cursor: Cursor[Any] | AsyncCursor[Any], sql: str) -> bool:
    # In pipeline mode a cursor has no description until its rows are fetched.
    return sql.startswith("select") or cursor.description is not None


def _blocking(connection: Connection[Any]) -> DriverSession[Any]:
    return _BlockingSession(_checked(connection, Connection))


async def _asynchronous(connection: AsyncConnection[Any]) -> DriverSession[Any]:
    return _AsyncSession(_checked(connection, AsyncConnection))


def _checked(connection: Any, expected: type[Any]) -> Any:
    if not isinstance(connection, expected):
        raise TypeError(
            f"{type(connection).__name__} is not a psycopg.{expected.__name__}; those with an a,"
            " such as aenqueue, take an AsyncConnection, the others a Connection"
        )
    return connection


async def foreign(connection: Any) -> DriverSession[Any] | None:
    """Return the session of a connection of psycopg 3; None for other objects."""
    if isinstance(connection, AsyncConnection):
        return _AsyncSession(connection)
    return _BlockingSession(connection) if isinstance(connection, Connection) else None


_calls = BlockingCalls(_blocking)
enqueue: Final = _calls.enqueue
enqueue_many: Final = _calls.enqueue_many
signal: Final = _calls.signal
batch: Final = _calls.batch
_acalls = AsyncCalls(_asynchronous)
aenqueue: Final = _acalls.enqueue
aenqueue_many: Final = _acalls.enqueue_many
asignal: Final = _acalls.signal
abatch: Final = _acalls.batch

"""Enqueue over a connection of psycopg 3, in its transaction: `Connection` or `AsyncConnection`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar, Unpack

from psycopg import AsyncConnection, AsyncCursor, Connection, Cursor
from psycopg.pq import PipelineStatus, TransactionStatus
from psycopg.rows import tuple_row

from txqueue.adapters.exchanges import (
    BlockingBatch,
    Calls,
    ForeignConnection,
    Terms,
    asend_one,
    many,
    one,
    send_one,
    signalled,
)
from txqueue.adapters.exchanges import abatch as acollected
from txqueue.adapters.exchanges import batch as collected
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.portable_calls import Parameters, arun, run
from txqueue.store.enqueueing.signals import Receiver, Signal

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

T = TypeVar("T")


def enqueue(
    connection: Connection[Any],
    work: WorkItem,
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> int:
    """Enqueue work in the connection's transaction.

    Args:
        connection: The caller's own open connection; it is not committed.
        work: An instance of an attrs subclass of `WorkItem`.
        schema: The name of txqueue's schema.
        savepoint: Whether a refusal leaves the transaction usable, for two more statements.
        options: As for `WorkQueue.enqueue`.

    Returns:
        The job's number.

    Raises:
        InvalidWork: When the work or an option is not valid; nothing is sent.
        Refused: When the database refuses the job; the transaction must be rolled back, unless
            there is a savepoint. `QueueFull`, `Duplicate` and `NotPermitted` are such errors.
        SchemaMismatch: When the database has no such schema.
    """
    send = partial(_send, _checked(connection, Connection))
    if not savepoint:
        return send_one(send, work, options, schema, "format")
    with _synchronized(connection):
        return run(one(work, options, _terms(connection, schema, savepoint)), send)


def enqueue_many(
    connection: Connection[Any],
    works: Iterable[WorkItem],
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> list[int]:
    """Enqueue many work items, all or none, a thousand per statement; see `enqueue`.

    Returns:
        The numbers of the jobs, in order.
    """
    send = partial(_send, _checked(connection, Connection))
    with _synchronized(connection):
        return run(many(works, options, _terms(connection, schema, savepoint)), send)


def signal(
    connection: Connection[Any],
    of: Receiver,
    name: str,
    value: Any = None,
    *,
    key: str | None = None,
    schema: str = "txqueue",
    savepoint: bool = False,
) -> bool:
    """Send a signal to a job with steps, in the connection's transaction.

    Args:
        connection: The caller's own open connection; it is not committed.
        of: The number of the job, or its class and the unique key that it holds.
        name: The name of the signal.
        value: What `wait_for` of the job returns, as JSON has it: plain data or an attrs object. It
            is encrypted if the job's type is and this process has the key.
        key: Makes the call idempotent: a second signal of this name and key changes nothing.
        schema: The name of txqueue's schema.
        savepoint: Whether a refusal leaves the transaction usable, for two more statements.

    Returns:
        Whether the signal is new.

    Raises:
        InvalidWork: When the name, the value or the key is not valid; nothing is sent.
        KeyUnavailable: When the value must be encrypted, and this process has no key.
        Refused: When the job has ended or there is none, or when its type is encrypted and the
            value is in clear; the transaction must be rolled back, unless there is a savepoint.
        SchemaMismatch: When the database has no such schema.
    """
    send = partial(_send, _checked(connection, Connection))
    signal = Signal(of, name, value, key)
    with _synchronized(connection):
        return run(signalled(signal, _terms(connection, schema, savepoint)), send)


def batch(
    connection: Connection[Any],
    callback: WorkItem,
    *,
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> AbstractContextManager[BlockingBatch]:
    """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

    Args:
        connection: The caller's own open connection.
        callback: The work item to run once all jobs have ended; it has no unique key.
        schema: The name of txqueue's schema.
        options: Options of the callback, as for `enqueue`.

    Returns:
        A context manager whose value has the methods ``enqueue`` and ``enqueue_many``.

    Raises:
        TransactionMisused: When the connection commits each statement by itself.
    """
    calls = Calls(
        partial(enqueue, connection, schema=schema),
        partial(enqueue_many, connection, schema=schema),
        partial(_is_alone, connection),
    )
    return collected(calls, callback, options)


async def aenqueue(
    connection: AsyncConnection[Any],
    work: WorkItem,
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> int:
    """Enqueue work in the connection's transaction; see `enqueue`."""
    send = partial(_asend, _checked(connection, AsyncConnection))
    if not savepoint:
        return await asend_one(send, work, options, schema, "format")
    async with _asynchronized(connection):
        return await arun(one(work, options, _terms(connection, schema, savepoint)), send)


async def aenqueue_many(
    connection: AsyncConnection[Any],
    works: Iterable[WorkItem],
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> list[int]:
    """Enqueue many work items, all or none, a thousand per statement; see `enqueue_many`."""
    send = partial(_asend, _checked(connection, AsyncConnection))
    async with _asynchronized(connection):
        return await arun(many(works, options, _terms(connection, schema, savepoint)), send)


async def asignal(
    connection: AsyncConnection[Any],
    of: Receiver,
    name: str,
    value: Any = None,
    *,
    key: str | None = None,
    schema: str = "txqueue",
    savepoint: bool = False,
) -> bool:
    """Send a signal to a job with steps; see `signal`."""
    send = partial(_asend, _checked(connection, AsyncConnection))
    signal = Signal(of, name, value, key)
    async with _asynchronized(connection):
        return await arun(signalled(signal, _terms(connection, schema, savepoint)), send)


def abatch(
    connection: AsyncConnection[Any],
    callback: WorkItem,
    *,
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> AbstractAsyncContextManager[Batch]:
    """Collect a batch of jobs with ``async with``; see `batch`."""
    calls = Calls(
        partial(aenqueue, connection, schema=schema),
        partial(aenqueue_many, connection, schema=schema),
        partial(_is_alone, connection),
    )
    return acollected(calls, callback, options)


def foreign(connection: Any) -> ForeignConnection | None:
    """Return a connection of psycopg 3 as that of an application; None for other objects."""
    if not isinstance(connection, Connection | AsyncConnection):
        return None
    value: Any = _send
    rows: Any = _rows
    if is_asynchronous := isinstance(connection, AsyncConnection):
        value, rows = _asend, _arows
    return ForeignConnection(
        style="format",
        value=partial(value, connection),
        rows=partial(rows, connection),
        is_asynchronous=is_asynchronous,
        is_open=connection.info.transaction_status != TransactionStatus.IDLE,
        is_alone=_is_alone(connection),
    )


def _checked(connection: T, expected: type[Any]) -> T:
    if not isinstance(connection, expected):
        raise TypeError(
            f"{type(connection).__name__} is not a psycopg.{expected.__name__}; those with an a,"
            " such as aenqueue, take an AsyncConnection, the others a Connection"
        )
    return connection


def _terms(
    connection: Connection[Any] | AsyncConnection[Any], schema: str, savepoint: bool
) -> Terms:
    return Terms("format", partial(_is_alone, connection), schema, savepoint)


def _is_alone(connection: Connection[Any] | AsyncConnection[Any]) -> bool:
    is_idle = connection.info.transaction_status == TransactionStatus.IDLE
    return bool(connection.autocommit and is_idle)


# In pipeline mode only a synchronized connection says whether a transaction is open, and after an
# error the server skips all statements, "rollback to savepoint" too, until it is synchronized.
def _synchronized(connection: Connection[Any]) -> AbstractContextManager[object]:
    is_needed = connection.pgconn.pipeline_status != PipelineStatus.OFF
    return connection.pipeline() if is_needed else nullcontext()


def _asynchronized(connection: AsyncConnection[Any]) -> AbstractAsyncContextManager[object]:
    is_needed = connection.pgconn.pipeline_status != PipelineStatus.OFF
    return connection.pipeline() if is_needed else nullcontext()


# The cursors that the connection makes may have other rows, or spell parameters otherwise. In
# pipeline mode a cursor has no description until its rows are fetched.
def _send(connection: Connection[Any], sql: str, parameters: Parameters) -> Any:
    if connection.pgconn.pipeline_status == PipelineStatus.ABORTED:
        with connection.pipeline():
            pass
    with Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(sql.encode(), parameters)
        row = cursor.fetchone() if sql.startswith("select") else None
    return None if row is None else row[0]


async def _asend(connection: AsyncConnection[Any], sql: str, parameters: Parameters) -> Any:
    if connection.pgconn.pipeline_status == PipelineStatus.ABORTED:
        async with connection.pipeline():
            pass
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(sql.encode(), parameters)
        row = await cursor.fetchone() if sql.startswith("select") else None
    return None if row is None else row[0]


def _rows(connection: Connection[Any], sql: str, parameters: Sequence[object]) -> list[Any]:
    with Cursor(connection, row_factory=tuple_row) as cursor:
        cursor.execute(sql.encode(), parameters)
        return [] if cursor.description is None else cursor.fetchall()


async def _arows(
    connection: AsyncConnection[Any], sql: str, parameters: Sequence[object]
) -> list[Any]:
    async with AsyncCursor(connection, row_factory=tuple_row) as cursor:
        await cursor.execute(sql.encode(), parameters)
        return [] if cursor.description is None else await cursor.fetchall()

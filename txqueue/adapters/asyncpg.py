"""Enqueue over a connection of asyncpg, in its transaction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any, TypeAlias, Unpack

from asyncpg import Connection
from asyncpg.pool import PoolConnectionProxy

from txqueue.adapters.exchanges import (
    Calls,
    ForeignConnection,
    Terms,
    abatch,
    as_numbered,
    asend_one,
    many,
    one,
    signalled,
)
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.portable_calls import Parameters, arun
from txqueue.store.enqueueing.signals import Receiver, Signal

__all__ = ["batch", "enqueue", "enqueue_many", "signal"]

AnyConnection: TypeAlias = "Connection[Any] | PoolConnectionProxy[Any]"


async def enqueue(
    connection: AnyConnection,
    work: WorkItem,
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> int:
    """Enqueue work in the connection's transaction; without one, it is committed at once.

    Args:
        connection: The caller's own open connection, perhaps one that a pool has lent.
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
    send = partial(_send, _checked(connection))
    if not savepoint:
        return await asend_one(send, work, options, schema, "numeric_dollar")
    return await arun(one(work, options, _terms(connection, schema, savepoint)), send)


async def enqueue_many(
    connection: AnyConnection,
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
    send = partial(_send, _checked(connection))
    return await arun(many(works, options, _terms(connection, schema, savepoint)), send)


async def signal(
    connection: AnyConnection,
    of: Receiver,
    name: str,
    value: Any = None,
    *,
    key: str | None = None,
    schema: str = "txqueue",
    savepoint: bool = False,
) -> bool:
    """Send a signal to a job with steps, in the connection's transaction; without one, at once.

    Args:
        connection: The caller's own open connection, perhaps one that a pool has lent.
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
    send = partial(_send, _checked(connection))
    signal = Signal(of, name, value, key)
    return await arun(signalled(signal, _terms(connection, schema, savepoint)), send)


def batch(
    connection: AnyConnection,
    callback: WorkItem,
    *,
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> AbstractAsyncContextManager[Batch]:
    """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

    Args:
        connection: The caller's own open connection.
        callback: The work item to run once all jobs have ended; it has no unique key.
        schema: The name of txqueue's schema.
        options: Options of the callback, as for `enqueue`.

    Returns:
        An asynchronous context manager whose value has the methods ``enqueue`` and
        ``enqueue_many``.

    Raises:
        TransactionMisused: When the connection is in no transaction.
    """
    calls = Calls(
        partial(enqueue, connection, schema=schema),
        partial(enqueue_many, connection, schema=schema),
        partial(_is_alone, connection),
    )
    return abatch(calls, callback, options)


def foreign(connection: Any) -> ForeignConnection | None:
    """Return a connection of asyncpg as that of an application; None for other objects."""
    if not isinstance(connection, Connection | PoolConnectionProxy):
        return None
    return ForeignConnection(
        style="numeric_dollar",
        value=partial(_send, connection),
        rows=partial(_rows, connection),
        is_asynchronous=True,
        is_open=connection.is_in_transaction(),
        is_alone=_is_alone(connection),
    )


def _checked(connection: AnyConnection) -> AnyConnection:
    if not isinstance(connection, Connection | PoolConnectionProxy):
        raise TypeError(
            f"{type(connection).__name__} is no connection of asyncpg; take one from a pool with"
            " async with pool.acquire()"
        )
    return connection


def _terms(connection: AnyConnection, schema: str, savepoint: bool) -> Terms:
    return Terms("numeric_dollar", partial(_is_alone, connection), schema, savepoint)


def _is_alone(connection: AnyConnection) -> bool:
    return not connection.is_in_transaction()


async def _send(connection: AnyConnection, sql: str, parameters: Parameters) -> Any:
    if sql.startswith("select"):
        return await connection.fetchval(sql, *parameters)
    # Without a preparation.
    await connection.execute(sql)
    return None


async def _rows(
    connection: AnyConnection, sql: str, parameters: Sequence[object]
) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await connection.fetch(as_numbered(sql, parameters), *parameters)]

"""Enqueue over a connection of psycopg2, in its transaction.

Connections that were made with ``async_=1`` are txpostgres's: `txqueue.enqueue` is for these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Unpack

from psycopg2.extensions import TRANSACTION_STATUS_IDLE, cursor
from psycopg2.extensions import connection as Connection

from txqueue.adapters.exchanges import (
    BlockingBatch,
    Calls,
    ForeignConnection,
    Terms,
    many,
    one,
    send_one,
    signalled,
)
from txqueue.adapters.exchanges import batch as collected
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.portable_calls import Parameters, run
from txqueue.store.enqueueing.signals import Receiver, Signal

__all__ = ["batch", "enqueue", "enqueue_many", "signal"]


def enqueue(
    connection: Connection,
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
    send = partial(_send, _checked(connection))
    if not savepoint:
        return send_one(send, work, options, schema, "format")
    return run(one(work, options, _terms(connection, schema, savepoint)), send)


def enqueue_many(
    connection: Connection,
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
    return run(many(works, options, _terms(connection, schema, savepoint)), send)


def signal(
    connection: Connection,
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
    send = partial(_send, _checked(connection))
    signal = Signal(of, name, value, key)
    return run(signalled(signal, _terms(connection, schema, savepoint)), send)


def batch(
    connection: Connection,
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


def foreign(connection: Any) -> ForeignConnection | None:
    """Return a connection of psycopg2 as that of an application; None for other objects."""
    if not isinstance(connection, Connection) or connection.async_:
        return None
    return ForeignConnection(
        style="format",
        value=partial(_send, connection),
        rows=partial(_rows, connection),
        is_asynchronous=False,
        is_open=connection.get_transaction_status() != TRANSACTION_STATUS_IDLE,
        is_alone=_is_alone(connection),
    )


def _checked(connection: Any) -> Connection:
    if not isinstance(connection, Connection) or connection.async_:
        raise TypeError(
            f"{type(connection).__name__} is no connection of psycopg2 that blocks; for others, see"
            " the other modules of txqueue.adapters, and txqueue.enqueue for txpostgres"
        )
    return connection


def _terms(connection: Connection, schema: str, savepoint: bool) -> Terms:
    return Terms("format", partial(_is_alone, connection), schema, savepoint)


def _is_alone(connection: Connection) -> bool:
    is_idle = connection.get_transaction_status() == TRANSACTION_STATUS_IDLE
    return connection.autocommit and is_idle


def _send(connection: Connection, sql: str, parameters: Parameters) -> Any:
    # The class of cursors that the connection has by default may return other rows.
    with connection.cursor(cursor_factory=cursor) as plain:
        plain.execute(sql, parameters)
        row = None if plain.description is None else plain.fetchone()
    return None if row is None else row[0]


def _rows(connection: Connection, sql: str, parameters: Sequence[object]) -> list[Any]:
    with connection.cursor(cursor_factory=cursor) as plain:
        plain.execute(sql, parameters)
        return [] if plain.description is None else plain.fetchall()

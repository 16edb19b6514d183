"""Enqueue over a connection or session of SQLAlchemy, in its transaction, whatever its driver.

The functions with an `a` take an `AsyncConnection` or `AsyncSession`, the others a `Connection` or
`Session`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, Unpack

from sqlalchemy import Connection
from sqlalchemy.orm import Session, scoped_session

from txqueue.adapters.exchanges import (
    BlockingBatch,
    Calls,
    ForeignConnection,
    Terms,
    as_numbered,
    asend_one,
    many,
    one,
    send_one,
    signalled,
)
from txqueue.adapters.exchanges import abatch as acollected
from txqueue.adapters.exchanges import batch as collected
from txqueue.errors import ConfigurationError
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.portable_calls import Parameters, ParamStyle, arun, run
from txqueue.store.enqueueing.signals import Receiver, Signal

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

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

Bind: TypeAlias = "Connection | Session | scoped_session[Any]"
AsyncBind: TypeAlias = "AsyncConnection | AsyncSession | async_scoped_session[Any]"


def enqueue(
    bind: Bind,
    work: WorkItem,
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> int:
    """Enqueue work in the transaction of a connection or session.

    Args:
        bind: The caller's own connection or session; it is neither flushed nor committed.
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
    connection = _connection(bind)
    send = partial(_send, connection)
    if not savepoint:
        return send_one(send, work, options, schema, _style(connection))
    return run(one(work, options, _terms(connection, schema, savepoint)), send)


def enqueue_many(
    bind: Bind,
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
    connection = _connection(bind)
    terms = _terms(connection, schema, savepoint)
    return run(many(works, options, terms), partial(_send, connection))


def signal(
    bind: Bind,
    of: Receiver,
    name: str,
    value: Any = None,
    *,
    key: str | None = None,
    schema: str = "txqueue",
    savepoint: bool = False,
) -> bool:
    """Send a signal to a job with steps, in the transaction of a connection or session.

    Args:
        bind: The caller's own connection or session; it is neither flushed nor committed.
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
    connection = _connection(bind)
    signal = Signal(of, name, value, key)
    terms = _terms(connection, schema, savepoint)
    return run(signalled(signal, terms), partial(_send, connection))


def batch(
    bind: Bind,
    callback: WorkItem,
    *,
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> AbstractContextManager[BlockingBatch]:
    """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

    Args:
        bind: The caller's own connection or session.
        callback: The work item to run once all jobs have ended; it has no unique key.
        schema: The name of txqueue's schema.
        options: Options of the callback, as for `enqueue`.

    Returns:
        A context manager whose value has the methods ``enqueue`` and ``enqueue_many``.

    Raises:
        TransactionMisused: When the connection commits each statement by itself.
    """
    # Each call asks the session for its connection again, which begins that of begin_nested().
    calls = Calls(
        partial(enqueue, bind, schema=schema),
        partial(enqueue_many, bind, schema=schema),
        lambda: _is_alone(_connection(bind)),
    )
    return collected(calls, callback, options)


async def aenqueue(
    bind: AsyncBind,
    work: WorkItem,
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> int:
    """Enqueue work in the transaction of a connection or session; see `enqueue`."""
    connection = await _aconnection(bind)
    send = partial(_asend, connection)
    if not savepoint:
        return await asend_one(send, work, options, schema, _style(connection))
    terms = _terms(connection.sync_connection, schema, savepoint)
    return await arun(one(work, options, terms), send)


async def aenqueue_many(
    bind: AsyncBind,
    works: Iterable[WorkItem],
    *,
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> list[int]:
    """Enqueue many work items, all or none, a thousand per statement; see `enqueue_many`."""
    connection = await _aconnection(bind)
    terms = _terms(connection.sync_connection, schema, savepoint)
    return await arun(many(works, options, terms), partial(_asend, connection))


async def asignal(
    bind: AsyncBind,
    of: Receiver,
    name: str,
    value: Any = None,
    *,
    key: str | None = None,
    schema: str = "txqueue",
    savepoint: bool = False,
) -> bool:
    """Send a signal to a job with steps; see `signal`."""
    connection = await _aconnection(bind)
    signal = Signal(of, name, value, key)
    terms = _terms(connection.sync_connection, schema, savepoint)
    return await arun(signalled(signal, terms), partial(_asend, connection))


@asynccontextmanager
async def abatch(
    bind: AsyncBind,
    callback: WorkItem,
    *,
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> AsyncIterator[Batch]:
    """Collect a batch of jobs with ``async with``; see `batch`."""
    connection = await _aconnection(bind)
    calls = Calls(
        partial(aenqueue, bind, schema=schema),
        partial(aenqueue_many, bind, schema=schema),
        partial(_is_alone, connection.sync_connection),
    )
    async with acollected(calls, callback, options) as collecting:
        yield collecting


def foreign(bind: Any) -> ForeignConnection | None:
    """Return a connection or session as that of an application; None for other objects."""
    if not isinstance(bind, Connection | Session | scoped_session):
        return None
    # A scoped session has the methods of its session, which are not typed.
    given: Any = bind
    is_open = bool(given.in_transaction())
    connection = _connection(bind)
    return ForeignConnection(
        style=_style(connection),
        value=partial(_send, connection),
        rows=partial(_rows, connection),
        is_asynchronous=False,
        is_open=is_open,
        is_alone=_is_alone(connection),
    )


async def aforeign(bind: Any) -> ForeignConnection | None:
    """Return an asynchronous one as that of an application; None for other objects."""
    if not hasattr(bind, "in_transaction") or not hasattr(bind, "run_sync"):
        return None
    is_open = bool(bind.in_transaction())
    connection = await _aconnection(bind)
    return ForeignConnection(
        style=_style(connection),
        value=partial(_asend, connection),
        rows=partial(_arows, connection),
        is_asynchronous=True,
        is_open=is_open,
        is_alone=_is_alone(connection.sync_connection),
    )


def _connection(bind: Any) -> Connection:
    if isinstance(bind, scoped_session):
        bind = bind()
    if isinstance(bind, Session):
        bind = bind.connection()
    if isinstance(bind, Connection):
        return bind
    raise TypeError(
        f"{type(bind).__name__} is no Connection or Session of SQLAlchemy; aenqueue takes an"
        " AsyncConnection or AsyncSession, and an Engine connects with engine.begin()"
    )


async def _aconnection(bind: Any) -> AsyncConnection:
    # Imported late: it needs greenlet, which SQLAlchemy 2.1 does not install by itself.
    from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession, async_scoped_session

    if isinstance(bind, async_scoped_session):
        bind = bind()
    if isinstance(bind, AsyncSession):
        bind = await bind.connection()
    if isinstance(bind, AsyncConnection):
        return bind
    raise TypeError(
        f"{type(bind).__name__} is no AsyncConnection or AsyncSession of SQLAlchemy; enqueue takes"
        " a Connection or Session, and an AsyncEngine connects with engine.begin()"
    )


def _terms(connection: Connection | None, schema: str, savepoint: bool) -> Terms:
    assert connection is not None, "an AsyncConnection that has begun has one"
    return Terms(_style(connection), partial(_is_alone, connection), schema, savepoint)


def _style(connection: Connection | AsyncConnection) -> ParamStyle:
    if connection.dialect.name != "postgresql":
        raise ConfigurationError(
            f"the connection is to a database of {connection.dialect.name}",
            "enqueue on a connection to the PostgreSQL database with txqueue's schema",
        )
    has_dollars = connection.dialect.paramstyle == "numeric_dollar"
    return "numeric_dollar" if has_dollars else "format"


def _is_alone(connection: Connection | None) -> bool:
    # With any driver, SQLAlchemy has begun a transaction unless the isolation level is AUTOCOMMIT.
    return bool(connection and getattr(connection.connection.dbapi_connection, "autocommit", False))


# SQLAlchemy passes the statement on as it is: there is nothing to compile.
def _send(connection: Connection, sql: str, parameters: Parameters) -> Any:
    with connection.exec_driver_sql(sql, parameters) as result:
        return result.scalar() if result.returns_rows else None


async def _asend(connection: AsyncConnection, sql: str, parameters: Parameters) -> Any:
    with await connection.exec_driver_sql(sql, parameters) as result:
        return result.scalar() if result.returns_rows else None


def _rows(connection: Connection, sql: str, parameters: Sequence[object]) -> list[Any]:
    if _style(connection) == "numeric_dollar":
        sql = as_numbered(sql, parameters)
    with connection.exec_driver_sql(sql, tuple(parameters)) as result:
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []


async def _arows(connection: AsyncConnection, sql: str, parameters: Sequence[object]) -> list[Any]:
    rows: list[Any] = await connection.run_sync(_rows, sql, parameters)
    return rows

"""Enqueue over a connection or session of SQLAlchemy, in its transaction, whatever its driver.

The functions with an `a` take an `AsyncConnection` or `AsyncSession`, the others a `Connection` or
`Session`; it is neither flushed nor committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sqlalchemy import Connection
from sqlalchemy.orm import Session as OrmSession
from sqlalchemy.orm import scoped_session

from txqueue.adapters.calls import AsyncCalls, BlockingCalls, DriverSession, as_numbered
from txqueue.errors import ConfigurationError
from txqueue.store.enqueueing.calls import ParamStyle, Statement

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

Bind: TypeAlias = "Connection | OrmSession | scoped_session[Any]"
AsyncBind: TypeAlias = "AsyncConnection | AsyncSession | async_scoped_session[Any]"


class _Session(DriverSession[Connection]):
    is_open = True

    def __init__(self, connection: Connection, *, was_open: bool = True) -> None:
        super().__init__(connection)
        if connection.dialect.name != "postgresql":
            raise ConfigurationError(
                f"the connection is to a database of {connection.dialect.name}",
                "enqueue on a connection to the PostgreSQL database with txqueue's schema",
            )
        self.is_open = was_open
        if connection.dialect.paramstyle == "numeric_dollar":
            self.style: ParamStyle = "numeric_dollar"

    @property
    def is_alone(self) -> bool:
        # With any driver, SQLAlchemy has begun a transaction unless the isolation level is
        # AUTOCOMMIT.
        return bool(getattr(self.connection.connection.dbapi_connection, "autocommit", False))

    # SQLAlchemy passes statements on as they are: there is nothing to compile.
    def value(self, statement: Statement) -> Any:
        with self.connection.exec_driver_sql(*statement) as result:
            return result.scalar() if result.returns_rows else None

    def rows(self, sql: str, parameters: Any) -> Any:
        return self._rows(self.connection, sql, parameters)

    def _rows(self, connection: Connection, sql: str, parameters: Any) -> list[Any]:
        if self.style == "numeric_dollar":
            sql = as_numbered(sql, parameters)
        with connection.exec_driver_sql(sql, tuple(parameters)) as result:
            return [tuple(row) for row in result.fetchall()] if result.returns_rows else []


class _AsyncSession(_Session):
    is_asynchronous = True

    def __init__(self, connection: AsyncConnection, *, was_open: bool = True) -> None:
        assert connection.sync_connection is not None, "one that has begun has one"
        super().__init__(connection.sync_connection, was_open=was_open)
        self._asynchronous = connection

    async def value(self, statement: Statement) -> Any:
        with await self._asynchronous.exec_driver_sql(*statement) as result:
            return result.scalar() if result.returns_rows else None

    async def rows(self, sql: str, parameters: Any) -> Any:
        return await self._asynchronous.run_sync(self._rows, sql, parameters)


def _connection(bind: Any) -> Connection:
    if isinstance(bind, scoped_session):
        bind = bind()
    if isinstance(bind, OrmSession):
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


def _blocking(bind: Bind) -> DriverSession[Any]:
    return _Session(_connection(bind))


async def _asynchronous(bind: AsyncBind) -> DriverSession[Any]:
    return _AsyncSession(await _aconnection(bind))


async def foreign(bind: Any) -> DriverSession[Any] | None:
    """Return the session of a connection or session of SQLAlchemy; None for other objects."""
    is_asynchronous = hasattr(bind, "in_transaction") and hasattr(bind, "run_sync")
    if not (is_asynchronous or isinstance(bind, Connection | OrmSession | scoped_session)):
        return None
    # Asked for its connection, a session begins a transaction.
    was_open = bool(bind.in_transaction())
    if is_asynchronous:
        return _AsyncSession(await _aconnection(bind), was_open=was_open)
    return _Session(_connection(bind), was_open=was_open)


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

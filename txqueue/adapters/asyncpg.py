"""Enqueue over a connection of asyncpg, in its transaction."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from asyncpg import Connection
from asyncpg.pool import PoolConnectionProxy

from txqueue.adapters.calls import AsyncCalls, AsyncDriverSession, DriverSession, as_numbered
from txqueue.store.enqueueing.calls import ParamStyle, Statement

__all__ = ["batch", "enqueue", "enqueue_many", "signal"]

AnyConnection: TypeAlias = "Connection[Any] | PoolConnectionProxy[Any]"


class _Session(AsyncDriverSession[AnyConnection]):
    style: ParamStyle = "numeric_dollar"

    @property
    def is_open(self) -> bool:
        return bool(self.connection.is_in_transaction())

    @property
    def is_alone(self) -> bool:
        return not self.is_open

    async def value(self, statement: Statement) -> Any:
        sql, parameters = statement
        if sql.startswith("select"):
            return await self.connection.fetchval(sql, *parameters)
        # Without a preparation.
        await self.connection.execute(sql)
        return None

    async def rows(self, sql: str, parameters: Any) -> list[tuple[Any, ...]]:
        numbered = as_numbered(sql, parameters)
        return [tuple(row) for row in await self.connection.fetch(numbered, *parameters)]


async def _session(connection: AnyConnection) -> DriverSession[Any]:
    if (found := await foreign(connection)) is None:
        raise TypeError(
            f"{type(connection).__name__} is no connection of asyncpg; take one from a pool with"
            " async with pool.acquire()"
        )
    return found


async def foreign(connection: Any) -> DriverSession[Any] | None:
    """Return the session of a connection of asyncpg; None for other objects."""
    is_own = isinstance(connection, Connection | PoolConnectionProxy)
    return _Session(connection) if is_own else None


_calls = AsyncCalls(_session)
enqueue: Final = _calls.enqueue
enqueue_many: Final = _calls.enqueue_many
signal: Final = _calls.signal
batch: Final = _calls.batch

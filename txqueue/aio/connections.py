"""A few connections that are opened when first needed, and replaced when they are lost.

Not psycopg_pool's: it hands out connections of a server that has restarted, or checks each with a
round trip; after an outage it waits for up to minutes before it connects; and the error for a
caller that gets no connection does not say why.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import uniform
from typing import Any

from psycopg import AsyncConnection

from txqueue.errors import DatabaseUnavailable
from txqueue.standalone.sessions import MANNER, answered, is_alive, is_reusable, parameters_of
from txqueue.store.driver.session_bounds import LONGEST_LIFE
from txqueue.store.driver.shared_errors import naming_source, none_free

__all__ = ["AsyncConnections", "connected"]


async def connected(dsn: str, application_name: str) -> AsyncConnection[Any]:
    """Open a connection.

    Raises:
        DatabaseUnavailable: When no host of the DSN accepts it.
        ConfigurationError: When the DSN is not valid.
    """
    parameters = parameters_of(dsn, application_name)
    with naming_source(dsn), answered():
        return await AsyncConnection.connect(**MANNER, **parameters)


class AsyncConnections:
    """At most ``size`` connections.

    Args:
        dsn: A libpq URI or keyword string.
        size: How many connections there may be at a time.
        wait: Seconds that a caller waits for a connection while all are in use.
    """

    def __init__(self, dsn: str, size: int, wait: float) -> None:
        self._dsn = dsn
        self._size = size
        self._wait = wait
        self._turn = asyncio.Semaphore(size)
        self._idle: list[tuple[AsyncConnection[Any], float]] = []
        self._longest_life = LONGEST_LIFE * uniform(0.8, 1.0)
        self._is_closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; callers beyond the size wait for one.

        Raises:
            DatabaseUnavailable: When no connection can be made, or they are closed.
        """
        await self._acquired()
        try:
            connection, opened_at = await self._working()
            try:
                yield connection
            finally:
                await self._put_back(connection, opened_at)
        finally:
            self._turn.release()

    async def close(self) -> None:
        """Close idle connections now, and lent ones when they are returned."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop()[0].close()

    async def _acquired(self) -> None:
        try:
            async with asyncio.timeout(self._wait):
                await self._turn.acquire()
        except TimeoutError:
            raise none_free(self._wait, self._size) from None

    async def _working(self) -> tuple[AsyncConnection[Any], float]:
        if self._is_closed:
            raise DatabaseUnavailable("the queue is closed", "use it before close()")
        while self._idle:
            connection, opened_at = self._idle.pop()
            is_young = time.monotonic() - opened_at < self._longest_life
            if is_young and is_alive(connection):
                return connection, opened_at
            await connection.close()
        return await connected(self._dsn, "txqueue client"), time.monotonic()

    async def _put_back(self, connection: AsyncConnection[Any], opened_at: float) -> None:
        # The application may have left a transaction open; do not reuse such a connection.
        if self._is_closed or not is_reusable(connection):
            await connection.close()
        else:
            self._idle.append((connection, opened_at))

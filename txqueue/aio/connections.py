"""A few connections of asyncio, opened when first needed, and replaced when they are lost.

Not psycopg_pool's: it hands out connections of a server that has restarted, or checks each with a
round trip; after an outage it waits for up to minutes before it connects; and the error for a
caller that gets no connection does not say why.
"""

from __future__ import annotations

import time
from asyncio import Semaphore
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from random import uniform
from typing import Any

from psycopg import AsyncConnection

from txqueue.aio.environment import acquired
from txqueue.errors import DatabaseUnavailable
from txqueue.standalone.sessions import MANNER, answered, is_alive, is_reusable, parameters_of
from txqueue.store.driver.session_bounds import LONGEST_LIFE
from txqueue.store.driver.shared_errors import naming_source, none_free


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
        self._turn = Semaphore(size)
        self._idle: deque[tuple[AsyncConnection[Any], float]] = deque()
        self._longest_life = LONGEST_LIFE * uniform(0.8, 1.0)
        self._is_closed = False

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; callers beyond the size wait for one.

        Raises:
            DatabaseUnavailable: When no connection can be made, or they are closed.
        """
        if not await acquired(self._turn, self._wait):
            raise none_free(self._wait, self._size)
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
        while (found := self._popped()) is not None:
            await found[0].close()

    def _popped(self) -> tuple[AsyncConnection[Any], float] | None:
        # Another thread may take the last one between a check and the pop.
        with suppress(IndexError):
            return self._idle.pop()
        return None

    async def _working(self) -> tuple[AsyncConnection[Any], float]:
        if self._is_closed:
            raise DatabaseUnavailable("the queue is closed", "use it before close()")
        while (found := self._popped()) is not None:
            connection, opened_at = found
            is_young = time.monotonic() - opened_at < self._longest_life
            if is_young and is_alive(connection):
                return found
            await connection.close()
        return await connected(self._dsn, "txqueue client"), time.monotonic()

    async def _put_back(self, connection: AsyncConnection[Any], opened_at: float) -> None:
        # The application may have left a transaction open; do not reuse such a connection.
        if self._is_closed or not is_reusable(connection):
            await connection.close()
        else:
            self._idle.append((connection, opened_at))

"""A few connections of asyncio, opened when first needed, and replaced when they are lost."""

from __future__ import annotations

import time
from asyncio import Semaphore
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from psycopg import AsyncConnection

from txqueue.aio.environment import acquired
from txqueue.standalone.requests import Target
from txqueue.standalone.sessions import IdleConnections, connecting
from txqueue.store.driver.shared_errors import none_free


class AsyncConnections(IdleConnections[AsyncConnection[Any]]):
    """At most as many connections as the target says.

    Args:
        target: Where to connect, and how long a caller waits while all connections are in use.
    """

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._turn = Semaphore(target.connections)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; callers beyond the size wait for one.

        Raises:
            DatabaseUnavailable: When no connection can be made, or they are closed.
        """
        if not await acquired(self._turn, self._target.connection_wait):
            raise none_free(self._target.connection_wait, self._target.connections)
        try:
            connection, opened_at = self.take() or await self._opened()
            try:
                yield connection
            finally:
                self.put_back(connection, opened_at)
        finally:
            self._turn.release()

    async def _opened(self) -> tuple[AsyncConnection[Any], float]:
        with connecting(self._target.dsn, "txqueue client") as parameters:
            return await AsyncConnection.connect(**parameters), time.monotonic()

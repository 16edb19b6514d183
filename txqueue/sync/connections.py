# Generated from txqueue/aio/connections.py by docs/build_sync.py: edit that.
"""A few connections of threads, opened when first needed, and replaced when they are lost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Semaphore
from typing import Any

from psycopg import Connection

from txqueue.standalone.requests import Target
from txqueue.standalone.sessions import IdleConnections, connecting
from txqueue.store.driver.shared_errors import none_free
from txqueue.sync.environment import acquired


class BlockingConnections(IdleConnections[Connection[Any]]):
    """At most as many connections as the target says.

    Args:
        target: Where to connect, and how long a caller waits while all connections are in use.
    """

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._turn = Semaphore(target.connections)

    @contextmanager
    def connection(self) -> Iterator[Connection[Any]]:
        """Lend a connection; callers beyond the size wait for one.

        Raises:
            DatabaseUnavailable: When no connection can be made, or they are closed.
        """
        if not acquired(self._turn, self._target.connection_wait):
            raise none_free(self._target.connection_wait, self._target.connections)
        try:
            connection, opened_at = self.take() or self._opened()
            try:
                yield connection
            finally:
                self.put_back(connection, opened_at)
        finally:
            self._turn.release()

    def _opened(self) -> tuple[Connection[Any], float]:
        with connecting(self._target.dsn, "txqueue client") as parameters:
            return Connection.connect(**parameters), time.monotonic()

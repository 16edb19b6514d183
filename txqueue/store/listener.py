"""Hears the database's notifications; listens again after every loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from txqueue.store.connection import Connection

__all__ = ["Listener"]

# Seconds after which a statement without an answer is held for lost.
PATIENCE = 10.0


class Listener:
    """A connection that listens on one channel.

    Args:
        reactor: Watches the socket.
        dsn: A libpq URI or keyword string.
        channel: What to listen on; a checked identifier.
        receive: Called at each notification.
    """

    def __init__(self, reactor: Any, dsn: str, channel: str, receive: Callable[[], None]) -> None:
        self._reactor = reactor
        self._dsn = dsn
        self._channel = channel
        self._receive = receive
        self._connection: Connection | None = None

    async def ensure(self) -> bool:
        """Listen if it does not; True if it had to, so that the caller looks for what it missed.

        Raises:
            DatabaseUnavailable: When no connection can be made.
        """
        if self._connection is not None and not self._connection.is_dead:
            return False
        self.close()
        connection = await Connection(self._reactor, "txqueue listener", PATIENCE).open(self._dsn)
        self._connection = connection
        await connection.query(f'listen "{self._channel}"')
        connection.on_notify(self._receive)
        return True

    def close(self) -> None:
        """Stop listening."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

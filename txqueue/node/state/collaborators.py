"""What a master asks of the reactor, and the events that several services act on."""

from __future__ import annotations

from typing import Protocol

from twisted.internet.interfaces import (
    IReactorCore,
    IReactorProcess,
    IReactorSocket,
)

from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.wire.endpoints import INetworkReactor


class IMasterReactor(IStoreReactor, INetworkReactor, IReactorProcess, IReactorSocket, IReactorCore):
    """The reactor as a master needs it."""


class RoomListener(Protocol):
    """A service that acts when workers have room."""

    def on_room(self) -> None:
        """Act on new room in a worker."""


class BacklogListener(Protocol):
    """A service that acts on the queue's backlog."""

    def on_backlog(self, *, has_backlog: bool) -> None:
        """Act on whether a claim has left ready jobs."""


class BeatListener(Protocol):
    """A service that acts on heartbeats."""

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Act on the answer to a heartbeat."""

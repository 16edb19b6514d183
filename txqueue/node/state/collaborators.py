"""What services ask of the reactor and of a process, and the events that several of them act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from socket import AddressFamily
from typing import Any, Protocol

from twisted.internet.interfaces import (
    IReactorCore,
    IReactorProcess,
    IReactorSocket,
)
from twisted.internet.protocol import ProcessProtocol

from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.system.clock import Clock
from txqueue.wire.endpoints import INetworkReactor


class Process(Protocol):
    """A started process: the part of Twisted's IProcessTransport that a node uses."""

    pid: int | None

    def signalProcess(self, signalID: str) -> None:
        """Send a signal to the process."""

    def closeChildFD(self, descriptor: int) -> None:
        """Close the pipe to a descriptor of the process."""


class Spawner(Clock, Protocol):
    """Starts processes: the parts of IReactorProcess and IReactorSocket that a node uses."""

    def spawnProcess(
        self,
        processProtocol: ProcessProtocol,
        executable: str,
        args: Sequence[str],
        env: Mapping[str, str],
        *,
        childFDs: Mapping[int, int | str] | None = None,
    ) -> Any:
        """Start a process; return a `Process`."""

    def adoptStreamConnection(
        self, fileDescriptor: int, addressFamily: AddressFamily, factory: Any
    ) -> object:
        """Add a connected socket to the reactor."""


class Stoppable(Protocol):
    """Stops the process: the part of IReactorCore that a node uses."""

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any) -> object:
        """Call a function once the reactor runs, at once if it already runs."""

    def stop(self) -> None:
        """Stop the reactor."""


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

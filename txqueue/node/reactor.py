"""The parts of a reactor that a node's services need besides its clock."""

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

from txqueue.store.driver import IStoreReactor
from txqueue.system.clock import Clock
from txqueue.wire.endpoints import INetworkReactor

__all__ = ["IMasterReactor", "Process", "Spawner", "Stoppable"]


class Process(Protocol):
    """A process that was started: Twisted's IProcessTransport, as far as it is used."""

    pid: int | None

    def signalProcess(self, signalID: str) -> None:
        """Send it a signal."""


class Spawner(Clock, Protocol):
    """Starts processes: IReactorProcess and IReactorSocket, as far as they are used."""

    def spawnProcess(
        self,
        processProtocol: ProcessProtocol,
        executable: str,
        args: Sequence[str],
        env: Mapping[str, str],
    ) -> Any:
        """Start a process; returns a `Process`."""

    def adoptStreamConnection(
        self, fileDescriptor: int, addressFamily: AddressFamily, factory: Any
    ) -> object:
        """Make a connected socket a connection of the reactor."""


class Stoppable(Protocol):
    """Ends the process: IReactorCore, as far as it is used."""

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any) -> object:
        """Call something once the reactor runs, or now if it does."""

    def stop(self) -> None:
        """End it."""


class IMasterReactor(IStoreReactor, INetworkReactor, IReactorProcess, IReactorSocket, IReactorCore):
    """The reactor as a master needs it."""

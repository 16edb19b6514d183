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
    """A started process: the used part of Twisted's IProcessTransport."""

    pid: int | None

    def signalProcess(self, signalID: str) -> None:
        """Send a signal to the process."""


class Spawner(Clock, Protocol):
    """Starts processes: the used parts of IReactorProcess and IReactorSocket."""

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
    """Stops the process: the used part of IReactorCore."""

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any) -> object:
        """Call a function once the reactor runs, or now if it does."""

    def stop(self) -> None:
        """Stop the reactor."""


class IMasterReactor(IStoreReactor, INetworkReactor, IReactorProcess, IReactorSocket, IReactorCore):
    """The reactor as a master needs it."""

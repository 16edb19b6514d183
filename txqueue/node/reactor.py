"""The parts of a reactor that a node's services need besides its clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from twisted.internet.interfaces import IProtocolFactory
from twisted.internet.protocol import ProcessProtocol

from txqueue.system.clock import Clock

__all__ = ["MasterReactor", "Process", "Spawner", "Stoppable"]


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
        self, fileDescriptor: int, addressFamily: int, factory: IProtocolFactory
    ) -> object:
        """Make a connected socket a connection of the reactor."""


class Stoppable(Protocol):
    """Ends the process: IReactorCore, as far as it is used."""

    def callWhenRunning(self, callable: Callable[..., Any], *args: Any) -> object:
        """Call something once the reactor runs, or now if it does."""

    def stop(self) -> None:
        """End it."""


class MasterReactor(Spawner, Stoppable, Protocol):
    """All that a master needs of its reactor."""

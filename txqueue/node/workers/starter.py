"""Starts worker processes one by one, each as a program of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import ProcessProtocol
from twisted.python.failure import Failure

from txqueue.logs.relay import RELAY
from txqueue.node.state.collaborators import Process, Spawner

__all__ = [
    "PIPE_FD",
    "Ended",
    "SpawningStarter",
    "StartedWorker",
    "WorkerStarter",
    "end_of",
    "end_text",
    "run_module",
]

Ended = Callable[[str], None]
"""Called at the end of a process, with the status or signal in words."""

PIPE_FD, SHARED_FD = 3, 4
WORKER: Final = "txqueue.worker"


class StartedWorker(Protocol):
    """A worker process that was started."""

    @property
    def pid(self) -> int:
        """The process id; 0 if it is not known yet."""

    def kill(self) -> None:
        """Kill the process, unless it has ended."""


class WorkerStarter(Protocol):
    """Starts worker processes, for the pool of them."""

    @property
    def obstacle(self) -> str | None:
        """Why processes are started one by one although they should be forked; None if not so."""

    def prepare(self) -> Deferred[None]:
        """Return a Deferred that fires when a process can be started.

        It fails with `CannotImport` or another error if there can be none now; the caller may try
        again later.
        """

    def start(self, ended: Ended, pipe: int, shared: int) -> StartedWorker:
        """Start a process, after `prepare`.

        Args:
            ended: Called at its end.
            pipe: The descriptor of its end of the pipe; the caller closes it afterwards.
            shared: The descriptor of the file for `InFlight`; likewise.

        Raises:
            OSError: When the process cannot be started.
        """

    def stop(self) -> Deferred[None]:
        """Start no more processes; the Deferred fires when nothing of the starter is left."""


class SpawningStarter:
    """Starts each worker as a program of its own, which imports the application itself.

    Args:
        reactor: Starts the processes.
    """

    def __init__(self, reactor: Spawner) -> None:
        self._reactor = reactor

    @property
    def obstacle(self) -> str | None:
        """None: the processes should not be forked."""
        return None

    def prepare(self) -> Deferred[None]:
        """Return a fired Deferred: a process can be started at any time."""
        return succeed(None)

    def start(self, ended: Ended, pipe: int, shared: int) -> StartedWorker:
        """Start a process.

        Raises:
            OSError: When the process cannot be started.
        """
        descriptors = {PIPE_FD: pipe, SHARED_FD: shared}
        return _SpawnedWorker(run_module(self._reactor, _ProcessEnd(ended), WORKER, descriptors))

    def stop(self) -> Deferred[None]:
        """Return a fired Deferred: the starter has nothing to end."""
        return succeed(None)


class _SpawnedWorker:
    """A worker that is a child of the master."""

    def __init__(self, process: Process) -> None:
        self._process = process
        # Twisted forgets the number once the process has ended.
        self.pid = process.pid or 0

    def kill(self) -> None:
        """Kill the process, unless it has ended."""
        if self._process.pid is not None:
            self._process.signalProcess("KILL")


class _ProcessEnd(ProcessProtocol):
    """Reports the signal or status with which a process ends."""

    def __init__(self, ended: Ended) -> None:
        self._ended = ended

    def processEnded(self, reason: Failure) -> None:
        self._ended(end_of(reason))


def run_module(
    reactor: Spawner, protocol: ProcessProtocol, module: str, descriptors: Mapping[int, int | str]
) -> Process:
    """Start a process of this Python that runs a module, and writes to the log of this process.

    Args:
        reactor: Starts the process.
        protocol: Follows the process.
        module: The module's name.
        descriptors: Further descriptors of the process, as spawnProcess takes them.

    Raises:
        OSError: When the process cannot be started.
    """
    process: Process = reactor.spawnProcess(
        protocol,
        sys.executable,
        [sys.executable, "-m", module],
        env=os.environ,
        childFDs={0: 0, **RELAY.streams(), **descriptors},
    )
    return process


def end_of(reason: Failure) -> str:
    """Return in words how a process of Twisted's ended."""
    ended: Any = reason.value
    return end_text(ended.signal, ended.exitCode)


def end_text(number: int | None, status: int | None) -> str:
    """Return in words how a process ended: by a signal, or with a status if that is None."""
    if number is None:
        return f"with status {status}"
    try:
        return f"by {signal.Signals(number).name}"
    except ValueError:
        return f"by signal {number}"

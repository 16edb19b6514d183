"""An application whose handlers start child processes, and whose import may spoil their signal."""

import atexit
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.utils import getProcessOutput
from twisted.python.failure import Failure

from tests.cluster.app import Noop
from txqueue import Retry, Runtime, WorkItem

__all__ = ["ClosesAll", "Hangs", "HangsSilently", "Noop", "Silent", "Speaking", "WaitsLong"]

# As a library may do on import: the process then gets no signal at the end of a child.
match os.environ.get("TXQUEUE_TEST_SIGCHLD"):
    case "blocked":
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    case "ignored":
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)


@define
class Speaking(WorkItem):
    """Reads the output of a program."""

    timeout = 60.0

    async def perform(self, job: Any) -> str:
        """Return what the program has printed."""
        output: bytes = await getProcessOutput("/bin/echo", [str(job.id)])
        return output.decode().strip()


class _Ending(ProcessProtocol):
    def __init__(self) -> None:
        self.ended: Deferred[int] = Deferred()

    def processEnded(self, reason: Failure) -> None:
        """Report the status."""
        self.ended.callback(getattr(reason.value, "exitCode", 0))


@define
class Silent(WorkItem):
    """Waits for a program without a pipe to it."""

    timeout = 60.0

    async def perform(self, job: Any) -> int:
        """Return the program's exit status."""
        from twisted.internet import reactor

        ending = _Ending()
        program = [sys.executable, "-S", "-c", "raise SystemExit(3)"]
        reactor.spawnProcess(ending, program[0], program, env=None, childFDs={1: 1, 2: 2})
        return await ending.ended


@define
class Hangs(WorkItem):
    """Hangs in a thread, as a call of a library without a timeout does."""

    runtime = Runtime.THREAD
    timeout = 1.0
    retry = Retry(attempts=1)

    def perform(self, job: Any) -> None:
        """Block for longer than any test takes."""
        time.sleep(3600)


@define
class WaitsLong(WorkItem):
    """Awaits something for longer than any test takes, and keeps nothing from running."""

    async def perform(self, job: Any) -> None:
        """Wait."""
        await Deferred()


@define
class HangsSilently(WorkItem):
    """The same with a heartbeat instead of a timeout."""

    runtime = Runtime.THREAD
    heartbeat = 1.0
    retry = Retry(attempts=1)

    def perform(self, job: Any) -> None:
        """Block for longer than any test takes."""
        time.sleep(3600)


@define
class ClosesAll(WorkItem):
    """Closes all descriptors of its process, as a library that makes daemons does."""

    is_waiting: bool = False

    async def perform(self, job: Any) -> None:
        """Close them, and return or wait."""
        os.closerange(0, 4096)
        if self.is_waiting:
            await Deferred()


def _note_exit() -> None:
    """Note that this process has called what was registered for its exit."""
    is_worker = any(each.startswith("txqueue.worker") for each in sys.orig_argv)
    if is_worker and os.environ.get("TXQUEUE_TEST_EXIT") == "hangs":
        time.sleep(3600)
    Path(f"exited-{os.getpid()}").touch()


if "TXQUEUE_TEST_NODE" in os.environ:
    atexit.register(_note_exit)

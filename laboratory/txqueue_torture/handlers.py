"""Work whose handlers use their process as applications do: long results, programs, threads."""

from __future__ import annotations

import signal
import time
from typing import Any, Final

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.protocol import ProcessProtocol
from twisted.internet.utils import getProcessOutput
from twisted.python.failure import Failure

from txqueue.model.job_policy import Runtime
from txqueue.model.work_item import WorkItem
from txqueue_torture.work import SOON, Draw, Order, kind, noted

__all__ = ["Hangs", "Lengthy", "Program", "Quiet", "Spoils"]

FOREVER: Final = 3600.0


@define
class Lengthy(WorkItem):
    """Work with a result of a given length."""

    intent: str
    length: int

    work_type = "txqueue_torture.lengthy"
    retry = SOON

    async def perform(self, job: Any) -> str:
        """Record the run, and return as many characters."""
        with noted(job, self.intent):
            return "x" * self.length


@define
class Program(WorkItem):
    """Work that reads the output of a program."""

    intent: str

    work_type = "txqueue_torture.program"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run, and fail if the program has printed something else."""
        with noted(job, self.intent):
            output: bytes = await getProcessOutput("/bin/echo", [self.intent])
            if output.decode().strip() != self.intent:
                raise ValueError(f"the program printed {output!r}")


class _Ending(ProcessProtocol):
    def __init__(self) -> None:
        self.ended: Deferred[None] = Deferred()

    def processEnded(self, reason: Failure) -> None:  # noqa: ARG002 - of the interface
        """Report the end, whatever it was."""
        self.ended.callback(None)


@define
class Quiet(WorkItem):
    """Work that waits for a program without a pipe to it, of which only a signal tells the end."""

    intent: str

    work_type = "txqueue_torture.quiet"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run, start the program, and wait for its end."""
        from twisted.internet import reactor

        running: Any = reactor
        with noted(job, self.intent):
            ending = _Ending()
            running.spawnProcess(ending, "/bin/sleep", ["sleep", "0.1"], childFDs={1: 1, 2: 2})
            await ending.ended


@define
class Spoils(WorkItem):
    """Work that takes the signal of ended children from its process, as some libraries do."""

    intent: str

    work_type = "txqueue_torture.spoils"
    retry = SOON

    async def perform(self, job: Any) -> None:
        """Record the run, and replace the handler of the signal."""
        with noted(job, self.intent):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)


@define
class Hangs(WorkItem):
    """Work that hangs in a thread in its first attempt, as a call without a timeout does."""

    intent: str

    work_type = "txqueue_torture.hangs"
    retry = SOON
    runtime = Runtime.THREAD
    timeout = 1.0

    def perform(self, job: Any) -> None:
        """Record the run, and block."""
        with noted(job, self.intent):
            if job.attempt == 1:
                time.sleep(FOREVER)


@kind("lengthy")
def _lengthy(draw: Draw) -> Order:
    return Order(Lengthy(draw.intent, int(draw.value)))


@kind("program")
def _program(draw: Draw) -> Order:
    return Order(Program(draw.intent))


@kind("quiet")
def _quiet(draw: Draw) -> Order:
    return Order(Quiet(draw.intent))


@kind("spoils")
def _spoils(draw: Draw) -> Order:
    return Order(Spoils(draw.intent))


@kind("hangs")
def _hangs(draw: Draw) -> Order:
    return Order(Hangs(draw.intent))

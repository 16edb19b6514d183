"""The application that the nodes of these tests run: a work item for each way to behave."""

import asyncio
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from tests.cluster.diary import diary
from tests.waiting import pause, running_reactor
from txqueue import Key, Retry, Runtime, Snooze, WorkItem

SOON = Retry(attempts=20, first=0.01, factor=1.0, jitter=0.0)
ONCE = Retry(attempts=1)

# In a node, records that this process has imported the application.
if "TXQUEUE_TEST_NODE" in os.environ:
    Path(f"imported-{os.getpid()}").touch()


@define
class Noop(WorkItem):
    """Does nothing."""

    number: int = 0

    async def perform(self, job: Any) -> None:
        """Do nothing."""


@define
class Says(WorkItem):
    """Returns a text that it was given."""

    text: str

    async def perform(self, job: Any) -> str:
        """Return it."""
        return self.text


@define
class Measures(WorkItem):
    """Takes a large text and returns a large one."""

    text: str
    returns: int

    async def perform(self, job: Any) -> dict[str, Any]:
        """Record the length of the text, and return a text of the requested length."""
        return {"length": len(self.text), "text": "x" * self.returns}


@define
class Noted(WorkItem):
    """Takes some time and notes when it starts and ends."""

    seconds: float = 0.0

    async def perform(self, job: Any) -> None:
        """Note and wait."""
        with diary.run(job):
            if self.seconds:
                await pause(self.seconds)


@define
class ReturnsDeferred(WorkItem):
    """A plain function that returns a Deferred."""

    def perform(self, job: Any) -> Deferred[str]:
        """Return one that fires a little later."""
        return deferLater(running_reactor(), 0.01, lambda: "from a Deferred")


@define
class InAsyncio(WorkItem):
    """An asyncio coroutine."""

    runtime = Runtime.ASYNCIO

    async def perform(self, job: Any) -> str:
        """Wait as asyncio does."""
        await asyncio.sleep(0.01)
        return "from asyncio"


@define
class InThread(WorkItem):
    """A plain function that blocks its thread."""

    runtime = Runtime.THREAD

    def perform(self, job: Any) -> str:
        """Block."""
        time.sleep(0.01)
        return threading.current_thread().name


@define
class FailsFirst(WorkItem):
    """Fails some times before it succeeds."""

    times: int

    retry = Retry(attempts=4, first=0.2, factor=2.0, jitter=0.0)

    async def perform(self, job: Any) -> int:
        """Fail or succeed."""
        diary.note(job, "start")
        if job.attempt <= self.times:
            raise ValueError(f"not yet in attempt {job.attempt}")
        return int(job.attempt)


@define
class Snoozes(WorkItem):
    """Runs again after a while, once."""

    async def perform(self, job: Any) -> None:
        """Snooze, or be done."""
        diary.note(job, "start")
        if diary.count(job, "start") == 1:
            raise Snooze(0.3)


@define
class Completes(WorkItem):
    """Writes a row and enqueues in the transaction that completes it."""

    note: str
    seconds: float = 0.0

    retry = SOON

    async def perform(self, job: Any) -> None:
        """Write; then be slow, as told."""
        diary.note(job, "start")
        async with job.transaction() as txn:
            await txn.execute("insert into effect values (%s, %s)", (job.id, self.note))
            await txn.enqueue(Noop(job.id))
            if self.seconds:
                await pause(self.seconds)


@define
class Grouped(WorkItem):
    """One of a group, which notes when it runs."""

    key: str
    number: int
    seconds: float = 0.0

    group = Key("{key}")

    async def perform(self, job: Any) -> None:
        """Note and wait."""
        diary.note(job, f"start {self.number}")
        await pause(self.seconds)
        diary.note(job, f"end {self.number}")


@define
class Kills(WorkItem):
    """Kills the process that runs it, some times or always."""

    times: int = 1_000_000
    how: str = "SIGKILL"
    after: float = 0.0

    retry = SOON

    async def perform(self, job: Any) -> None:
        """Kill, or be done."""
        diary.note(job, "start")
        if diary.count(job, "start") > self.times:
            return
        if self.after:
            await pause(self.after)
        if self.how == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
        os._exit(3)


@define
class Blocks(WorkItem):
    """Blocks the whole worker process, as a handler should not."""

    seconds: float
    times: int = 1_000_000

    async def perform(self, job: Any) -> None:
        """Block, the first times."""
        with diary.run(job):
            if diary.count(job, "start") > self.times:
                return
            until = time.monotonic() + self.seconds
            while (left := until - time.monotonic()) > 0:
                with suppress(InterruptedError):
                    time.sleep(left)

"""The application that the nodes of these tests run: a work item for each way to behave."""

import asyncio
import os
import signal
import sys
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
from txqueue import Discard, Fail, Key, Retry, Runtime, Snooze, Throttled, WorkItem

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
class OnOtherQueue(Noted):
    """The same, on a queue of its own."""

    queue = "other"


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
class Answers(WorkItem):
    """Has another outcome than done, once; the payload says how."""

    what: str
    is_raised: bool = True

    async def perform(self, job: Any) -> object:
        """Say it."""
        diary.note(job, "start")
        if self.what in ("snooze", "throttled") and diary.count(job, "start") > 1:
            return {"attempt": job.attempt}
        answer = {
            "snooze": Snooze(0.3),
            "throttled": Throttled(0.3),
            "discard": Discard("nothing left to do"),
            "fail": Fail("no use to try again"),
        }[self.what]
        if self.is_raised:
            raise answer
        return answer


@define
class Overruns(WorkItem):
    """Takes longer than its timeout."""

    timeout = 0.2
    retry = Retry(attempts=2, first=0.01, jitter=0.0)

    async def perform(self, job: Any) -> None:
        """Wait for long, and note when the wait is cut short."""
        try:
            await pause(60.0)
        finally:
            diary.note(job, "cut short")


@define
class Reports(WorkItem):
    """Says how far it is, until it is let go."""

    retry = SOON

    async def perform(self, job: Any) -> None:
        """Fail twice, then say it for some time."""
        if job.attempt < 3:
            raise ValueError(f"not in attempt {job.attempt}")
        await job.progress(3, 10, "copying")
        await pause(4.0)


@define
class Hangs(WorkItem):
    """Promises a heartbeat, and is silent."""

    heartbeat = 1.0
    retry = ONCE

    async def perform(self, job: Any) -> None:
        """Be silent."""
        await pause(60.0)


@define
class Exits(WorkItem):
    """Calls sys.exit(), as code that was meant for a command line does."""

    retry = ONCE

    async def perform(self, job: Any) -> None:
        """Exit."""
        sys.exit("this was meant for a command line")


@define
class ExitsInAsyncio(Exits):
    """The same in asyncio."""

    runtime = Runtime.ASYNCIO


@define
class ExitsInThread(WorkItem):
    """The same in a thread."""

    retry = ONCE
    runtime = Runtime.THREAD

    def perform(self, job: Any) -> None:
        """Exit."""
        sys.exit("this was meant for a command line")


@define
class ReturnsStrange(WorkItem):
    """Returns what cannot be kept."""

    what: str

    async def perform(self, job: Any) -> object:
        """Return it."""
        nested: list[Any] = []
        for _ in range(100_000):
            nested = [nested]
        return {
            "object": object(),
            "nan": float("nan"),
            "nul": "a\x00b",
            "surrogate": "\ud800",
            "nested": nested,
        }[self.what]


@define
class Prints(WorkItem):
    """Writes to standard output and standard error, text and garbage."""

    async def perform(self, job: Any) -> None:
        """Write."""
        print("printed by a handler", flush=True)
        os.write(1, b"\x00\xff\xfe garbage \x80\n")
        os.write(2, b"\x00\xff\xfe garbage \x80\n")


@define
class Completes(WorkItem):
    """Writes a row and enqueues in the transaction that completes it."""

    note: str
    what: str = ""
    seconds: float = 0.0

    retry = SOON

    async def perform(self, job: Any) -> None:
        """Write; then be slow, raise inside or raise afterwards, as told."""
        diary.note(job, "start")
        async with job.transaction() as txn:
            await txn.execute("insert into effect values (%s, %s)", (job.id, self.note))
            await txn.enqueue(Noop(job.id))
            if self.seconds:
                await pause(self.seconds)
            if self.what == "raise inside":
                raise Fail("raised inside")
        if self.what == "raise after":
            raise ValueError("raised after its completion was committed")


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


@define
class Watches(WorkItem):
    """Runs in a thread until an operator cancels it."""

    runtime = Runtime.THREAD

    def perform(self, job: Any) -> None:
        """Look again and again."""
        while not job.is_cancelled:
            time.sleep(0.01)
        raise Discard("saw it")

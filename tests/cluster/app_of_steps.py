"""The application of jobs with steps: what earlier runs have done is not done again."""

import asyncio
import os
import signal
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, gatherResults

from tests.cluster.app import ONCE
from tests.cluster.diary import diary
from tests.waiting import pause
from txqueue import Retry, Runtime, ThreadJob, WorkItem
from txqueue.errors import TimedOut


@define
class Double(WorkItem):
    """A child: doubles a number, or fails."""

    number: int
    retry = ONCE

    async def perform(self, job: Any) -> int:
        """Double it."""
        if self.number < 0:
            raise ValueError("a negative number")
        return 2 * self.number


@define
class Order(WorkItem):
    """An order: charged and booked once, approved by a person, and reported by a child."""

    amount: int
    retry = Retry(attempts=3, first=0.01, jitter=0.0)

    async def perform(self, job: Any) -> dict[str, Any]:
        """Do what the order needs, step by step."""
        charge = await job.step("charge", self.charge, job)
        async with job.step_transaction("book") as step:
            if not step.is_done:
                await step.txn.execute("insert into effect values (%s, 'booked')", (job.id,))
                step.result = {"booking": self.amount + 1}
        try:
            answer = await job.wait_for("approved", timeout=60)
        except Exception as error:
            diary.note(job, f"swallowed {error}")
            raise
        await job.sleep("cool off", 0.05)
        report = await job.call("report", Double(self.amount))
        return {"charge": charge, "book": step.result, "answer": answer, "report": report}

    async def charge(self, job: Any) -> int:
        """Charge the amount."""
        diary.note(job, "charged")
        await pause(0)
        return self.amount


@define
class Together(WorkItem):
    """Six steps at a time, and two waits; may be killed between them."""

    kills: int = 0
    retry = Retry(attempts=5, first=0.01, jitter=0.0)

    async def perform(self, job: Any) -> list[Any]:
        """Wait for all of them."""
        first = await gatherResults(
            [Deferred.fromCoroutine(job.step(f"step {n}", self.count, job, n)) for n in range(6)]
        )
        if diary.count(job, "killed") < self.kills:
            diary.note(job, "killed")
            os.kill(os.getpid(), signal.SIGKILL)
        second = await gatherResults(
            [Deferred.fromCoroutine(job.wait_for(name)) for name in ("left", "right")],
            consumeErrors=True,
        )
        return [*first, *second]

    def count(self, job: Any, number: int) -> int:
        """Return the number."""
        diary.note(job, f"step {number}")
        return number


@define
class InAsyncio(WorkItem):
    """The same in a task of asyncio's."""

    number: int
    runtime = Runtime.ASYNCIO

    async def perform(self, job: Any) -> list[Any]:
        """Wait for all steps, for a signal, and for a child."""
        steps = await asyncio.gather(*(job.step(f"step {n}", self.count, n) for n in range(6)))
        async with asyncio.TaskGroup() as group:
            answer = group.create_task(job.wait_for("answer"))
            nap = group.create_task(job.sleep("nap", 0.1))
        assert nap.done()
        return [*steps, answer.result(), await job.call("child", Double(self.number))]

    async def count(self, number: int) -> int:
        """Return the number."""
        await asyncio.sleep(0)
        return number


@define
class InThread(WorkItem):
    """The same in a function that blocks, without the tasks."""

    number: int
    runtime = Runtime.THREAD

    def perform(self, job: ThreadJob) -> list[Any]:
        """Do a step, write in one, wait for a signal, and for a child."""
        number = job.step("count", self.count, job)
        with job.step_transaction("book") as step:
            if not step.is_done:
                step.txn.execute("insert into effect values (%s, 'booked')", (job.id,))
        try:
            answer = job.wait_for("answer")
        except Exception as error:
            diary.note(job, f"swallowed {error}")
            raise
        job.sleep("nap", 0.05)
        return [number, answer, job.call("child", Double(self.number))]

    def count(self, job: ThreadJob) -> int:
        """Return the number."""
        diary.note(job, "counted")
        return self.number


@define
class Swallows(WorkItem):
    """Swallows whatever ends its runs."""

    way: str

    async def perform(self, job: Any) -> str:
        """Wait, and go on in spite of it."""
        try:
            if self.way == "sleep":
                await job.sleep("nap", 0.2)
            else:
                await job.wait_for("never", timeout=0.2)
        except TimedOut:
            return "timed out"
        except BaseException:  # what a careless handler does
            return "swallowed"
        return "slept"

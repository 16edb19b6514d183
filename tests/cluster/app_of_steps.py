"""The application of jobs with steps: what earlier runs have done is not done again."""

import os
import signal
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, gatherResults

from tests.cluster.app import ONCE
from tests.cluster.diary import diary
from tests.waiting import pause
from txqueue import Retry, WorkItem


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

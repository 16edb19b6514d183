"""Work whose jobs the tests of `txqueue.testing` run."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from tests.waiting import running_reactor
from txqueue import (
    Fail,
    Key,
    Next,
    Retry,
    RunningJob,
    Runtime,
    Snooze,
    ThreadJob,
    WorkItem,
    WorksetItem,
    task,
)


@define
class Mail(WorkItem):
    """A mail, which its handler pretends to send."""

    work_type = "testing.mail"
    queue = "mail"
    retry = Retry(3, first=30, factor=1, jitter=0)

    to: str
    amount: Decimal = Decimal(0)

    async def perform(self, job: RunningJob) -> str | None:
        """Do what the address says."""
        match self.to:
            case "broken":
                raise ValueError("no such address")
            case "broken once" if job.attempt == 1:
                raise ValueError("not yet")
            case "later" if job.attempt == 1 and not job.terms:
                raise Snooze(60)
            case "failing":
                raise Fail("never")
            case "next":
                raise Next(Mail("the next stage"))
            case "friends":
                await job.then(Mail("a friend"))
        return f"sent to {self.to}"


@define
class Forever(WorkItem):
    """Work that is never done."""

    work_type = "testing.forever"

    async def perform(self, job: RunningJob) -> None:
        """Come again at once."""
        raise Snooze(0)


@define
class Expiring(WorkItem):
    """Work that is of no use after its not_after, and comes in two hours again."""

    work_type = "testing.expiring"
    expires = True

    async def perform(self, job: RunningJob) -> None:
        """Come again."""
        raise Snooze(7200)


@define
class Once(WorkItem):
    """Work of which one job waits at a time."""

    work_type = "testing.once"

    name: str
    unique = Key("name")

    def perform(self, job: RunningJob) -> None:
        """Do nothing."""


@define
class Transfer(WorkItem):
    """Writes in the job's own transaction."""

    work_type = "testing.transfer"

    amount: int
    group = "accounts"

    async def perform(self, job: RunningJob) -> None:
        """Write a row, enqueue a mail and fail where the amount says so."""
        async with job.transaction() as txn:
            await txn.execute("insert into app values (%s, %s)", (self.amount, "50%"))
            await txn.execute("select 1 / %s", (self.amount,))
            await txn.enqueue(Mail(f"owner of {self.amount}"), tags={"kind": "receipt"})
            if self.amount < 0:
                raise ValueError("too little")


@define
class TransferInAsyncio(WorkItem):
    """The same in a handler of asyncio's."""

    work_type = "testing.transfer_in_asyncio"
    runtime = Runtime.ASYNCIO

    amount: int

    async def perform(self, job: RunningJob) -> None:
        """Write in the job's own transaction, as the documentation says."""
        await asyncio.sleep(0)
        writing = Deferred.fromCoroutine(Transfer(self.amount).perform(job))
        await writing.asFuture(asyncio.get_running_loop())


@define
class TransferInTask(WorkItem):
    """The same, and what else a job does in its transaction, by asyncio's own `await`."""

    work_type = "testing.transfer_in_task"
    runtime = Runtime.ASYNCIO
    # Apart, as coalescing ends similar jobs.
    group = Key("account {amount}")

    amount: int

    async def perform(self, job: RunningJob) -> None:
        """Write in a step and the job's own transaction, with follow-up and similar jobs."""
        async with job.step_transaction("check") as step:
            if not step.is_done:
                await step.txn.execute("select 1 / %s", (self.amount,))
                step.result = (await step.txn.execute("select 50"))[0][0]
        async with job.transaction() as txn:
            await txn.execute("insert into app values (%s, %s)", (self.amount, f"{step.result}%"))
            await job.then(Mail(f"owner of {self.amount}"), tags={"kind": "receipt"})
            if self.amount < 0:
                raise ValueError("too little")
            await job.coalesce()


@define
class WaitsAfterwards(TransferInTask):
    """Goes on after its own transaction."""

    work_type = "testing.waits_afterwards"

    async def perform(self, job: RunningJob) -> None:
        """Write, and wait for asyncio."""
        async with job.transaction() as txn:
            await txn.execute("insert into app values (%s, %s)", (self.amount, "50%"))
        await asyncio.sleep(0.01)
        waited.append(self.amount)


waited: list[int] = []


@define
class TransferInThread(WorkItem):
    """The same in a function, which runs in a thread of a node."""

    work_type = "testing.transfer_in_thread"
    runtime = Runtime.THREAD

    amount: int

    def perform(self, job: ThreadJob) -> None:
        """Write in the job's own transaction, by calls that block."""
        with job.transaction() as txn:
            txn.execute("insert into app values (%s, %s)", (self.amount, "50%"))
            txn.execute("select 1 / %s", (self.amount,))
            txn.enqueue_many([Mail(f"owner of {self.amount}")], tags={"kind": "receipt"})
            if self.amount < 0:
                raise ValueError("too little")


@define
class Filled(WorksetItem):
    """An item that a handler puts into a workset."""

    work_type = "testing.filled"

    number: int

    async def perform(self, run: Any) -> None:
        """Do nothing."""


def soon() -> datetime:
    """Return a moment after the test."""
    return datetime.now(UTC) + timedelta(minutes=1)


@define
class Everything(WorkItem):
    """Has each statement of a handler sent."""

    work_type = "testing.everything"
    unique = Key("everything")

    async def perform(self, job: RunningJob) -> Any:
        """Go through all that a job can do."""
        await job.progress(1, 2, "half")
        first = await job.step("first", str, "50%")
        async with job.step_transaction("second") as step:
            if not step.is_done:
                await step.txn.execute("insert into app values (%s, %s)", (2, first))
                step.result = {"text": "50%"}
        async for position in (cursor := job.cursor("third")):
            cursor.following = None if position else 1
        answer = await job.wait_for("answer", timeout=60)
        await job.sleep("fourth", 1)
        called = await job.call("fifth", add.work(1))
        await job.then(Mail("follower"), tags={"a": "b"}, priority=2)
        async with job.transaction() as txn:
            similar = await job.coalesce()
            await txn.enqueue(Once("one"), priority=2)
            waiting = (await txn.enqueue_many([Patient()], not_before=soon()))[0]
            is_new = await txn.signal(waiting, "hurry", {"by": 1}, key="k")
            await txn.fill(Filled, [Filled(1), Filled(2)])
            async with txn.batch(report_on.work()) as batch:
                await batch.enqueue(Mail("batch"))
            txn.result = [step.result, answer, called, len(similar), is_new]


@define
class EverythingInAsyncio(Everything):
    """The same in asyncio."""

    work_type = "testing.everything_in_asyncio"
    runtime = Runtime.ASYNCIO


@define
class EverythingInThread(WorkItem):
    """The same in a function."""

    work_type = "testing.everything_in_thread"
    runtime = Runtime.THREAD
    unique = Key("everything")

    def perform(self, job: ThreadJob) -> Any:
        """Go through all that a job can do."""
        job.progress(1, 2, "half")
        first = job.step("first", str, "50%")
        with job.step_transaction("second") as step:
            if not step.is_done:
                step.txn.execute("insert into app values (%s, %s)", (2, first))
                step.result = {"text": "50%"}
        for position in (cursor := job.cursor("third")):
            cursor.following = None if position else 1
        answer = job.wait_for("answer", timeout=60)
        job.sleep("fourth", 1)
        called = job.call("fifth", add.work(1))
        job.then(Mail("follower"), tags={"a": "b"}, priority=2)
        with job.transaction() as txn:
            similar = job.coalesce()
            txn.enqueue(Once("one"), priority=2)
            waiting = txn.enqueue_many([Patient()], not_before=soon())[0]
            is_new = txn.signal(waiting, "hurry", {"by": 1}, key="k")
            txn.fill(Filled, [Filled(1), Filled(2)])
            with txn.batch(report_on.work()) as batch:
                batch.enqueue(Mail("batch"))
            txn.result = [step.result, answer, called, len(similar), is_new]


@task(name="testing.add")
def add(first: int, second: int = 1) -> int:
    """Add, in a thread of a node."""
    return first + second


@task(name="testing.wait_for_loop", runtime=Runtime.ASYNCIO)
async def wait_for_loop(number: int) -> int:
    """Wait for asyncio."""
    await asyncio.sleep(0.001)
    return number


@task(name="testing.report_on", omit_defaults=True)
def report_on(job: RunningJob, place: str = "here", rows: int = 10) -> Any:
    """Tell what the job's parents did."""
    return None if job.parents is None else [job.parents.done, job.parents.failed]


@define
class Patient(WorkItem):
    """Work that waits for the reactor."""

    work_type = "testing.patient"
    timeout = 30

    seconds: float = 0.001

    async def perform(self, job: RunningJob) -> str:
        """Wait, and report how far it is."""
        await deferLater(running_reactor(), self.seconds)
        await job.progress(1, 2, "half")
        return "waited"

"""The application of jobs that have to do with each other: a work item for each way."""

from typing import Any

from attrs import define

from tests.cluster.app import ONCE
from tests.cluster.diary import diary
from tests.waiting import pause
from txqueue import Fail, Key, Retry, UniqueMode, WorkItem


@define
class Last(WorkItem):
    """The last stage of all."""

    order: int

    async def perform(self, job: Any) -> str:
        """Say whose."""
        diary.note(job, f"last {self.order}")
        return f"order {self.order}"


@define
class First(WorkItem):
    """Adds follow-up work; the payload says how it ends, and whether it waits before."""

    order: int
    way: str = ""

    retry = Retry(attempts=2, first=0.01, jitter=0.0)

    async def perform(self, job: Any) -> str | None:
        """Add follow-up work, and end."""
        if "wait" in self.way:
            await pause(0.05)
        if "inside" in self.way:
            async with job.transaction() as txn:
                await txn.execute("insert into effect values (%s, 'inside')", (job.id,))
                assert await job.then(Last(self.order)) is not None
        else:
            assert await job.then(Last(self.order), priority=9) is None
        if "fail" in self.way:
            raise Fail("after all")
        if "too large" in self.way:
            await job.then(Last(self.order), queue="x" * 300)
        return "kept" if "result" in self.way else None


@define
class Member(WorkItem):
    """One of a batch, which may fail."""

    number: int

    retry = ONCE

    async def perform(self, job: Any) -> None:
        """Fail now and then."""
        if self.number % 10 == 0:
            raise ValueError("one in ten")


@define
class Slow(WorkItem):
    """Takes a while."""

    number: int

    retry = Retry(attempts=100, first=0.01, jitter=0.0)

    async def perform(self, job: Any) -> None:
        """Wait."""
        with diary.run(job):
            await pause(0.2)


@define
class AllEnded(WorkItem):
    """What a batch calls back."""

    name: str

    async def perform(self, job: Any) -> dict[str, object]:
        """Say how its members ended."""
        diary.note(job, "start")
        parents = job.parents
        return {"name": self.name, "done": parents.done, "failed": parents.failed}


@define
class Sync(WorkItem):
    """Brings a copy up to date, and takes a while."""

    subject: int
    version: int

    unique = Key("subject {subject}")
    unique_mode = UniqueMode.AGAIN

    async def perform(self, job: Any) -> None:
        """Read what there is, wait, and note it in the transaction that completes it."""
        with diary.run(job):
            if self.version % 7 == 0 and job.attempt == 1:
                raise ValueError("now and then it fails")
            await pause(self.version % 5 / 100)
        async with job.transaction() as txn:
            await txn.execute(
                "update app set synced = %s where subject = %s", (self.version, self.subject)
            )

    retry = Retry(attempts=5, first=0.01, factor=1.0, jitter=0.0)

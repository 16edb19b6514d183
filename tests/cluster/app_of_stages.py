"""The application of jobs that have to do with each other: a work item for each way."""

from typing import Any

from attrs import define

from tests.cluster.app import ONCE
from tests.cluster.diary import diary
from tests.waiting import pause
from txqueue import Fail, Key, Next, Retry, Runtime, UniqueMode, WorkItem


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
class Countdown(WorkItem):
    """Follows itself under its own unique key until its count is down."""

    count: int
    mode: str
    inside: bool

    unique = "countdown"

    async def perform(self, job: Any) -> None:
        """Enqueue the next, in the transaction of its own or with the completion."""
        if not self.count:
            return
        following = Countdown(self.count - 1, self.mode, self.inside)
        if self.inside:
            async with job.transaction() as txn:
                await txn.enqueue(following, unique_mode=UniqueMode(self.mode))
        else:
            await job.then(following, unique_mode=UniqueMode(self.mode))


@define
class FirstInThread(WorkItem):
    """The same in a thread."""

    order: int

    runtime = Runtime.THREAD

    def perform(self, job: Any) -> None:
        """Add follow-up work."""
        job.then(Last(self.order))


@define
class Pick(WorkItem):
    """The first stage of three that are one job."""

    order: int

    retry = ONCE

    async def perform(self, job: Any) -> Next:
        """Go on."""
        diary.note(job, "pick")
        return Next(Pack(self.order))


@define
class Pack(WorkItem):
    """The second: fails at first."""

    order: int

    retry = Retry(attempts=2, first=0.01, jitter=0.0)

    async def perform(self, job: Any) -> None:
        """Fail, or go on."""
        diary.note(job, "pack")
        if job.attempt == 1:
            raise ValueError("no box")
        await pause(0.01)
        raise Next(Last(self.order), priority=7)


@define
class Collect(WorkItem):
    """A job of a group that coalesces the others."""

    number: int

    group = "collect"

    async def perform(self, job: Any) -> None:
        """Write what all of them have to say in one row."""
        async with job.transaction() as txn:
            others = await job.coalesce()
            numbers = [self.number, *(other.number for other in others)]
            await txn.execute("insert into effect values (%s, %s)", (job.id, str(numbers)))


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

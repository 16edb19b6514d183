"""C. A job scheduler: once or again and again, with time-outs, back-off, clusters and quotas."""

import os
from datetime import UTC, datetime, timedelta

from attrs import define
from twisted.internet import reactor
from twisted.internet.task import deferLater

from txqueue import Every, Retry, RunningJob, Runtime, ThreadJob, WorkItem, WorkQueue
from txqueue.admin import Admin
from txqueue.errors import JobFailed

TABLES = "create table if not exists tick (due timestamptz primary key)"


@define
class Notify(WorkItem):
    """Tells a client; waits longer before each attempt, and gives up at once if it is hopeless."""

    address: str

    work_type = "scheduler.notify"
    timeout = 10.0
    retry = Retry(attempts=5, first=0.2, factor=2.0, fatal=(ValueError,))

    async def perform(self, job: RunningJob) -> str:
        if "@" not in self.address:
            raise ValueError(f"{self.address} is no address")
        if job.attempt < 3:
            raise ConnectionError("no answer")
        return f"told at attempt {job.attempt}"


@define
class Transcode(WorkItem):
    """Computes in a thread of the heavy cluster; an attempt that is silent for 30 s is repeated."""

    film: str

    work_type = "scheduler.transcode"
    queue = "heavy"
    runtime = Runtime.THREAD
    weight = 25
    heartbeat = 30.0

    def perform(self, job: ThreadJob) -> str:
        for part in range(4):
            job.progress(part + 1, 4, "parts")
        return f"{self.film}.webm"


@define
class Tick(WorkItem):
    """Comes every second, one at a time; each of its times has one job, though nodes die."""

    work_type = "scheduler.tick"
    schedule = Every(1, overlap="skip")

    async def perform(self, job: RunningJob) -> None:
        async with job.transaction() as txn:
            await txn.execute("insert into tick values (%s)", [job.due])


async def tour(queue: WorkQueue) -> None:
    """Schedule work, ask how it is, limit a cluster, and see the recurring work come."""
    due = datetime.now(UTC) + timedelta(seconds=1)
    told = await queue.enqueue(Notify("ada@example.com"), not_before=due, priority=7)
    print("before its time it is", (await queue.job(told)).state)
    print("at its time:", await queue.wait(told, timeout=60))
    async with await Admin.connect(os.environ["TXQUEUE_NODE"]) as admin:
        await admin.set_limit("heavy", concurrency=1)
    films = await queue.enqueue_many([Transcode("alien"), Transcode("brazil")])
    print("transcoded:", [await queue.wait(film, timeout=60) for film in films])
    try:
        await queue.wait(await queue.enqueue(Notify("nobody")), timeout=60)
    except JobFailed as failure:
        print("without another attempt:", str(failure).splitlines()[0])
    while len(runs := await queue.schedules.runs("scheduler.tick")) < 3:
        await deferLater(reactor, 0.2)
    print("it came", [f"{run.due:%H:%M:%S}" for run in reversed(runs)])
    print("each of its times had one job:", len({run.due for run in runs}) == len(runs))

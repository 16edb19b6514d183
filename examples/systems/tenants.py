"""B. A store of the tasks of many users: none waits for another's, and ended ones are history."""

import asyncio

from attrs import define

from txqueue import Key, Retry, RunningJob, Runtime, WorkItem, WorkQueue

TABLES = "create table if not exists account (owner text primary key, pictures int)"
TODO = "select count(*) from txqueue.job where tenant = 'big' and state in ('ready', 'assigned')"
HISTORY = """
    select tenant, count(*), count(*) filter (where attempt > 1), max(finished_at - enqueued_at)
      from txqueue.job where state = 'done' and work_type = 'tenants.convert'
     group by tenant order by tenant
"""


@define
class Convert(WorkItem):
    """Converts a picture; the users take turns, however many tasks each has."""

    owner: str
    picture: int

    work_type = "tenants.convert"
    runtime = Runtime.ASYNCIO
    tenant = Key("{owner}")
    retry = Retry(attempts=3, first=0.1)

    async def perform(self, job: RunningJob) -> None:
        await asyncio.sleep(0.05)
        if self.picture % 100 == 7 and job.attempt == 1:
            raise ConnectionError("the camera is busy")


@define
class Count(WorkItem):
    """Adds to what a user has; one user's never run two at a time."""

    owner: str

    work_type = "tenants.count"
    tenant = Key("{owner}")
    group = Key("account:{owner}")

    async def perform(self, job: RunningJob) -> str:
        assert job.parents is not None
        async with job.transaction() as txn:
            await txn.execute(
                "insert into account values (%s, %s) on conflict (owner)"
                " do update set pictures = account.pictures + excluded.pictures",
                (self.owner, job.parents.done),
            )
        return ""


async def tour(queue: WorkQueue) -> None:
    """Enqueue 10,000 tasks of one user, then the ten of another, who does not wait for them."""
    async with queue.batch(Count("big")) as big:
        await big.enqueue_many([Convert("big", number) for number in range(10_000)])
    async with queue.batch(Count("small")) as small:
        await small.enqueue_many([Convert("small", number) for number in range(10)])
    await queue.wait(small.callback_id, timeout=60)
    async with queue.transaction() as txn:
        [[todo]] = await txn.execute(TODO)
    print(f"all of the small user's are done; of the big user's {todo} are still to do")
    await queue.wait(big.callback_id, timeout=60)
    async with queue.transaction() as txn:
        for owner, done, again, longest in await txn.execute(HISTORY):
            print(f"{owner}: {done} done, {again} of them at a later attempt, within {longest}")
        accounts = await txn.execute("select owner, pictures from account order by owner")
    print("pictures:", dict(map(tuple, accounts)))

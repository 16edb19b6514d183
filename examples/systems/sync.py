"""E. Orders of many shops, synchronised all day: no two tasks of a project at once, a flat load."""

import asyncio
import random
from datetime import UTC, datetime

from attrs import define
from twisted.internet import reactor
from twisted.internet.task import deferLater

from txqueue import Cooldown, Exists, Key, RunningJob, Runtime, WorkItem, WorkQueue

TABLES = """
create table if not exists project (id int primary key, is_active boolean not null);
create table if not exists call (project int, task text, began timestamptz, ended timestamptz);
create or replace view active_project as select id from project where is_active;
insert into project select id, id < 5 from generate_series(1, 5) as id on conflict do nothing
"""
BY_PROJECT = (
    "select project, task, count(*) from call group by project, task order by project, task"
)
BY_RUNNER = """
    select name, count(*) from txqueue.job join txqueue.node_info using (node_id)
     where job.state = 'done' and work_type like 'sync.%' group by name order by name
"""
OVERLAPS = """
    select count(*) from call as one join call as other
        on one.project = other.project and one.began < other.began and other.began < one.ended
"""


@define
class TakeOrders(WorkItem):
    """Asks a shop; while it waits for the answer it holds no thread and no transaction."""

    project: int

    work_type = "sync.take_orders"
    runtime = Runtime.ASYNCIO
    group = Key("project:{project}")
    timeout = 30.0

    async def perform(self, job: RunningJob) -> None:
        began = datetime.now(UTC)
        await asyncio.sleep(random.uniform(0.05, 0.2))
        call = (self.project, self.work_type, began, datetime.now(UTC))
        async with job.transaction() as txn:
            await txn.execute("insert into call values (%s, %s, %s, %s)", call)


@define
class SendShipments(TakeOrders):
    """Never while orders of the same project are taken, as the group is the same."""

    work_type = "sync.send_shipments"


async def schedule(queue: WorkQueue, project: int) -> None:
    """Schedule a project's tasks: each rests a second or so; none comes if the project rests."""
    active = Exists("public.active_project", "id", project)
    for work in (TakeOrders(project), SendShipments(project)):
        rest = Cooldown(1, jitter=0.5)
        await queue.schedule(f"{work.work_type} {project}", work, rest, only_if=active)


async def tour(queue: WorkQueue) -> None:
    """Schedule five projects, of which one rests, and look at the runs of the two runners."""
    for project in range(1, 6):
        await schedule(queue, project)
    calls: list[tuple[int, str, int]] = []
    while len(calls) < 8 or min(count for _, _, count in calls) < 3:
        await deferLater(reactor, 0.2)
        async with queue.transaction() as txn:
            calls = await txn.execute(BY_PROJECT)
    for project, task, count in calls:
        print(f"project {project}: {task} {count} times")
    async with queue.transaction() as txn:
        for name, count in await txn.execute(BY_RUNNER):
            print(f"{name} has done {count}")
        [[resting]] = await txn.execute("select count(*) from call where project = 5")
        [[overlaps]] = await txn.execute(OVERLAPS)
    print(f"the project that rests: {resting} times; overlaps: {overlaps}")

"""D. Recipes of SQL queues: the application speaks SQL, its rows and its jobs change together."""

import os
from typing import Any

from attrs import define
from twisted.internet import reactor
from twisted.internet.task import deferLater

from txqueue import Every, Next, Retry, RunningJob, WorkItem, WorkQueue
from txqueue.admin import Admin

TABLES = """
create table if not exists product (id bigint primary key, version int);
create table if not exists found_product (product bigint primary key, version int);
create table if not exists supplier (name text primary key)
"""
CHANGE = """
    insert into product values (1, 1) on conflict (id) do update set version = product.version + 1
    returning txqueue.enqueue('recipes.index', jsonb_build_object('product', id),
                              "unique" => 'product ' || id, unique_mode => 'again')
"""
IMPORT = """
    select txqueue.enqueue('recipes.import', jsonb_build_object('supplier', name))
      from (values ('Acme'), ('Bolt')) as supplier (name)
"""
BY_ERROR = "select fingerprint, failed, error from txqueue.failures where failed > 0"
BY_HOUR = "select work_type, done, failed from txqueue.stats(now() - interval '1 hour', now())"


@define
class Index(WorkItem):
    """Makes a product's newest version searchable."""

    product: int

    work_type = "recipes.index"

    async def perform(self, job: RunningJob) -> None:
        async with job.transaction() as txn:
            await txn.execute(
                "insert into found_product select * from product where id = %s"
                " on conflict (product) do update set version = excluded.version",
                [self.product],
            )


@define
class Import(WorkItem):
    """The first stage of a pipeline; the next one is the same job."""

    supplier: str

    work_type = "recipes.import"

    async def perform(self, job: RunningJob) -> Next:
        return Next(Publish(self.supplier))


@define
class Publish(WorkItem):
    """The last stage; waits 0.1 s, then 0.2 s, and then keeps the text of its error."""

    supplier: str

    work_type = "recipes.publish"
    retry = Retry(attempts=3, first=0.1, linear=True, jitter=0.0)

    async def perform(self, job: RunningJob) -> None:
        async with job.transaction() as txn:
            rows = await txn.execute("select from supplier where name = %s", [self.supplier])
            if not rows:
                raise ConnectionError(f"{self.supplier!r} does not answer")


@define
class CleanUp(WorkItem):
    """Comes by itself."""

    work_type = "recipes.clean_up"
    schedule = Every(1)

    async def perform(self, job: RunningJob) -> None:
        async with job.transaction() as txn:
            await txn.execute(
                "delete from found_product where product not in (select id from product)"
            )


async def sql(queue: WorkQueue, statement: str) -> list[tuple[Any, ...]]:
    """Run a statement in a transaction of its own."""
    async with queue.transaction() as txn:
        return await txn.execute(statement)


async def tour(queue: WorkQueue) -> None:
    """Change a product, fail for a reason, and send what has failed again once that is gone."""
    changes = [(await sql(queue, CHANGE))[0][0] for _ in range(5)]
    await queue.wait(changes[-1], timeout=60)
    [[version]] = await sql(queue, "select version from found_product")
    print(f"after {len(changes)} changes version {version} is found")
    imports = [number for [number] in await sql(queue, IMPORT)]
    while not (kinds := await sql(queue, BY_ERROR)) or kinds[0][1] != len(imports):
        await deferLater(reactor, 0.1)
    [[kind, failed, error]] = kinds
    print(f"{failed} jobs failed alike: {error}")
    await sql(queue, "insert into supplier values ('Acme'), ('Bolt') on conflict do nothing")
    async with await Admin.connect(os.environ["TXQUEUE_NODE"]) as admin:
        print("sent again:", await admin.retry_failures(kind))
    for number in imports:
        await queue.wait(number, timeout=60)
    for work_type, done, failed in await sql(queue, BY_HOUR):
        print(f"in this hour: {work_type} {done} done, {failed} failed")

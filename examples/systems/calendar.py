"""A. A calendar server: a change of an event enqueues its work in the same transaction."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Self

from attrs import define

from txqueue import (
    ExistingTable,
    Key,
    Priority,
    RunningJob,
    RunningPart,
    WorkItem,
    WorkQueue,
    WorksetItem,
)

TABLES = """
create table if not exists event (
    id bigint generated always as identity primary key, calendar text, title text);
create table if not exists push (calendar text, changes int);
create table if not exists found (event bigint primary key)
"""
SOON = timedelta(minutes=1)
CHANGES = ("moved", "renamed", "invited Ada", "invited Bob")


@define
class Push(WorkItem):
    """Tells devices about all changes so far; goes before work that takes hours."""

    calendar: str

    work_type = "calendar.push"
    priority = Priority.HIGH
    group = Key("push:{calendar}")

    async def perform(self, job: RunningJob) -> None:
        async with job.transaction() as txn:
            changes = 1 + len(await job.coalesce())
            await txn.execute("insert into push values (%s, %s)", (self.calendar, changes))


@define
class Remind(WorkItem):
    """Reminds of an event: never before its time, and ever sooner the longer it is late."""

    title: str

    work_type = "calendar.remind"

    async def perform(self, job: RunningJob) -> str:
        return datetime.now(UTC).isoformat()


@define
class Find(WorksetItem):
    """Makes all events searchable: by two jobs, however many events there are."""

    id: int
    title: str

    size = 2
    batch = 500
    source = ExistingTable("event", key="id")

    @classmethod
    async def perform_part(cls, items: Sequence[Self], part: RunningPart) -> None:
        async with part.transaction() as txn:
            await txn.execute("insert into found select unnest(%s)", ([each.id for each in items],))


async def tour(queue: WorkQueue) -> None:
    """Change an event four times, be reminded of it, and make five thousand others searchable."""
    due = datetime.now(UTC) + timedelta(seconds=2)
    async with queue.transaction() as txn:
        for title in CHANGES:
            await txn.execute("insert into event (calendar, title) values ('home', %s)", [title])
            last = await txn.enqueue(Push("home"))
        reminder = await txn.enqueue(Remind("dinner"), not_before=due, not_after=due + SOON)
        await txn.execute(
            "insert into event (calendar, title)"
            " select 'work', 'meeting ' || n from generate_series(1, 4996) as n"
        )
    await queue.start_workset(Find)
    await queue.wait(last, timeout=60)
    reminded = datetime.fromisoformat(str(await queue.wait(reminder, timeout=60)))
    print(f"the reminder came {(reminded - due).total_seconds():.3f} s after its time")
    async with queue.transaction() as txn:
        nodes = await txn.execute("select name, port from txqueue.node_info where state = 'alive'")
        [[pushes, changes]] = await txn.execute("select count(*), sum(changes) from push")
        [[found]] = await txn.execute("select count(*) from found")
    print(*(f"{name} listens for others at port {port}" for name, port in nodes), sep="\n")
    print(f"{found} events are searchable already; {changes} changes were {pushes} push")

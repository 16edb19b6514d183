"""Recurring work on real nodes: one job per moment, even if nodes die."""

from datetime import datetime
from typing import Final

from tests.cluster.app import Grouped
from tests.cluster.database import Database
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually
from txqueue import Every, WorkQueue

LIMIT: Final = 300.0
SCHEDULES: Final = 10
TICKS: Final = 200
OFTEN: Final = Every(1, jitter=0.2, catch_up="all")


def ticks(db: Database) -> int:
    """How many moments have got a job."""
    return int(db.value("select count(*) from txqueue.job where options ? 'schedule'"))


async def ticked(db: Database, many: int) -> None:
    """Wait until a number of moments have a job."""
    await eventually(lambda: ticks(db) >= many, LIMIT)


def moments(db: Database, name: str) -> list[datetime]:
    """The moments of a schedule that have got a job, as often as they have."""
    sql = "select options ->> 'due' as due from txqueue.job where options ->> 'schedule' = %s"
    return sorted(datetime.fromisoformat(row["due"]) for row in db.rows(sql, name))


async def test_each_tick_is_one_job_though_masters_are_killed(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """200 ticks, and three masters killed meanwhile: no moment without a job, none with two."""

    async def started() -> Node:
        return await nodes.start("--workers", "1", TXQUEUE_LEASE="3").up()

    running = [await started(), await started()]
    for number in range(SCHEDULES):
        await queue.schedule(f"tick {number}", Grouped(f"project {number}", number, 0.2), OFTEN)
    for kill in range(1, 4):
        await ticked(db, kill * TICKS // 4)
        running.pop(0).kill()
        running.append(await started())
    await ticked(db, TICKS)
    for number in range(SCHEDULES):
        await queue.schedules.pause(f"tick {number}")
    for number in range(SCHEDULES):
        name = f"tick {number}"
        seen = moments(db, name)
        assert seen == expected(name, seen[0], len(seen))
    await eventually(lambda: set(db.states()) == {"done"}, LIMIT)


def expected(name: str, first: datetime, many: int) -> list[datetime]:
    """The moments of the schedule from one on."""
    found = [first]
    while len(found) < many:
        found.append(OFTEN.after(found[-1], name))
    return found

"""Recurring work on real nodes: one job per moment, even if nodes die."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

import pytest
import pytest_twisted

from tests.cluster import app_of_schedules as app
from tests.cluster.conftest import cluster
from tests.cluster.database import Database
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually, within
from txqueue import Cooldown, Every, WorkQueue
from txqueue.admin import Admin
from txqueue.errors import AdminRefused

APP: Final = app.__name__
LIMIT: Final = 300.0
SCHEDULES: Final = 10
TICKS: Final = 200
OFTEN: Final = Every(1, jitter=0.2, catch_up="all")


@pytest.fixture(scope="module")
def two(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """Two nodes with the classes, of which one is named to operators."""
    with cluster(shared_db, tmp_path_factory.mktemp("two")) as nodes:
        first, second = (nodes.start("--workers", "1", app=APP) for _ in range(2))
        for node in (first, second):
            pytest_twisted.blockon(within(LIMIT, node.up()))
        yield first


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
        return await nodes.start("--workers", "1", app=APP, TXQUEUE_LEASE="3").up()

    running = [await started(), await started()]
    for number in range(SCHEDULES):
        await queue.schedule(f"tick {number}", app.OfProject(number), OFTEN)
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


@pytest.mark.usefixtures("two")
async def test_a_class_declares_when_it_comes(shared_db: Database) -> None:
    """Starting a node with the class creates the schedule, once for any number of nodes."""
    done = "select count(*) from txqueue.job where state = 'done' and work_type = %s"
    await eventually(lambda: shared_db.value(done, f"{APP}.EverySecond") >= 3, LIMIT)
    declared = shared_db.rows("select name from txqueue.schedule where is_declared order by name")
    assert [row["name"] for row in declared] == [f"{APP}.AfterARest", f"{APP}.EverySecond"]


async def test_an_operator_acts_through_a_node(
    two: Node, shared_db: Database, shared_queue: WorkQueue
) -> None:
    """Without a connection to the database; it is written down who did it."""
    await shared_queue.schedule("orders", app.SyncOrders(0), Every(3600))
    async with await Admin.connect(f"unix:{two.folder / two.name}.sock") as admin:
        assert await admin.pause_schedule("orders") is True
        assert await admin.pause_schedule("orders") is False
        assert await admin.edit_schedule("orders", Every(7200)) is True
        assert await admin.edit_schedule("orders", Every(7200)) is False
        job_id = await admin.run_schedule("orders")
        assert await admin.resume_schedule("orders") is True
        await admin.remove_schedule("orders")
        with pytest.raises(AdminRefused, match="there is no schedule orders"):
            await admin.run_schedule("orders")
    assert await shared_queue.wait(job_id, LIMIT) is None
    acts = shared_db.rows(
        "select who, what from txqueue.action where subject = 'schedule orders' order by action_id"
    )[1:]
    done = ["pause", "pause", "schedule", "run", "resume", "remove"]
    assert [act["what"] for act in acts] == done
    assert all(act["who"] for act in acts)


@pytest.mark.usefixtures("two")
async def test_types_of_one_project_never_overlap(
    shared_db: Database, shared_queue: WorkQueue
) -> None:
    """Shipments do not run beside orders of the same project; other projects continue."""
    for project in (1, 2):
        orders, shipments = app.SyncOrders(project), app.SendShipments(project)
        await shared_queue.schedule(f"orders {project}", orders, Every(1, jitter=0.5))
        await shared_queue.schedule(f"ship {project}", shipments, Cooldown(1))
    sql = """select what, at from run join txqueue.job using (job_id)
              where "group" = %s order by at, what"""
    await eventually(lambda: len(shared_db.rows(sql, "project:1")) >= 16, LIMIT)
    for project in (1, 2):
        said = [row["what"] for row in shared_db.rows(sql, f"project:{project}")]
        assert said == (["start", "end"] * len(said))[: len(said)]
    names = shared_db.rows(
        "select distinct work_type from txqueue.job where \"group\" = 'project:1'"
    )
    assert len(names) == 2


@pytest.mark.usefixtures("two")
async def test_a_cool_down_is_kept_from_end_to_start(shared_db: Database) -> None:
    """However long a run takes: the next begins a second after it has ended, or later."""
    sql = """select what, at from run join txqueue.job using (job_id)
              where work_type = %s order by at"""
    kind = f"{APP}.AfterARest"
    await eventually(lambda: len(shared_db.rows(sql, kind)) >= 8, LIMIT)
    rows = shared_db.rows(sql, kind)
    assert [row["what"] for row in rows[:8]] == ["start", "end"] * 4
    gaps = [start["at"] - end["at"] for end, start in pairwise(rows) if start["what"] == "start"]
    assert min(gaps) >= timedelta(seconds=1)

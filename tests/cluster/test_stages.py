"""Jobs that have to do with each other, on a real node: what follows, or is called back."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.cluster.app_of_stages import AllEnded, First, Member, Slow, Sync
from tests.cluster.conftest import LIMIT, cluster
from tests.cluster.database import Database
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually, pause, within
from txqueue import WorkQueue
from txqueue.errors import JobFailed

APP = "tests.cluster.app_of_stages"
UPDATES, SUBJECTS = 1000, 10


@pytest.fixture(scope="module", autouse=True)
def staged(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with two workers that knows the application."""
    with cluster(shared_db, Path(tmp_path_factory.mktemp("nodes"))) as nodes:
        node = nodes.start("--workers", "2", app=APP)
        pytest_twisted.blockon(within(LIMIT, node.up(2)))
        yield node


def followers(db: Database, order: int) -> list[str]:
    """The states of the jobs that an order's first stage has enqueued, and their priority."""
    rows = db.rows(
        "select state::text || priority as said from txqueue.job"
        " where work_type = %s and payload ->> 'order' = %s",
        f"{APP}.Last",
        str(order),
    )
    return [row["said"] for row in rows]


@pytest.mark.parametrize(
    ("order", "way", "said"),
    [
        (1, "", "done9"),
        (2, "wait", "done9"),
        (3, "wait, result", "done9"),
        (4, "inside", "done4"),
        (5, "inside, wait", "done4"),
    ],
)
async def test_what_comes_then_comes_with_the_completion(
    shared_queue: WorkQueue, shared_db: Database, order: int, way: str, said: str
) -> None:
    """Whether the handler waits or not, within its own transaction and outside of it."""
    job_id = await shared_queue.enqueue(First(order, way))
    assert await shared_queue.wait(job_id, LIMIT) == ("kept" if "result" in way else None)
    assert len(followers(shared_db, order)) == 1
    await eventually(lambda: followers(shared_db, order) == [said], LIMIT)


@pytest.mark.parametrize(
    ("order", "way", "said"),
    [(7, "fail", "after all"), (8, "wait, fail", "after all"), (9, "too large", "1 to 200")],
)
async def test_nothing_comes_of_a_job_that_is_not_done(
    shared_queue: WorkQueue, shared_db: Database, order: int, way: str, said: str
) -> None:
    """Nor if the database refuses a part of it: then the job is not done either."""
    job_id = await shared_queue.enqueue(First(order, way))
    with pytest.raises(JobFailed, match=said):
        await shared_queue.wait(job_id, LIMIT)
    assert followers(shared_db, order) == []


async def test_a_batch_calls_back(shared_queue: WorkQueue, shared_db: Database) -> None:
    """Once all have ended, with how they did."""
    async with shared_queue.batch(AllEnded("tens"), priority=9) as batch:
        await batch.enqueue(Member(1))
        await batch.enqueue_many([Member(number) for number in range(10, 109)])
    told = await shared_queue.wait(batch.callback_id, LIMIT)
    assert told == {"name": "tens", "done": 90, "failed": 10}
    assert {(await shared_queue.job(job_id)).state.is_final for job_id in batch.ids} == {True}
    assert shared_db.value("select count(*) from txqueue.job_parent") == 0


async def test_processes_die_meanwhile(nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """Of a node's workers and masters: the batch calls back once, after all, and counts each once.

    A job enqueued again while it runs is done afterwards, even if its process dies.
    """
    db.execute("create table app (subject int primary key, synced int); insert into app values (1)")
    first = await nodes.start("--workers", "2", app=APP, TXQUEUE_LEASE="3").up(2)
    async with queue.batch(AllEnded("dying")) as batch:
        await batch.enqueue_many([Slow(number) for number in range(60)])
    for version in range(1, 40):
        await queue.enqueue(Sync(1, version))
        await pause(0.05)
        if version == 10:
            await eventually(lambda: first.workers, LIMIT)
            os.kill(min(first.workers), signal.SIGKILL)
        if version == 20:
            first.kill()
            nodes.start("--workers", "1", app=APP)
    told = await queue.wait(batch.callback_id, LIMIT)
    assert told == {"name": "dying", "done": 60, "failed": 0}
    await eventually(lambda: db.value("select synced from app") == 39, LIMIT)
    assert db.runs()[batch.callback_id] == 1

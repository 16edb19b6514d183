"""Jobs with steps, on a real node: what is done is done once, and waits take no worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import pytest_twisted

from tests.cluster.app_of_steps import Order, Together
from tests.cluster.conftest import LIMIT, cluster
from tests.cluster.database import Database
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually, within
from txqueue import WorkQueue

APP = "tests.cluster.app_of_steps"


@pytest.fixture(scope="module", autouse=True)
def stepping(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with two workers that knows the application."""
    with cluster(shared_db, Path(tmp_path_factory.mktemp("nodes"))) as nodes:
        node = nodes.start("--workers", "2", app=APP)
        pytest_twisted.blockon(within(LIMIT, node.up(2)))
        yield node


def notes(db: Database, job_id: int) -> list[str]:
    """What the runs of a job have noted."""
    rows = db.rows("select what from run where job_id = %s order by at", job_id)
    return [row["what"] for row in rows]


def waits_for(db: Database, job_id: int, reason: str) -> bool:
    """Whether a job waits for something."""
    job = db.job(job_id)
    return bool(job["state"] == "waiting" and job["waiting_for"] == reason)


async def test_an_order(shared_queue: WorkQueue, shared_db: Database) -> None:
    """Each step of it is done once, although its handler begins four times."""
    job_id = await shared_queue.enqueue(Order(7))
    await eventually(lambda: waits_for(shared_db, job_id, "time"), LIMIT)
    shared_db.value("select txqueue.signal(%s, 'approved', '\"by Ada\"')", job_id)
    assert await shared_queue.wait(job_id, LIMIT) == {
        "charge": 7,
        "book": {"booking": 8},
        "answer": "by Ada",
        "report": 14,
    }
    assert notes(shared_db, job_id) == ["charged"]
    assert len(shared_db.rows("select from effect where job_id = %s", job_id)) == 1
    steps = shared_db.value("select txqueue.kept_steps(%s)", job_id)
    assert [step["name"] for step in steps] == ["charge", "book", "approved", "cool off", "report"]


async def test_steps_at_a_time(shared_queue: WorkQueue, shared_db: Database) -> None:
    """Steps that end together, a worker that is killed after them, and two waits."""
    job_id = await shared_queue.enqueue(Together(kills=1))
    await eventually(lambda: waits_for(shared_db, job_id, "signal"), LIMIT)
    for name in ("left", "right"):
        shared_db.value("select txqueue.signal(%s, %s, to_jsonb(%s::text))", job_id, name, name)
    assert await shared_queue.wait(job_id, LIMIT) == [*range(6), "left", "right"]
    assert sorted(notes(shared_db, job_id)) == ["killed", *(f"step {n}" for n in range(6))]


async def test_all_restart_during_a_wait(nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """A job goes on at its wait although no process is left of those that ran it before."""
    node = await nodes.start("--workers", "1", app=APP).up(1)
    job_id = await queue.enqueue(Order(1))
    await eventually(lambda: waits_for(db, job_id, "time"), LIMIT)
    node.kill()
    db.value("select txqueue.signal(%s, 'approved')", job_id)
    await nodes.start("--workers", "1", app=APP).up(1)
    assert await queue.wait(job_id, LIMIT) == {
        "charge": 1,
        "book": {"booking": 2},
        "answer": None,
        "report": 2,
    }
    assert notes(db, job_id) == ["charged"]

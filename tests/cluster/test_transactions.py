"""A job's own transaction: its effects and its completion are one."""

import pytest

from tests.cluster.app import Completes
from tests.cluster.database import Database
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.errors import JobFailed

pytestmark = pytest.mark.usefixtures("shared_node")

LIMIT = 120.0


def effects(db: Database, job_id: int) -> list[str]:
    """What a job has written."""
    rows = db.rows("select note from effect where job_id = %s", job_id)
    return [row["note"] for row in rows]


def followers(db: Database, job_id: int) -> list[str]:
    """The states of the jobs that a job has enqueued."""
    return [
        row["state"]
        for row in db.rows(
            "select state from txqueue.job where payload ->> 'number' = %s", str(job_id)
        )
    ]


async def test_all_or_nothing(shared_queue: WorkQueue, shared_db: Database) -> None:
    """The row written, the job enqueued and the completion are there together."""
    job_id = await shared_queue.enqueue(Completes("written"))
    await shared_queue.wait(job_id, LIMIT)
    assert effects(shared_db, job_id) == ["written"]
    assert len(followers(shared_db, job_id)) == 1
    await eventually(lambda: followers(shared_db, job_id) == ["done"], LIMIT)


async def test_a_handler_that_raises_inside(shared_queue: WorkQueue, shared_db: Database) -> None:
    """What was written before the error is gone, and the job is not done."""
    job_id = await shared_queue.enqueue(Completes("lost", "raise inside"))
    with pytest.raises(JobFailed, match="raised inside"):
        await shared_queue.wait(job_id, LIMIT)
    assert effects(shared_db, job_id) == []
    assert followers(shared_db, job_id) == []


async def test_a_handler_that_raises_afterwards(
    shared_queue: WorkQueue, shared_db: Database
) -> None:
    """Once its completion is committed a job is done; the error is kept with it."""
    job_id = await shared_queue.enqueue(Completes("kept", "raise after"))
    await shared_queue.wait(job_id, LIMIT)
    await shared_queue.wait(await shared_queue.enqueue(Completes("another")), LIMIT)
    assert effects(shared_db, job_id) == ["kept"]
    assert shared_db.runs()[job_id] == 1
    kept = "after its transaction had committed, the handler failed: ValueError: raised after"
    stored = "select error from txqueue.job where job_id = %s and state = 'done'"
    await eventually(lambda: shared_db.value(stored, job_id).startswith(kept), LIMIT)


async def test_many_at_a_time(shared_queue: WorkQueue, shared_db: Database) -> None:
    """More jobs than a worker has connections all get their transaction in turn."""
    ids = await shared_queue.enqueue_many([Completes("one of many") for _ in range(100)])
    for job_id in ids:
        await shared_queue.wait(job_id, LIMIT)
    assert all(effects(shared_db, job_id) == ["one of many"] for job_id in ids)

"""A job's own transaction: its effects and its completion are one."""

import pytest

from tests.cluster.app import Completes
from tests.cluster.database import Database
from tests.waiting import eventually
from txqueue import WorkQueue

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


async def test_many_at_a_time(shared_queue: WorkQueue, shared_db: Database) -> None:
    """More jobs than a worker has connections all get their transaction in turn."""
    ids = await shared_queue.enqueue_many([Completes("one of many") for _ in range(100)])
    for job_id in ids:
        await shared_queue.wait(job_id, LIMIT)
    assert all(effects(shared_db, job_id) == ["one of many"] for job_id in ids)

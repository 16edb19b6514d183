"""What clients learn of a job: its progress, its failed attempts, and its end."""

import pytest

from tests.cluster.app import Hangs, Reports
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.errors import JobFailed

pytestmark = pytest.mark.usefixtures("shared_node")

LIMIT = 120.0


async def test_progress_and_attempts_are_shown(shared_queue: WorkQueue) -> None:
    """While it runs, how far it is; then and later, how its attempts failed, when and where."""
    job_id = await shared_queue.enqueue(Reports())

    async def progress() -> object:
        return (await shared_queue.job(job_id)).progress

    assert await eventually(progress, LIMIT) == [3, 10, "copying"]
    await shared_queue.wait(job_id, LIMIT)
    job = await shared_queue.job(job_id)
    assert [each.number for each in job.attempts] == [1, 2]
    for number, attempt in enumerate(job.attempts, 1):
        assert attempt.error is not None
        assert attempt.error.startswith(f"ValueError: not in attempt {number}\n")
        assert attempt.node_id == job.node_id
        assert attempt.seconds is not None
        assert attempt.seconds >= 0


async def test_a_handler_that_hangs_has_failed(shared_queue: WorkQueue) -> None:
    """It promised a heartbeat, and none came."""
    job_id = await shared_queue.enqueue(Hangs())
    with pytest.raises(JobFailed, match="hung: silent for longer than 1 s"):
        await shared_queue.wait(job_id, LIMIT)
    (attempt,) = (await shared_queue.job(job_id)).attempts
    assert attempt.number == 1

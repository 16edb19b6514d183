"""What a client waits for, and what it says when that cannot come."""

import pytest
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from tests.db.letters import FAR, Note
from tests.db.masters import Master
from tests.waiting import eventually
from txqueue import WorkQueue
from txqueue.errors import DatabaseUnavailable, InvalidWork, JobNotFound, WaitTimeout


async def test_a_queue_without_a_free_connection_says_so(dsn: str) -> None:
    """As many requests as connections, each of which needs a second one for its job."""
    queue = await WorkQueue.connect(dsn, connections=2, connection_wait=0.2)

    both: Deferred[None] = Deferred()
    begun: list[None] = []

    async def request() -> None:
        async with queue.transaction() as txn:
            await txn.execute("select 1")
            begun.append(None)
            if len(begun) == 2:
                both.callback(None)
            elif not both.called:
                await both
            await queue.enqueue(Note())

    try:
        failures: list[Failure] = []
        for _ in range(2):
            Deferred.fromCoroutine(request()).addErrback(failures.append)
        await eventually(lambda: failures)
        errors = [failure.value for failure in failures]
        for error in errors:
            assert isinstance(error, DatabaseUnavailable)
            assert "no connection was free within 0.2 s: all 2 are in use" in str(error)
        assert await queue.enqueue(Note())
    finally:
        await queue.close()


async def test_a_number_may_be_text(node: Master, queue: WorkQueue) -> None:
    """As a part of a URL is; `wait` takes it as `job` does, and other text is refused."""
    (job_id,) = node.enqueue({})
    assert (await queue.job(str(job_id))).id == job_id  # type: ignore[arg-type]  # text
    [chunk] = node.claim()
    node.complete(chunk)
    await queue.wait(str(job_id), timeout=10)  # type: ignore[arg-type]  # text
    for wrong in ("seven", "", "-1", "\N{ARABIC-INDIC DIGIT ONE}", 1.0, True, None, 0, 2**63):
        for call in (queue.job, queue.wait, queue.repeat):
            with pytest.raises(InvalidWork, match="is not the number of a job"):
                await call(wrong)  # type: ignore[arg-type]  # on purpose


async def test_a_job_of_an_open_transaction_is_named_as_such(queue: WorkQueue) -> None:
    """It begins after the commit, so a wait inside of the block could never end."""
    async with queue.transaction() as txn:
        job_id = await txn.enqueue(Note())
        with pytest.raises(JobNotFound, match="has not committed"):
            await queue.wait(job_id)
    assert (await queue.job(job_id)).id == job_id
    with pytest.raises(JobNotFound, match="there is no job"):
        await queue.job(job_id + 1000)


async def test_a_wait_ends_in_time_and_with_its_job(node: Master, queue: WorkQueue) -> None:
    """Also with a negative time-out, and if an operator deletes the job."""
    (job_id,) = node.enqueue({"not_before": FAR.isoformat()})
    with pytest.raises(WaitTimeout, match="did not end within 0 s"):
        await queue.wait(job_id, timeout=-3)
    waiting = Deferred.fromCoroutine(queue.wait(job_id, timeout=30))
    node.value("select txqueue.delete_jobs(%s, 'test')", [job_id])
    with pytest.raises(JobNotFound):
        await waiting


async def test_a_wait_for_a_connection_ends_in_time(dsn: str) -> None:
    """Another request has the only one."""
    queue = await WorkQueue.connect(dsn, connections=1)
    try:
        async with queue.transaction():
            with pytest.raises(WaitTimeout, match="did not end within 1 s"):
                await queue.wait(1, timeout=0.1)
    finally:
        await queue.close()

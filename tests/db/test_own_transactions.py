"""The connections of a worker: handlers may keep theirs, completions do not wait for those."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from twisted.internet.task import Clock
from twisted.python.threadpool import ThreadPool

from tests.db.letters import Note
from tests.db.masters import Master
from tests.waiting import running_reactor, within
from txqueue import RunningJob, ThreadJob
from txqueue.errors import InvalidWork
from txqueue.model.assignment import Assignment
from txqueue.worker.handlers.job_transaction import MOST_CONNECTIONS, OwnTransactions, complete
from txqueue.worker.handlers.running_job import HeldAssignment, begun, change
from txqueue.worker.handlers.threads import HandlerThreads, ReactorCalls

LIMIT = 10.0


@asynccontextmanager
async def with_busy_connections(
    node: Master, dsn: str
) -> AsyncIterator[tuple[OwnTransactions, RunningJob]]:
    """Let handlers keep all of their connections; yields one more job, which has started."""
    transactions = OwnTransactions(running_reactor(), dsn, "txqueue", "test")
    node.enqueue(*[{}] * (MOST_CONNECTIONS + 1))
    (chunk,) = node.claim()
    told = Assignment(node.incarnation, chunk.assignment, chunk.lane, len(chunk.ids), 1, "")
    *busy, job = (begun(each, HeldAssignment(told), transactions.open) for each in chunk.jobs)
    try:
        async with AsyncExitStack() as stack:
            for each in busy:
                txn = await stack.enter_async_context(each.transaction())
                await txn.execute("select 1")
            yield transactions, job
    finally:
        transactions.close()


async def test_a_job_whose_handler_has_returned_does_not_wait_for_handlers(
    node: Master, dsn: str
) -> None:
    """It completes, with its follow-up work, while handlers have all of their connections."""
    async with with_busy_connections(node, dsn) as (transactions, job):
        job.then(Note())
        change(job, has_returned=True)
        await within(LIMIT, complete(job, transactions.open, Clock()))
        assert node.job(job.id)["state"] == "done"
    assert node.states() == {"done": MOST_CONNECTIONS + 1, "waiting": 1}


async def test_a_late_error_does_not_wait_for_handlers(node: Master, dsn: str) -> None:
    """The error of a handler whose job is done is stored while others have all connections."""
    async with with_busy_connections(node, dsn) as (transactions, job):
        change(job, has_returned=True)
        await within(LIMIT, complete(job, transactions.open, Clock()))
        await within(LIMIT, transactions.note_late(job, "error", "after it: x"))
        assert node.job(job.id)["error"] == "after it: x"


async def test_a_late_result_is_kept_once(node: Master, dsn: str) -> None:
    """What a handler returns after its transaction; a second one is refused with the remedy."""
    async with with_busy_connections(node, dsn) as (transactions, job):
        change(job, has_returned=True)
        await within(LIMIT, complete(job, transactions.open, Clock()))
        await within(LIMIT, transactions.note_late(job, "result", '{"a": 1}'))
        assert node.job(job.id)["result"] == {"a": 1}
        with pytest.raises(InvalidWork, match=r"set txn\.result"):
            await within(LIMIT, transactions.note_late(job, "result", "2"))


async def test_a_function_in_a_thread_writes_in_its_own_transaction(node: Master, dsn: str) -> None:
    """Its rows, a batch and the job's completion commit together."""
    transactions = OwnTransactions(running_reactor(), dsn, "txqueue", "test")
    pool = ThreadPool(0, 1)
    pool.start()
    threads = HandlerThreads(running_reactor(), pool, most=1)
    node.enqueue({})
    (chunk,) = node.claim()
    told = Assignment(node.incarnation, chunk.assignment, chunk.lane, 1, 1, "")
    job = begun(chunk.jobs[0], HeldAssignment(told), transactions.open)

    def perform(calls: ReactorCalls) -> object:
        with ThreadJob(job, calls).transaction() as txn:
            with txn.batch(Note()) as batch:
                batch.enqueue(Note())
                batch.enqueue_many(Note() for _ in range(2))
            return txn.execute("select %s", [len(batch.ids)]), batch.callback_id

    try:
        ended = await within(LIMIT, threads.run(job, perform))
    finally:
        transactions.close()
        pool.stop()
    rows, callback = ended.get()
    assert rows == [(3,)]
    assert node.job(callback)["waiting_for"] is not None
    assert node.states() == {"done": 1, "waiting": 4}

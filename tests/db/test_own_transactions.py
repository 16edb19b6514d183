"""The connections of a worker: handlers may keep theirs, completions do not wait for those."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from twisted.internet.task import Clock

from tests.db.letters import Note
from tests.db.masters import Master
from tests.waiting import running_reactor, within
from txqueue import RunningJob
from txqueue.model.assignment import Assignment
from txqueue.worker.handlers.job_transaction import MOST_CONNECTIONS, OwnTransactions, complete
from txqueue.worker.handlers.running_job import HeldAssignment, begun, change

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
        await within(LIMIT, transactions.note_late_error(job, "after it: x"))
        assert node.job(job.id)["error"] == "after it: x"

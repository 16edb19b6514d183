"""Processes that have joined a node: their jobs need no claim, and nothing is sent before commit."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.cluster.app import Grouped, Noted
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node, Nodes
from tests.cluster.test_admin import socket_of
from tests.waiting import eventually
from txqueue import WorkQueue


@asynccontextmanager
async def joined(node: Node) -> AsyncIterator[WorkQueue]:
    """A queue that has joined a node, and has credit."""
    queue = await WorkQueue.connect(node.database.dsn, node=f"unix:{socket_of(node)}")
    try:
        await eventually(lambda: has_credit(queue), PATIENCE)
        yield queue
    finally:
        await queue.close()


def has_credit(queue: WorkQueue) -> bool:
    """Whether a job would be assigned at once."""
    return queue._membership is not None and queue._membership.stock(1) is not None


def is_short(db: Database, job_id: int) -> bool:
    """Whether a job was enqueued assigned, which is the same moment but for the transaction's."""
    job = db.row(
        "select assigned_at - enqueued_at < interval '20 ms' as soon, lane from txqueue.job"
        " where job_id = %s",
        job_id,
    )
    return bool(job["soon"])


async def test_jobs_are_delivered(nodes: Nodes, db: Database) -> None:
    """One at a time, or several in a transaction, more than there is credit for; each runs once."""
    node = await nodes.start("--workers", "2").up(2)
    async with joined(node) as queue:
        ids = [await queue.enqueue(Noted()) for _ in range(50)]
        async with queue.transaction() as txn:
            ids += [await txn.enqueue(Noted()) for _ in range(50)]
            assert db.value("select count(*) from txqueue.job where job_id = %s", ids[-1]) == 0
        for job_id in ids:
            await queue.wait(job_id, PATIENCE)
        assert db.runs() == dict.fromkeys(ids, 1)
        assert db.value("select count(*) from txqueue.job where handed = 1") == 0

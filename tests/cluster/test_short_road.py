"""Processes that joined a node: their jobs need no claim, and nothing is sent before commit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.cluster.app import Noted
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node, Nodes
from tests.cluster.peers import meshed, start_mesh
from tests.cluster.test_admin import socket_of
from tests.waiting import eventually
from txqueue import WorkQueue

RAN = "select node, count(*) as jobs from run where what = 'end' group by 1"


@asynccontextmanager
async def joined(node: Node) -> AsyncIterator[WorkQueue]:
    """A queue that has joined a node, and has credit."""
    queue = await WorkQueue.connect(node.database.dsn, node=f"unix:{socket_of(node)}")
    try:
        await eventually(lambda: credit(queue), PATIENCE)
        yield queue
    finally:
        await queue.close()


def credit(queue: WorkQueue) -> int:
    """The credit of the queue's process."""
    assert queue.membership is not None
    return queue.membership.credit


def credit_of_nodes(queue: WorkQueue) -> dict[int, int]:
    """The same by incarnation."""
    assert queue.membership is not None
    return {credit.incarnation: credit.weight for credit in queue.membership._credits.values()}


def delivered(queue: WorkQueue) -> int:
    """How many jobs it has told of."""
    assert queue.membership is not None
    return queue.membership.delivered


async def test_jobs_are_delivered(nodes: Nodes, db: Database) -> None:
    """One at a time, or many in a transaction, more than there is credit for; each runs once."""
    node = await nodes.start("--workers", "2").up(2)
    async with joined(node) as queue:
        ids = [await queue.enqueue(Noted()) for _ in range(50)]
        assert delivered(queue) > 0
        async with queue.transaction() as txn:
            ids += [await txn.enqueue(Noted()) for _ in range(50)]
            assert db.value("select count(*) from txqueue.job where job_id = %s", ids[-1]) == 0
        for job_id in ids:
            await queue.wait(job_id, PATIENCE)
        assert db.runs() == dict.fromkeys(ids, 1)
        await eventually(lambda: credit(queue), PATIENCE)


async def test_a_lost_message(nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """The node finds jobs handed to it whose message was lost."""
    node = await nodes.start("--workers", "1").up()
    info = node.info
    text = "select job_id from txqueue.enqueue_assigned(%s, %s, %s, '{}')"
    work_type = Noted.work_type
    job_id = db.value(text, info["node_id"], info["incarnation"], work_type)
    assert db.job(job_id)["handed"] == 1
    await queue.wait(job_id, PATIENCE)
    assert db.runs() == {job_id: 1}


async def test_a_killed_node(nodes: Nodes, db: Database) -> None:
    """Its jobs run elsewhere; its client continues, and joins its next run."""
    killed = await nodes.start("--workers", "1", TXQUEUE_LEASE="2").up()
    async with joined(killed) as queue:
        handed = [await queue.enqueue(Noted(3.0)) for _ in range(3)]
        assert delivered(queue) == 3
        killed.kill()
        await eventually(lambda: credit(queue) == 0, PATIENCE)
        handed += [await queue.enqueue(Noted()) for _ in range(3)]
        assert delivered(queue) == 3
        endpoint = f"unix:{socket_of(killed)}"
        again = nodes.start(
            "--workers", "1", "--admin", endpoint, name=killed.name, TXQUEUE_LEASE="2"
        )
        await again.up()
        await eventually(lambda: credit(queue), PATIENCE)
        handed.append(await queue.enqueue(Noted()))
        assert delivered(queue) == 4
        for job_id in handed:
            await queue.wait(job_id, PATIENCE)
        assert {db.job(job_id)["incarnation"] for job_id in handed} == {again.info["incarnation"]}


async def test_credit_of_a_peer(nodes: Nodes, db: Database) -> None:
    """What is more than the own credit goes to the peer at once; its node reads it there."""
    mesh = start_mesh(nodes, 2, "--workers", "1")
    await meshed(mesh)
    async with joined(mesh[0]) as queue:
        await eventually(lambda: len(credit_of_nodes(queue)) == 2, PATIENCE)
        async with queue.transaction() as txn:
            ids = [await txn.enqueue(Noted(1.0)) for _ in range(32)]
        assert delivered(queue) == 32
        for job_id in ids:
            await queue.wait(job_id, PATIENCE)
    ran = {row["node"]: row["jobs"] for row in db.rows(RAN)}
    assert ran == {mesh[0].folder.name: 16, mesh[1].folder.name: 16}

"""Jobs that plain SQL enqueues as assigned to a node: none waits for a message that is lost."""

import signal
from contextlib import closing
from typing import Any

import psycopg2
import pytest

from tests.cluster.app import Noted
from tests.cluster.database import Database
from tests.cluster.nodes import LEASE, PATIENCE, Nodes
from tests.waiting import eventually

LISTENER = "application_name = 'txqueue listener'"


def enqueued(db: Database, seconds: float = 0.0) -> int:
    """The number of a job that was enqueued by plain SQL."""
    return db.enqueue(Noted.work_type, f'{{"seconds": {seconds}}}')


async def done(db: Database, *ids: int) -> None:
    """Wait until jobs are done, and assert that each has run once."""
    await eventually(lambda: db.runs("end").keys() >= set(ids), PATIENCE)
    assert [db.runs()[job_id] for job_id in ids] == [1] * len(ids)


async def credit_granted(db: Database) -> None:
    """Wait until a node has granted credit: it does so when a job had to be claimed."""

    def is_granted() -> bool:
        enqueued(db)
        return bool(db.value("select txqueue.has_open_credit()"))

    await eventually(is_granted, PATIENCE)


async def test_a_trickle_is_not_claimed(nodes: Nodes, db: Database) -> None:
    """Nor is a part of the jobs of one transaction; each runs once."""
    await nodes.start("--workers", "2", "--lease", LEASE).up(2)
    await credit_granted(db)
    with closing(psycopg2.connect(db.dsn)) as session, session.cursor() as cursor:
        for _ in range(20):
            job_id = late(cursor)
            session.commit()
            await done(db, job_id)
    many = db.rows(
        "select txqueue.enqueue(%s, '{}') as id from generate_series(1, 200)", Noted.work_type
    )
    await done(db, *[row["id"] for row in many])
    await eventually(lambda: db.states().keys() == {"done"}, PATIENCE)


async def test_nobody_sends_a_node_jobs_without_the_name_of_its_channel(
    nodes: Nodes, db: Database
) -> None:
    """A node believes what arrives there, and nothing that arrives on channels with known names."""
    node = await nodes.start("--workers", "1", "--lease", LEASE).up()
    await credit_granted(db)
    run = node.info["incarnation"]
    channel = db.value("select channel from txqueue.node_channel where incarnation = %s", run)
    known = ("txqueue", f"txqueue_run_{run}", f"run_{run}", f"txqueue_{run}", "probe")
    for number, name in enumerate((*known, channel), -len(known)):
        job = f'[{number},"{Noted.work_type}",1,1,{{"seconds":0}},null]'
        text = db.value("select txqueue.chunk_of(%s)", job)
        db.execute("select pg_notify(%s, %s)", name, f"{run} 0 {7_000_000 + number} {text}")
    await done(db, enqueued(db), 0)
    assert {job_id for job_id in db.runs() if job_id <= 0} == {0}


async def test_a_job_whose_notification_was_forged(nodes: Nodes, db: Database) -> None:
    """It returns to the queue, and runs as it was enqueued."""
    node = await nodes.start("--workers", "1", "--lease", LEASE).up()
    await credit_granted(db)
    run = node.info["incarnation"]
    channel = db.value("select channel from txqueue.node_channel where incarnation = %s", run)
    with closing(psycopg2.connect(db.dsn)) as session, session.cursor() as cursor:
        job_id = late(cursor)
        cursor.execute(
            "select assignment, lane from txqueue.job_assigned where job_id = %s", [job_id]
        )
        found = cursor.fetchone()
        if found is not None:
            # In the order of their transactions: this one comes first.
            db.execute("select pg_notify(%s, %s)", channel, f"{run} {found[1]} {found[0]} {{}}")
        session.commit()
    assert found is not None
    await done(db, job_id)


async def test_a_lost_listener(nodes: Nodes, db: Database) -> None:
    """Jobs whose notification no connection has received are found as soon as one listens."""
    await nodes.start("--workers", "1", "--lease", LEASE).up()
    for _ in range(3):
        await credit_granted(db)
        db.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where {LISTENER}")
        await done(db, *[enqueued(db) for _ in range(5)])


@pytest.mark.parametrize("is_notified", [True, False])
async def test_a_transaction_that_commits_while_its_node_drains(
    nodes: Nodes, db: Database, is_notified: bool
) -> None:
    """Its job is returned at once, and runs elsewhere, however long the node drains."""
    first = await nodes.start("--workers", "1", "--lease", "10").up()
    await credit_granted(db)
    with closing(psycopg2.connect(db.dsn)) as session, session.cursor() as cursor:
        long = enqueued(db, 3600.0)
        await eventually(lambda: long in db.runs(), PATIENCE)
        job_id = late(cursor)
        first.signal(signal.SIGTERM)
        await eventually(lambda: first.info["state"] == "draining", PATIENCE)
        if not is_notified:
            cursor.execute(
                f"select pg_terminate_backend(pid, 5000) from pg_stat_activity where {LISTENER}"
            )
        session.commit()
        await eventually(lambda: db.job(job_id)["state"] == "ready", PATIENCE)
        await nodes.start("--workers", "1", "--lease", "10").up()
        await done(db, job_id)
        assert first.info["state"] == "draining"
        db.value("select txqueue.cancel(%s::bigint[], 'test')", [long])
        await eventually(lambda: first.process.poll() is not None, PATIENCE)


def late(cursor: Any) -> int:
    """Enqueue a job as assigned, in a transaction that stays open; return its number."""
    while True:
        cursor.execute("select txqueue.enqueue(%s, '{}')", (Noted.work_type,))
        job_id = int(cursor.fetchone()[0])
        cursor.execute("select handed from txqueue.job where job_id = %s", (job_id,))
        if cursor.fetchone()[0] == 2:
            return job_id
        cursor.connection.commit()

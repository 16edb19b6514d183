"""How many message round trips each call of a client, a node, the command and the dashboard takes.

docs/explanation/performance.md has those that readers need. A call that comes to take more is
slower wherever the database is far away.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from twisted.internet.defer import Deferred

from tests.dashboards import served
from tests.db.letters import Note
from tests.db.masters import Master
from tests.round_trips import RoundTrips, counted
from tests.waiting import eventually, running_reactor, within
from txqueue import WorkQueue
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.model.assignment import Assignment, CompletedJobs, read_chunk
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.session_bounds import of_a_master
from txqueue.store.node.functions import StoredFunctions
from txqueue.worker.handlers.job_transaction import OwnTransactions
from txqueue.worker.handlers.running_job import HeldAssignment, begun

LIMIT = 10.0
CLIENT = "txqueue client"
COMMANDS = {
    "status": 6,
    "jobs": 2,
    "jobs --state ready": 2,
    "job ID": 2,
    "explain ID": 2,
    "nodes": 2,
    "limits": 2,
    "failures": 2,
    "schedules": 2,
    "worksets": 2,
}
"""The connection, and the questions; with the first one the settings and the version."""
DOCTOR = 11
"""The connection, its settings, the questions, and the probe of notifications with two more."""
PAGES = {
    "/": 7,
    "/jobs": 4,
    "/jobs/ID": 4,
    "/queues": 7,
    "/queues/queue?name=default": 6,
    "/types": 4,
    "/types/type?name=test.kind": 7,
    "/nodes": 2,
    "/nodes/node?name=test": 3,
    "/failures": 3,
    "/schedules": 2,
    "/worksets": 2,
    "/tenants": 2,
    "/actions": 2,
}
"""The connection and the questions of a page that no other viewer has just read."""


@pytest.fixture
def trips(dsn: str) -> Iterator[RoundTrips]:
    """Count what goes through the proxy."""
    with counted(dsn) as counts:
        yield counts


async def test_a_client(trips: RoundTrips) -> None:
    """The connection with the check of the version, then one for each transaction or batch."""
    queue = await WorkQueue.connect(trips.dsn)
    try:
        assert trips.taken() == 2
        await queue.enqueue(Note())
        assert trips.taken() == 1
        assert len(await queue.enqueue_many([Note()] * 1000)) == 1000
        assert trips.taken() == 1
        assert len(await queue.enqueue_many(Note() for _ in range(1001))) == 1001
        assert trips.taken() == 3
        async with queue.transaction() as txn:
            await txn.enqueue(Note())
        assert trips.taken() == 2
        async with queue.transaction() as txn:
            await txn.execute("select 1")
            await txn.enqueue(Note())
        assert trips.taken() == 3
    finally:
        await queue.close()


async def test_a_statement_that_a_connection_prepares(trips: RoundTrips) -> None:
    """Once in the life of a connection: whether there is a pooler, and the preparation."""
    queue = await WorkQueue.connect(trips.dsn)
    try:
        await queue.enqueue(Note())
        counts = [trips.taken()]
        for _ in range(6):
            await queue.enqueue(Note())
            counts.append(trips.taken())
        assert counts == [3, 1, 1, 1, 3, 1, 1]
    finally:
        await queue.close()


async def test_a_job_is_read_with_its_attempts(node: Master, trips: RoundTrips) -> None:
    """In one statement, also by a caller that waits for a job which has ended."""
    (job_id,) = node.enqueue({})
    node.settle(node.claim()[0], "retry", delay=0, error="first")
    node.settle(node.claim()[0], "retry", delay=0, error="second")
    queue = await WorkQueue.connect(trips.dsn)
    try:
        trips.taken()
        job = await queue.job(job_id)
        assert trips.taken() == 1
        assert [each.error for each in job.attempts] == ["first", "second"]
        first, second = job.attempts
        assert job.enqueued_at < first.ended < second.ended
        node.complete(node.claim()[0])
        assert await queue.wait(job_id) is None
        assert trips.taken() == 1
    finally:
        await queue.close()


async def test_waiting(node: Master, trips: RoundTrips, monkeypatch: pytest.MonkeyPatch) -> None:
    """The job is read, and once more when its end has been announced."""
    for pause in ("FIRST", "LONGEST"):
        monkeypatch.setattr(f"txqueue.client.waiting.{pause}", 30.0)
    first_id, job_id = node.enqueue({}, {})
    queue = await WorkQueue.connect(trips.dsn)
    try:
        trips.taken()
        waiting = Deferred.fromCoroutine(queue.wait(first_id))
        # The job is read, announcements are requested, and the job is read as some may be missed.
        await eventually(lambda: trips.by_name[CLIENT] == 3 and not trips.unanswered)
        for chunk in node.claim(1):
            node.complete(chunk)
        await within(LIMIT, waiting)
        trips.taken()
        waiting = Deferred.fromCoroutine(queue.wait(job_id))
        await eventually(lambda: trips.by_name[CLIENT] == 1 and not trips.unanswered)
        for chunk in node.claim(1):
            node.complete(chunk)
        await within(LIMIT, waiting)
        assert trips.by_name == {CLIENT: 2}
    finally:
        await queue.close()


async def test_a_node(node: Master, trips: RoundTrips) -> None:
    """One to claim a job, one to complete it, and one to notify clients while some wait; the
    connection begins with its settings.
    """
    node.enqueue({}, {})
    pool = ConnectionPool(running_reactor(), trips.dsn, 1, "test", session=of_a_master(10.0))
    functions, counts = StoredFunctions(pool), []
    try:
        for _ in range(2):
            [job], *_ = await functions.claim_ready(
                node.node_id, node.incarnation, ["default"], ["test.kind"], 1
            )
            counts.append(trips.taken())
            [each] = read_chunk(job.chunk)
            completed = CompletedJobs(job.lane, job.number, str(each.job_id))
            await functions.complete(node.incarnation, [completed])
            counts.append(trips.taken())
            await functions.notify_ends(completed.ids)
            counts.append(trips.taken())
    finally:
        pool.close()
    assert counts == [2 + 1, 1, 1, 1, 1, 1]
    assert node.states() == {"done": 2}


async def test_a_transaction_of_a_handler(node: Master, trips: RoundTrips) -> None:
    """Its first statement begins it, and the completion of the job commits it."""
    node.enqueue({}, {})
    transactions = OwnTransactions(running_reactor(), trips.dsn, "txqueue", "test")
    counts = []
    try:
        for _ in range(2):
            [chunk] = node.claim(1)
            told = Assignment(node.incarnation, chunk.assignment, chunk.lane, 1, 1, "")
            job = begun(chunk.jobs[0], HeldAssignment(told), transactions.open)
            async with job.transaction() as txn:
                await txn.execute("select 1")
            counts.append(trips.taken())
    finally:
        transactions.close()
    assert counts == [2 + 2, 2]
    assert node.states() == {"done": 2}


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command(
    words: str, node: Master, trips: RoundTrips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It connects, sets the session, checks the version and asks in one message, and asks on."""
    monkeypatch.chdir(tmp_path)
    [job_id] = node.enqueue({})
    arguments = words.replace("ID", str(job_id)).split()
    assert run(["--dsn", trips.dsn, *arguments], GlobalOptions()) == 0
    assert trips.taken() == COMMANDS[words]


def test_the_check_of_an_installation(
    node: Master, trips: RoundTrips, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each question, so that what the server refuses of one does not fail the others."""
    monkeypatch.chdir(tmp_path)
    # The server of the tests is not durable.
    assert run(["--dsn", trips.dsn, "doctor"], GlobalOptions()) == 1
    assert trips.taken("txqueue doctor") == DOCTOR


@pytest.mark.parametrize("path", PAGES)
async def test_a_page(path: str, node: Master, trips: RoundTrips) -> None:
    """With the connection, and before any figures are kept for other viewers."""
    [job_id] = node.enqueue({})
    async with served(trips.dsn) as browser:
        answer = await browser.get(path.replace("ID", str(job_id)))
        assert answer.status == 200, answer.text
    assert trips.taken() == PAGES[path]

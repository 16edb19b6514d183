"""How many message round trips the queues without Twisted and the adapters take.

As `test_round_trips`. An adapter works inside the transaction that the application's driver has
begun; asyncpg prepares each statement first where it keeps none, as behind a pooler.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.db.driver_faces import NAMES, Face, tried
from tests.db.letters import Note
from tests.db.masters import Master
from tests.round_trips import RoundTrips, counted
from txqueue import aio, sync
from txqueue.errors import Duplicate

TWICE = ("asyncpg", "sqlalchemy-connection-asyncpg", "sqlalchemy-session-asyncpg")
"""The adapters whose driver prepares a statement before it sends it."""

SAVEPOINTS = {
    "asyncpg": [4, 5],
    "sqlalchemy-connection-asyncpg": [6, 8],
    "sqlalchemy-session-asyncpg": [6, 8],
}
"""What an enqueue in a savepoint takes, and one that is refused, where the driver prepares."""


@pytest.fixture
def trips(dsn: str) -> Iterator[RoundTrips]:
    """Count what goes through the proxy."""
    with counted(dsn) as counts:
        yield counts


@pytest.mark.parametrize("name", NAMES)
def test_an_adapter(name: str, trips: RoundTrips) -> None:
    """One for a job, a thousand jobs or a signal."""

    async def count(face: Face) -> list[int]:
        await face.execute("select 1")
        trips.taken()
        job_id = await face.enqueue(Note())
        counts = [trips.taken()]
        await face.enqueue_many([Note()] * 1000)
        counts.append(trips.taken())
        await face.signal(job_id, "go", {"by": "Ada"})
        counts.append(trips.taken())
        await face.end(commit=True)
        return counts

    assert tried(name, trips.dsn, count) == [2 if name in TWICE else 1] * 3


@pytest.mark.parametrize("name", NAMES)
def test_a_savepoint(name: str, trips: RoundTrips) -> None:
    """One before and one after, two after a refusal."""

    async def count(face: Face) -> list[int]:
        await face.execute("select 1")
        trips.taken()
        await face.enqueue(Note(), unique="a", savepoint=True)
        counts = [trips.taken()]
        with pytest.raises(Duplicate):
            await face.enqueue(Note(), unique="a", unique_mode="reject", savepoint=True)
        counts.append(trips.taken())
        await face.enqueue(Note())
        await face.end(commit=True)
        return counts

    assert tried(name, trips.dsn, count) == SAVEPOINTS.get(name, [3, 4])


def test_a_queue_for_threads(node: Master, trips: RoundTrips) -> None:
    """As that of Twisted, but the driver sends the ``begin`` of a transaction alone."""
    (job_id,) = node.enqueue({})
    node.complete(node.claim()[0])
    with sync.Queue.connect(trips.dsn) as queue:
        counts = [trips.taken()]
        pending = queue.enqueue(Note())
        counts.append(trips.taken())
        queue.enqueue_many([Note()] * 1000)
        counts.append(trips.taken())
        with queue.transaction() as txn:
            txn.enqueue(Note())
        counts.append(trips.taken())
        queue.job(job_id)
        counts.append(trips.taken())
        queue.wait(job_id)
        counts.append(trips.taken())
        queue.signal(pending, "go", 1)
        counts.append(trips.taken())
        queue.cancel(pending)
        counts.append(trips.taken())
        queue.retry(pending)
    assert [*counts, trips.taken()] == [2, 1, 1, 3, 1, 1, 1, 1, 1]


def test_a_queue_for_asyncio(node: Master, trips: RoundTrips) -> None:
    """As that for threads."""
    (job_id,) = node.enqueue({})
    node.complete(node.claim()[0])

    async def count() -> list[int]:
        async with await aio.Queue.connect(trips.dsn) as queue:
            counts = [trips.taken()]
            pending = await queue.enqueue(Note())
            counts.append(trips.taken())
            await queue.enqueue_many([Note()] * 1000)
            counts.append(trips.taken())
            async with queue.transaction() as txn:
                await txn.enqueue(Note())
            counts.append(trips.taken())
            await queue.job(job_id)
            counts.append(trips.taken())
            await queue.wait(job_id)
            counts.append(trips.taken())
            await queue.signal(pending, "go", 1)
            counts.append(trips.taken())
            await queue.cancel(pending)
            counts.append(trips.taken())
            await queue.retry(pending)
        return [*counts, trips.taken()]

    assert in_a_loop(count()) == [2, 1, 1, 3, 1, 1, 1, 1, 1]


def in_a_loop(coroutine: Any) -> Any:
    """Run a coroutine in an event loop of another thread, as that of this one is the reactor's."""
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, coroutine).result(60)

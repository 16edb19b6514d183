"""The queues without Twisted after a fork, in another event loop, and over a pool that fails them.

Each of these once gave wrong answers, or waited without end.
"""

import asyncio
import logging
import subprocess
import sys
from collections.abc import Callable
from typing import Any, Final

import psycopg_pool
import pytest

from tests.db.letters import Note
from tests.db.masters import master
from tests.db.test_queues_without_twisted import (
    Opened,
    in_loop,
    opened_aio,
    opened_sync,
    sessions,
    until,
)
from tests.waiting import DEFAULT_LIMIT
from txqueue import aio
from txqueue.errors import ConfigurationError, DatabaseUnavailable, JobNotFound

both: Final = pytest.mark.parametrize("opened", [opened_aio, opened_sync], ids=["aio", "sync"])

SYNC_FORK: Final = """
import os, sys
from tests.db.letters import Note
from txqueue.errors import ConfigurationError
from txqueue.sync import Queue

def session():
    with queue.transaction() as txn:
        return txn.execute("select pg_backend_pid()").fetchone()

queue = Queue.connect(sys.argv[1])
before = session()
with queue.transaction() as txn:
    if (child := os.fork()) == 0:
        try:
            txn.execute("select 1")
        except ConfigurationError as error:
            print(error.what, flush=True)
        os._exit(0)
    os.waitpid(child, 0)
    txn.execute("select 1")
if (child := os.fork()) == 0:
    for call in (session, lambda: queue.enqueue(Note()), lambda: queue.enqueue_many([Note()]),
                 lambda: queue.job(1), lambda: queue.wait(1), lambda: queue.cancel(1),
                 lambda: queue.retry(1)):
        try:
            call()
        except ConfigurationError as error:
            print(error.what, flush=True)
    queue.close()
    del queue
    sys.exit()
os.waitpid(child, 0)
print(session() == before)
queue.close()
"""

AIO_FORK: Final = """
import asyncio, os, sys
from tests.db.letters import Note
from txqueue.errors import ConfigurationError
from txqueue.aio import Queue

async def session(queue):
    async with queue.transaction() as txn:
        return await (await txn.execute("select pg_backend_pid()")).fetchone()

async def refused(queue):
    for call in (session(queue), queue.enqueue(Note()), queue.enqueue_many([Note()]),
                 queue.job(1), queue.wait(1), queue.cancel(1), queue.retry(1)):
        try:
            await call
        except ConfigurationError as error:
            print(error.what, flush=True)
    await queue.close()

async def main():
    queue = await Queue.connect(sys.argv[1])
    before = await session(queue)
    async with queue.transaction() as txn:
        if (child := os.fork()) == 0:
            try:
                await txn.enqueue(Note())
            except ConfigurationError as error:
                print(error.what, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        await txn.execute("select 1")
    if (child := os.fork()) == 0:
        await refused(queue)
        os._exit(0)
    os.waitpid(child, 0)
    print(await session(queue) == before)
    await queue.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("script", [SYNC_FORK, AIO_FORK], ids=["sync", "aio"])
def test_a_fork_may_not_use_the_queue_of_its_parent(emptied_database18: str, script: str) -> None:
    """Each call says so, also in a transaction; the child's end leaves the parent its session."""
    ended = subprocess.run(
        [sys.executable, "-c", script, emptied_database18],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEFAULT_LIMIT,
    )
    *refusals, is_same_session = ended.stdout.splitlines()
    assert is_same_session == "True", ended.stderr
    assert len(refusals) == 8
    assert all("connected before the fork, in process " in each for each in refusals)


LEFT: Final = """
import os, sys
from psycopg_pool import ConnectionPool
from tests.db.letters import Note
from txqueue.errors import ConfigurationError
from txqueue.sync import Queue

def fork_in(queue, leave):
    with queue.transaction() as txn:
        txn.enqueue(Note())
        if (child := os.fork()) == 0:
            leave()
            return
        status = os.waitpid(child, 0)[1]
        txn.enqueue(Note())
        print("parent", os.waitstatus_to_exitcode(status), flush=True)

def fork(queue, leave, leave_process=sys.exit):
    pid = os.getpid()
    try:
        fork_in(queue, leave)
    except BaseException as error:
        print(type(error).__name__, str(error)[:39], flush=True)
    if os.getpid() != pid:
        leave_process(3)

def fail():
    raise ValueError("of the child")

with Queue.connect(sys.argv[1]) as queue:
    for leave in (lambda: None, fail, sys.exit):
        fork(queue, leave)
with ConnectionPool(sys.argv[1]) as pool, Queue.connect(pool=pool) as queue:
    # The pool would close its connections in the child, too.
    fork(queue, lambda: None, os._exit)
    print(queue.job(8).id)
"""


def test_a_fork_that_leaves_the_transaction_does_not_end_it(emptied_database18: str) -> None:
    """However it leaves the block, the parent writes in it and commits."""
    ended = subprocess.run(
        [sys.executable, "-c", LEFT, emptied_database18],
        capture_output=True,
        text=True,
        check=False,
        timeout=DEFAULT_LIMIT,
    )
    assert [line.strip() for line in ended.stdout.splitlines()] == [
        *("ConfigurationError the queue was connected before the fork", "parent 3"),
        *("ValueError of the child", "parent 3"),
        *("SystemExit", "parent 3"),
        *("ConfigurationError the queue was connected before the fork", "parent 3", "8"),
    ], ended.stderr


def test_another_event_loop_may_not_use_the_queue(emptied_database18: str) -> None:
    """Each call says so; close() works, once the first loop is closed."""
    queue = in_loop(aio.Queue.connect(emptied_database18))

    async def test() -> None:
        calls: list[Callable[[], Any]] = [
            lambda: queue.transaction().__aenter__(),
            lambda: queue.enqueue(Note()),
            lambda: queue.enqueue_many([Note()]),
            lambda: queue.job(1),
            lambda: queue.wait(1),
            lambda: queue.cancel(1),
            lambda: queue.retry(1),
        ]
        for call in calls:
            with pytest.raises(ConfigurationError, match="connected in another event loop"):
                await call()

    in_loop(test())
    with master(emptied_database18) as node:
        assert sessions(node, "txqueue client") == 1
        in_loop(queue.close())
        in_loop(until(lambda: not sessions(node, "txqueue client")))


def test_a_loop_that_runs_closes_its_queue_itself(emptied_database18: str) -> None:
    """Another loop may not end the tasks of its waits."""

    async def test() -> None:
        async with opened_aio(emptied_database18) as queue:
            with pytest.raises(ConfigurationError, match="connected in another event loop"):
                await asyncio.to_thread(asyncio.run, queue.close())
            with pytest.raises(JobNotFound):
                await queue.job(1)

    in_loop(test())


def test_a_wait_ends_when_its_pool_is_closed(emptied_database18: str) -> None:
    """With an error that says so, as the pool will lend nothing any more."""
    dsn = emptied_database18

    async def test() -> None:
        pool = psycopg_pool.AsyncConnectionPool(dsn, min_size=1, open=False)
        await pool.open()
        async with opened_aio(pool=pool) as queue:
            await ended(queue, pool.close)
        blocking = psycopg_pool.ConnectionPool(dsn, min_size=1, open=True)
        async with opened_sync(pool=blocking) as queue:
            await ended(queue, lambda: asyncio.to_thread(blocking.close))

    async def ended(queue: Any, close: Callable[[], Any]) -> None:
        waiting = asyncio.create_task(queue.wait(await queue.enqueue(Note())))
        with master(dsn) as node:
            await until(lambda: sessions(node, "txqueue client listener"))
        await close()
        with pytest.raises(DatabaseUnavailable, match=r"the given pool lends nothing: .* closed"):
            await waiting
        with pytest.raises(DatabaseUnavailable, match="the given pool lends nothing"):
            await queue.enqueue(Note())

    in_loop(test())


def test_a_busy_pool_says_so(emptied_database18: str) -> None:
    """As the timeout is its own, that of the queue is refused."""

    async def test() -> None:
        async with psycopg_pool.AsyncConnectionPool(
            emptied_database18, min_size=1, max_size=1, timeout=0.05
        ) as pool:
            async with opened_aio(pool=pool) as queue, pool.connection():
                with pytest.raises(DatabaseUnavailable, match="the given pool has lent no conn"):
                    await queue.enqueue(Note())
            with pytest.raises(ConfigurationError, match="no effect on a pool of your own"):
                await opened_aio(pool=pool, connection_wait=1).__aenter__()

    in_loop(test())


@pytest.mark.parametrize("dsn", [None, "host=/nowhere"])
def test_a_wrong_pool_is_refused(dsn: str | None) -> None:
    """One of the other kind, none at all, and a DSN beside the right one."""
    blocking = psycopg_pool.ConnectionPool("host=/nowhere", open=False)
    waiting = psycopg_pool.AsyncConnectionPool("host=/nowhere", open=False)
    right = {opened_aio: waiting, opened_sync: blocking}
    for opened, pool in ((opened_aio, blocking), (opened_sync, waiting), (opened_aio, 5)):
        with pytest.raises(ConfigurationError, match=r"the given pool is .*; pass an open "):
            in_loop(opened(dsn, pool=pool).__aenter__())
        if dsn is not None:
            with pytest.raises(ConfigurationError, match="the DSN has no effect on a pool"):
                in_loop(opened(dsn, pool=right[opened]).__aenter__())


@both
@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "many"])
def test_a_wrong_number_of_connections_is_refused(opened: Opened, wrong: Any) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigurationError, match="connections is "):
        in_loop(opened("host=/nowhere", connections=wrong).__aenter__())


@both
@pytest.mark.parametrize("wrong", ["secret nonsense", 7])
def test_a_wrong_listen_dsn_is_refused(opened: Opened, wrong: Any) -> None:
    """Before anything is opened, and without showing it."""
    with pytest.raises(ConfigurationError, match="listen_dsn is not valid") as caught:
        in_loop(opened("host=/nowhere", listen_dsn=wrong).__aenter__())
    assert "secret" not in str(caught.value)


@both
def test_waits_that_cannot_listen_warn_once(
    emptied_database18: str, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    """That they look for ends instead; further attempts are logged below."""
    caplog.set_level(logging.INFO)

    def said() -> list[int]:
        texts = "looking for the ends of jobs every 0.5 s, as listening for them fails: "
        return [each.levelno for each in caplog.records if texts in each.getMessage()]

    async def test() -> None:
        async with opened(emptied_database18, listen_dsn="host=/nowhere") as queue:
            waiting = asyncio.create_task(queue.wait(await queue.enqueue(Note())))
            await until(lambda: len(said()) > 1)
            waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)

    in_loop(test())
    assert said()[:2] == [logging.WARNING, logging.INFO]

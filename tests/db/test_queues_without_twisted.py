"""`txqueue.aio.Queue` and `txqueue.sync.Queue`: one set of tests for both, the second in threads.

How they enqueue, what their transactions do and what they refuse is tested with the adapters.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, suppress
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import psycopg2
import psycopg_pool
import pytest
from psycopg.errors import ReadOnlySqlTransaction
from psycopg2.extensions import make_dsn

from tests.db.letters import FAR, Note
from tests.db.masters import Master, master
from tests.waiting import DEFAULT_LIMIT
from txqueue import State, aio, sync
from txqueue.errors import (
    ConfigurationError,
    DatabaseUnavailable,
    InvalidWork,
    JobFailed,
    JobNotFound,
    NotPermitted,
    Refused,
    SchemaMismatch,
    TransactionMisused,
    WaitTimeout,
)
from txqueue.store.schema.migrations import migrate
from txqueue_torture.server import Server, dsn_of, pgbouncer, short_folder, standby_of

T = TypeVar("T")
Opened = Callable[..., AbstractAsyncContextManager[Any]]

SESSIONS: Final = """
    select count(*) from pg_stat_activity
     where application_name = %s and datname = current_database()
"""


LISTENS: Final = """
    select count(*) from pg_stat_activity
     where application_name = 'txqueue client listener' and state = 'idle' and query ~ '^listen'
       and datname = current_database()
"""


class InThreads:
    """The queue for threads, or its transaction, with the methods of that for asyncio."""

    def __init__(self, queue: Any) -> None:
        self._queue = queue

    def __getattr__(self, name: str) -> Callable[..., Coroutine[Any, Any, Any]]:
        method = getattr(self._queue, name)
        return lambda *values, **options: asyncio.to_thread(method, *values, **options)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Open a transaction, with the methods of that for asyncio."""
        block = self._queue.transaction()
        txn = await asyncio.to_thread(block.__enter__)
        try:
            yield InThreads(txn)
        except BaseException as error:
            await asyncio.to_thread(block.__exit__, type(error), error, None)
            raise
        await asyncio.to_thread(block.__exit__, None, None, None)


@asynccontextmanager
async def opened_aio(dsn: str | None = None, **options: Any) -> AsyncIterator[Any]:
    """Open the queue for asyncio."""
    async with await aio.Queue.connect(dsn, **options) as queue:
        yield queue


@asynccontextmanager
async def opened_sync(dsn: str | None = None, **options: Any) -> AsyncIterator[Any]:
    """Open the queue for threads."""
    queue = await asyncio.to_thread(lambda: sync.Queue.connect(dsn, **options))
    try:
        yield InThreads(queue)
    finally:
        await asyncio.to_thread(queue.close)


def in_loop(test: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in an event loop of its own, beside that of the reactor."""

    async def bounded() -> T:
        with ThreadPoolExecutor(300) as threads:
            asyncio.get_running_loop().set_default_executor(threads)
            async with asyncio.timeout(DEFAULT_LIMIT):
                return await test

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(asyncio.run, bounded()).result()


async def until(condition: Callable[[], Any]) -> Any:
    """Wait until a condition holds, in a thread, as the loop goes on; return its value."""
    async with asyncio.timeout(DEFAULT_LIMIT):
        while not (value := await asyncio.to_thread(condition)):
            await asyncio.sleep(0.01)
    return value


@pytest.fixture
def dsn(shop_database: str) -> str:
    """The DSN of a database of this module with the schema and no row in it."""
    return shop_database


@pytest.fixture(params=["aio", "sync"])
def opened(request: pytest.FixtureRequest) -> Opened:
    """Opens each queue in turn."""
    return {"aio": opened_aio, "sync": opened_sync}[request.param]


def sessions(node: Master, name: str) -> int:
    """Count the sessions of an application's name."""
    return int(node.value(SESSIONS, name))


async def listening(node: Master) -> None:
    """Wait until the queue listens for the ends of jobs."""
    await until(lambda: node.value(LISTENS))


def complete(node: Master, result: object = None) -> None:
    """Claim all jobs, and complete them."""
    for chunk in node.claim():
        if result is None:
            node.complete(chunk)
        else:
            node.settle(chunk, "done", result=result)


def test_a_wait_returns_when_the_job_ends(dsn: str, node: Master, opened: Opened) -> None:
    """With the handler's result; one that has ended before is not waited for."""

    async def test() -> None:
        async with opened(dsn) as queue:
            (job_id,) = node.enqueue({})
            waiting = asyncio.create_task(queue.wait(job_id, timeout=30))
            await listening(node)
            complete(node, {"mailed": 7})
            assert await waiting == {"mailed": 7}
            assert await queue.wait(job_id, timeout=0) == {"mailed": 7}
            assert (await queue.job(str(job_id))).state is State.DONE

    in_loop(test())


def test_what_cannot_be_awaited_is_an_error(dsn: str, node: Master, opened: Opened) -> None:
    """Of the same class as that of the queue with Twisted."""

    async def test() -> None:
        async with opened(dsn) as queue:
            failing, pending = node.enqueue({}), node.enqueue({"not_before": FAR.isoformat()})
            [chunk] = node.claim()
            node.settle(chunk, "failed", error="ValueError: no\nTraceback")
            with pytest.raises(JobFailed, match=f"job {failing[0]} is failed: ValueError: no$"):
                await queue.wait(failing[0])
            assert len((await queue.job(failing[0])).attempts) == 1
            with pytest.raises(WaitTimeout, match=r"did not end within 0\.01 s"):
                await queue.wait(pending[0], timeout=0.01)
            with pytest.raises(WaitTimeout, match=r"did not end within 0 s"):
                await queue.wait(pending[0], timeout=-3)
            with pytest.raises(JobNotFound, match="there is no job 77"):
                await queue.wait(77)
            waiting = asyncio.create_task(queue.wait(pending[0], timeout=30))
            await listening(node)
            node.value("select txqueue.delete_jobs(%s, 'test')", list(pending))
            with pytest.raises(JobNotFound):
                await waiting
            for wrong in ("seven", True, 2**63):
                for call in (queue.job, queue.wait, queue.cancel, queue.retry):
                    with pytest.raises(InvalidWork, match="is not the number of a job"):
                        await call(wrong)

    in_loop(test())


def test_jobs_are_cancelled_and_retried(dsn: str, node: Master, opened: Opened) -> None:
    """A running one is left to its node; a caller that waits for another returns at once."""

    async def test() -> None:
        async with opened(dsn) as queue:
            (running,) = node.enqueue({})
            node.claim()
            (pending,) = node.enqueue({})
            waiting = asyncio.create_task(queue.wait(pending, timeout=30))
            await listening(node)
            answer = await queue.cancel(running, pending, 77)
            assert (answer.cancelled, answer.requested, answer.refused) == (
                [pending],
                [running],
                [77],
            )
            with pytest.raises(JobFailed, match="is cancelled: cancelled by"):
                await waiting
            assert await queue.retry(pending, 77) == ([pending], [77])
            assert (await queue.job(pending)).state is State.READY

    in_loop(test())


@pytest.mark.parametrize(("opened", "callers"), [(opened_aio, 1000), (opened_sync, 200)])
def test_all_callers_share_one_connection(
    dsn: str, node: Master, opened: Opened, callers: int
) -> None:
    """However many wait, one session listens, and the others are those that read."""

    async def test() -> None:
        async with opened(dsn) as queue:
            ids = node.enqueue(*[{}] * callers)
            waiting = [asyncio.create_task(queue.wait(job_id, timeout=50)) for job_id in ids]
            await listening(node)
            complete(node)
            assert await asyncio.gather(*waiting) == [None] * callers
            assert sessions(node, "txqueue client listener") == 1
            assert sessions(node, "txqueue client") <= 4
        await until(lambda: sessions(node, "txqueue client listener") == 0)
        await until(lambda: sessions(node, "txqueue client") == 0)

    in_loop(test())


def test_a_closed_queue_ends_the_waits(dsn: str, node: Master, opened: Opened) -> None:
    """And takes no more calls."""

    async def test() -> None:
        (job_id,) = node.enqueue({})
        async with opened(dsn) as queue:
            waiting = asyncio.create_task(queue.wait(job_id))
            await listening(node)
        with pytest.raises(DatabaseUnavailable, match=f"closed before job {job_id} ended"):
            await waiting
        for call in (queue.wait, queue.job):
            with pytest.raises(DatabaseUnavailable, match=r"the queue (is|was) closed"):
                await call(job_id)
        assert not [each for each in threading.enumerate() if each.name == "txqueue ends"]

    in_loop(test())


def test_a_queue_is_closed_although_its_task_is_cancelled_again(dsn: str, node: Master) -> None:
    """None of its sessions stays."""

    async def test() -> None:
        queue = await aio.Queue.connect(dsn)
        (job_id,) = node.enqueue({})
        waiting = asyncio.create_task(queue.wait(job_id))
        await listening(node)
        closing = asyncio.create_task(queue.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        with pytest.raises(DatabaseUnavailable, match="closed before"):
            await waiting
        await until(lambda: sessions(node, "txqueue client listener") == 0)
        await until(lambda: sessions(node, "txqueue client") == 0)

    in_loop(test())


def test_a_cancelled_wait_leaves_the_others(dsn: str, node: Master) -> None:
    """Also while it reads the job; the connection is used again."""

    async def test() -> None:
        async with opened_aio(dsn, connections=1) as queue:
            (job_id,) = node.enqueue({})
            waits = [asyncio.create_task(queue.wait(job_id)) for _ in range(3)]
            await asyncio.sleep(0)
            waits[0].cancel()
            await listening(node)
            waits[1].cancel()
            complete(node)
            assert await waits[2] is None
            for cancelled in waits[:2]:
                with pytest.raises(asyncio.CancelledError):
                    await cancelled
            async with asyncio.timeout(30):
                await queue.enqueue(Note())

    in_loop(test())


def test_an_end_that_no_node_announces_is_found(dsn: str, node: Master, opened: Opened) -> None:
    """By the look at all awaited jobs."""

    async def test() -> None:
        async with opened(dsn) as queue:
            (job_id,) = node.enqueue({})
            waiting = asyncio.create_task(queue.wait(job_id, timeout=30))
            await listening(node)
            node.value("select setval('txqueue.awaited', 1)")
            complete(node)
            assert await waiting is None

    in_loop(test())


def test_a_thread_is_started_by_the_first_wait(dsn: str, node: Master) -> None:
    """One for all, whatever the threads of the callers; none for a job that has ended."""

    def ends() -> list[str]:
        return [each.name for each in threading.enumerate() if each.name == "txqueue ends"]

    with sync.Queue.connect(dsn) as queue, ThreadPoolExecutor(8) as threads:
        many = list(threads.map(lambda _: queue.enqueue_many([Note()] * 10), range(40)))
        assert len({each for ids in many for each in ids}) == 400
        ended, *ids = node.enqueue(*[{}] * 9)
        for chunk in node.claim(1):
            node.complete(chunk)
        assert queue.wait(ended) is None
        assert ends() == []
        waits = [threads.submit(queue.wait, each, 30) for each in ids]
        in_loop(until(ends))
        complete(node)
        assert [each.result() for each in waits] == [None] * 8
        assert ends() == ["txqueue ends"]


def test_a_busy_queue_says_so(dsn: str, opened: Opened) -> None:
    """Once a caller has waited for a connection for as long as it may."""

    async def test() -> None:
        async with opened(dsn, connections=1, connection_wait=0.05) as queue:
            with closing(psycopg2.connect(dsn)) as other, other.cursor() as cursor:
                cursor.execute("lock table txqueue.job")
                reading = asyncio.create_task(queue.job(1))
                await until(lambda: blocked(dsn))
                with pytest.raises(DatabaseUnavailable, match=r"within 0\.05 s: all 1 are in use"):
                    await queue.enqueue(Note())
            with pytest.raises(JobNotFound):
                await reading

    in_loop(test())


def blocked(dsn: str) -> bool:
    """Tell whether a session waits for a lock."""
    with closing(psycopg2.connect(dsn)) as session, session.cursor() as cursor:
        cursor.execute("select count(*) > 0 from pg_locks where not granted")
        [is_blocked] = cursor.fetchone() or (False,)
    return bool(is_blocked)


def test_moments_are_read_whatever_the_session_says(dsn: str, node: Master, opened: Opened) -> None:
    """Infinity is the last moment of Python; the style of dates makes no difference."""

    async def test() -> None:
        strange = make_dsn(dsn, options="-c datestyle=German -c timezone=Asia/Kolkata")
        async with opened(strange) as queue:
            (job_id,) = node.enqueue({"not_before": "2030-01-02T03:04:05.678Z"})
            node.cursor.execute(
                "update txqueue.job set rank = 'infinity' where job_id = %s", (job_id,)
            )
            job = await queue.job(job_id)
            assert job.not_before == datetime(2030, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
            assert job.rank == datetime.max.replace(tzinfo=UTC)

    in_loop(test())


def test_roles_may_do_what_they_are_for(dsn: str, node: Master, opened: Opened) -> None:
    """One that only enqueues may neither read nor cancel; one that only reads waits as well."""

    async def test() -> None:
        (job_id,) = node.enqueue({})
        async with opened(make_dsn(dsn, options="-c role=txqueue_enqueue")) as queue:
            await queue.enqueue(Note())
            for call in (queue.job, queue.wait, queue.cancel, queue.retry):
                with pytest.raises(NotPermitted, match="grant its role what it lacks"):
                    await call(job_id)
        async with opened(make_dsn(dsn, options="-c role=txqueue_read")) as queue:
            with pytest.raises(WaitTimeout):
                await queue.wait(job_id, timeout=0.05)
            waiting = asyncio.create_task(queue.wait(job_id, timeout=30))
            complete(node)
            assert await waiting is None
            with pytest.raises(NotPermitted):
                await queue.enqueue(Note())

    in_loop(test())


def test_a_wrong_address_is_an_error_at_once(dsn: str, opened: Opened) -> None:
    """Each says what is wrong; secrets are not shown."""

    async def test() -> None:
        with pytest.raises(ConfigurationError, match="the DSN is not valid") as caught:
            await opened("host=/nowhere secret").__aenter__()
        assert "secret" not in str(caught.value)
        with pytest.raises(DatabaseUnavailable, match="does not answer"):
            await opened("host=/nowhere").__aenter__()
        with pytest.raises(SchemaMismatch, match="run: txqueue migrate"):
            await opened(dsn, schema="other").__aenter__()
        async with opened(make_dsn(dsn, host=f"/nowhere,{node_host(dsn)}")) as queue:
            assert await queue.enqueue(Note())

    in_loop(test())


def node_host(dsn: str) -> str:
    """Return the host of a DSN."""
    return str(psycopg2.extensions.parse_dsn(dsn)["host"])


def test_a_dsn_is_looked_up(dsn: str, opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for the queue with Twisted."""
    monkeypatch.setenv("TXQUEUE_DSN", dsn)

    async def test() -> None:
        async with opened() as queue:
            assert await queue.enqueue(Note())

    in_loop(test())


@pytest.mark.parametrize(("statement", "said"), [("select 1", ""), ("commit", "is kept")])
def test_an_error_after_a_bare_commit_says_what_is_kept(
    dsn: str, opened: Opened, statement: str, said: str
) -> None:
    """Its block rolls nothing back any more; an error in an open transaction has no such note."""

    async def failing(queue: Any) -> None:
        async with queue.transaction() as txn:
            await txn.execute(statement)
            raise KeyError

    async def test() -> None:
        async with opened(dsn) as queue:
            with pytest.raises(KeyError) as caught:
                await failing(queue)
        notes = getattr(caught.value, "__notes__", [])
        assert [said in note for note in notes] == [True] * bool(said)

    in_loop(test())


def test_a_job_that_is_not_committed_is_named_as_such(dsn: str) -> None:
    """It begins after the commit, so a wait inside of the block could never end."""

    async def test() -> None:
        async with opened_aio(dsn) as queue:
            async with queue.transaction() as txn:
                job_id = await txn.enqueue(Note())
                with pytest.raises(JobNotFound, match="has not committed"):
                    await queue.wait(job_id)
            assert (await queue.job(job_id)).id == job_id
            with pytest.raises(TransactionMisused, match="has ended"):
                await txn.enqueue(Note())
            with pytest.raises(TransactionMisused, match="a statement ended the transaction"):
                await committed_inside(queue)

    async def committed_inside(queue: aio.Queue) -> None:
        async with queue.transaction() as txn:
            await txn.execute("commit")

    in_loop(test())


POOLS: Final = [{}, {"autocommit": True, "prepare_threshold": None}]


@pytest.mark.parametrize("kwargs", POOLS, ids=["plain", "autocommit"])
def test_a_pool_of_the_caller_is_used(dsn: str, node: Master, kwargs: dict[str, Any]) -> None:
    """For all but listening, which happens where the pool connects; it stays open."""

    async def test() -> None:
        async with psycopg_pool.AsyncConnectionPool(
            dsn, min_size=1, max_size=2, kwargs=kwargs
        ) as pool:
            async with opened_aio(pool=pool) as queue:
                await works(queue, node)
            assert not pool.closed
        with psycopg_pool.ConnectionPool(dsn, min_size=1, max_size=2, kwargs=kwargs) as blocking:
            async with opened_sync(pool=blocking) as queue:
                await works(queue, node)
            assert not blocking.closed

    in_loop(test())


async def works(queue: Any, node: Master) -> None:
    """Enqueue, and wait for a job."""
    assert len(await queue.enqueue_many([Note()] * 1100)) == 1100
    assert (await queue.job(await queue.enqueue(Note()))).work_type == "enqueue.note"
    (job_id,) = node.enqueue({})
    waiting = asyncio.create_task(queue.wait(job_id, timeout=30))
    await listening(node)
    complete(node)
    assert await waiting is None
    assert sessions(node, "txqueue client") == 0


@pytest.fixture
def own_server() -> Iterator[Server]:
    """A server with the schema that may be restarted."""
    with short_folder() as folder, Server(folder / "pg") as server:
        migrate(server.dsn)
        yield server


def test_a_wait_outlasts_a_restart_of_the_server(own_server: Server) -> None:
    """No call after it fails because of a connection from before."""

    async def test(opened: Opened) -> None:
        async with opened(own_server.dsn, connections=1) as queue:
            with master(own_server.dsn) as node:
                (job_id,) = node.enqueue({})
                waiting = asyncio.create_task(queue.wait(job_id, timeout=50))
                await listening(node)
                # The only connection serves one after the other: the wait has read its job.
                await queue.job(job_id)
            await asyncio.to_thread(own_server.stop)
            with pytest.raises(DatabaseUnavailable):
                await queue.enqueue(Note())
            await asyncio.to_thread(own_server.start)
            for _ in range(3):
                await queue.enqueue(Note())
            with master(own_server.dsn) as node:
                await until(lambda: sessions(node, "txqueue client listener") == 1)
                complete(node)
                assert await waiting is None

    in_loop(test(opened_aio))
    in_loop(test(opened_sync))


def test_a_wait_outlasts_a_switch_to_another_server(own_server: Server) -> None:
    """The DSN names both; the old primary never comes back."""

    async def test(dsn: str, standby: Server, job_ids: list[int]) -> None:
        async with opened_aio(dsn, connections=1) as one, opened_sync(dsn, connections=1) as other:
            queues = (one, other)
            waits = [
                asyncio.create_task(queue.wait(job_id, timeout=50))
                for queue, job_id in zip(queues, job_ids, strict=True)
            ]
            with master(own_server.dsn) as node:
                await until(lambda: node.value(LISTENS) == 2)
            for queue, job_id in zip(queues, job_ids, strict=True):
                await queue.job(job_id)
            await asyncio.to_thread(own_server.kill)
            with standby.session() as session:
                session.rows("select pg_promote()")
            for queue in queues:
                assert await queue.enqueue(Note())
            with master(standby.dsn, "node") as node:
                complete(node)
            assert await asyncio.gather(*waits) == [None, None]

    with master(own_server.dsn) as node:
        job_ids = node.enqueue({}, {})
    with short_folder() as folder, standby_of(own_server, folder / "b") as standby:
        both = dsn_of(own_server.address, standby.address, attributes="read-write")
        in_loop(test(both, standby, job_ids))


def test_behind_a_pooler_the_listener_has_an_address_of_its_own(own_server: Server) -> None:
    """Without it the queue looks for ends, and leaves no channel in the pooled session."""

    async def test(opened: Opened, pooled: str, **options: Any) -> None:
        async with opened(pooled, **options) as queue:
            with master(own_server.dsn) as node:
                for _ in range(7):
                    await queue.enqueue(Note())
                (job_id,) = node.enqueue({})
                waiting = asyncio.create_task(queue.wait(job_id, timeout=30))
                if options:
                    await listening(node)
                else:
                    await asyncio.sleep(0)
                complete(node)
                assert await waiting is None

    with (
        short_folder() as folder,
        pgbouncer(own_server, folder / "pb", "transaction", size=1) as address,
    ):
        pooled = dsn_of(address)
        for opened in (opened_aio, opened_sync):
            in_loop(test(opened, pooled, listen_dsn=own_server.dsn))
            in_loop(test(opened, pooled))
            with closing(psycopg2.connect(pooled)) as client, client.cursor() as cursor:
                cursor.execute("select pg_listening_channels()")
                assert cursor.fetchall() == [], opened


ENDINGS: Final[dict[str, Callable[[Any], Any]]] = {
    "execute": lambda txn: txn.execute("select 1"),
    "enqueue": lambda txn: txn.enqueue(Note()),
    "enqueue_many": lambda txn: txn.enqueue_many([Note()]),
    "signal": lambda txn: txn.signal(1, "a"),
    "commit": lambda _: None,
}


@pytest.mark.parametrize("call", ENDINGS)
def test_a_session_that_was_idle_too_long_is_unavailable(
    dsn: str, node: Master, opened: Opened, call: str
) -> None:
    """As one that was terminated: the drivers have an error of another kind for its code."""

    async def test() -> None:
        async with opened(dsn, connections=1) as queue:
            with pytest.raises(DatabaseUnavailable):
                await ended(queue)
            await queue.enqueue(Note())

    async def ended(queue: Any) -> None:
        async with queue.transaction() as txn:
            await txn.execute("set idle_in_transaction_session_timeout = 1")
            await until(lambda: sessions(node, "txqueue client") == 0)
            if (calling := ENDINGS[call](txn)) is not None:
                await calling

    in_loop(test())


def test_a_server_without_writes_is_unavailable(dsn: str, opened: Opened) -> None:
    """A standby, or one that is read-only by default: the same error from each call."""
    read_only = make_dsn(dsn, options="-c default_transaction_read_only=on")

    async def test() -> None:
        async with opened(read_only) as queue:
            for call in (
                lambda: queue.enqueue(Note()),
                lambda: queue.enqueue_many([Note()]),
                lambda: queue.cancel(1),
                lambda: queue.retry(1),
            ):
                with pytest.raises(DatabaseUnavailable, match="target_session_attrs=read-write"):
                    await call()

    in_loop(test())


@pytest.fixture
def writable_again(node: Master) -> Iterator[Callable[[], None]]:
    """New sessions accept no writes until this is called."""
    setting = f"{node.value('select current_database()')} {{}} default_transaction_read_only"

    def reset() -> None:
        node.cursor.execute(f"alter database {setting.format('reset')}")

    node.cursor.execute(f"alter database {setting.format('set')} = on")
    yield reset
    reset()


@asynccontextmanager
async def opened_over_pool(dsn: str, **_: Any) -> AsyncIterator[Any]:
    """Open the queue for asyncio over a pool of the caller's."""
    async with (
        psycopg_pool.AsyncConnectionPool(dsn, min_size=1, max_size=1) as pool,
        opened_aio(pool=pool) as queue,
    ):
        yield queue


@asynccontextmanager
async def opened_over_blocking_pool(dsn: str, **_: Any) -> AsyncIterator[Any]:
    """Open the queue for threads over a pool of the caller's."""
    with psycopg_pool.ConnectionPool(dsn, min_size=1, max_size=1) as pool:
        async with opened_sync(pool=pool) as queue:
            yield queue


# How many calls may fail after the window: a pool of the caller's opens the next session as soon as
# it has discarded one, which may be before the window ends.
OPENED: Final = [
    (opened_aio, 0),
    (opened_sync, 0),
    (opened_over_pool, 1),
    (opened_over_blocking_pool, 1),
]


@pytest.mark.parametrize(("opened", "failing"), OPENED)
def test_a_session_of_a_read_only_window_is_replaced(
    dsn: str, writable_again: Callable[[], None], opened: Opened, failing: int
) -> None:
    """By the next call, as its server may have been a standby."""

    async def test() -> None:
        async with opened(dsn, connections=1) as queue:
            with pytest.raises(DatabaseUnavailable, match="no writes"):
                await queue.enqueue(Note())
            writable_again()
            for _ in range(failing):
                with suppress(DatabaseUnavailable):
                    await queue.enqueue(Note())
            await queue.enqueue(Note())

    in_loop(test())


def test_a_session_whose_transaction_was_refused_is_replaced(
    dsn: str, writable_again: Callable[[], None]
) -> None:
    """Also where the application has swallowed the error."""

    async def test() -> None:
        async with opened_aio(dsn, connections=1) as queue:
            with pytest.raises(Refused, match="had failed"):
                await swallowing(queue)
            writable_again()
            await queue.enqueue(Note())

    async def swallowing(queue: aio.Queue) -> None:
        async with queue.transaction() as txn:
            with pytest.raises(DatabaseUnavailable):
                await txn.enqueue(Note())

    in_loop(test())


def test_a_lost_transaction_is_an_error_although_its_error_was_swallowed(
    dsn: str, opened: Opened
) -> None:
    """What was enqueued in it is gone."""

    async def test() -> None:
        async with opened(dsn) as queue:
            with pytest.raises(DatabaseUnavailable, match="was lost in the transaction"):
                await swallowing(queue)

    async def swallowing(queue: Any) -> None:
        async with queue.transaction() as txn:
            await txn.enqueue(Note())
            with pytest.raises(DatabaseUnavailable):
                await txn.execute("select pg_terminate_backend(pg_backend_pid())")

    in_loop(test())


@pytest.mark.parametrize("is_standby", [True, False])
def test_a_statement_of_the_application_keeps_its_error(dsn: str, *, is_standby: bool) -> None:
    """Unless it is the server that takes no writes; txqueue's own calls have one error for both."""
    address = make_dsn(dsn, options="-c default_transaction_read_only=on") if is_standby else dsn
    expected = DatabaseUnavailable if is_standby else ReadOnlySqlTransaction
    with sync.Queue.connect(address) as queue:
        with pytest.raises(expected), queue.transaction() as txn:
            txn.execute("set transaction read only; create table written ()")
        with pytest.raises(DatabaseUnavailable, match="accepts no writes"):
            enqueued_in_vain(queue)


def enqueued_in_vain(queue: sync.Queue) -> None:
    """Enqueue in a transaction that is read-only."""
    with queue.transaction() as txn:
        txn.execute("set transaction read only")
        txn.enqueue(Note())

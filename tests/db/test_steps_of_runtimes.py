"""Steps in each runtime: in threads by calls that block, and in tasks of asyncio's."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.threadpool import ThreadPool

from tests.db.masters import Master
from tests.db.tagged_work import Tagged
from tests.unit.worker.handlers.test_runtimes import begun_with
from tests.waiting import running_reactor
from txqueue import Retry, RunningJob, Runtime, Task, ThreadJob, task
from txqueue.errors import InvalidWork
from txqueue.model.assignment import AssignedJob, Assignment
from txqueue.policy.endings.outcome import is_suspension
from txqueue.worker.handlers.job_transaction import OwnTransactions
from txqueue.worker.handlers.running_job import HeldAssignment, begun
from txqueue.worker.handlers.threads import HandlerThreads


def twice(number: int) -> tuple[int, ...]:
    """Return a number twice."""
    return number, number


@task(name="test.twice_in_thread", runtime=Runtime.THREAD)
def twice_in_thread(job: ThreadJob, number: int) -> tuple[int, ...]:
    """Wait for a signal, after a step."""
    numbers = job.step("twice", twice, number)
    return *numbers, job.wait_for("third")


@task(name="test.twice_in_twisted")
async def twice_in_twisted(job: RunningJob, number: int) -> tuple[int, ...]:
    """The same."""
    numbers = await job.step("twice", twice, number)
    return *numbers, await job.wait_for("third")


@task(name="test.twice_in_asyncio", runtime=Runtime.ASYNCIO)
async def twice_in_asyncio(job: RunningJob, number: int) -> tuple[int, ...]:
    """The same."""
    numbers = await job.step("twice", twice, number)
    await asyncio.sleep(0)
    return *numbers, await job.wait_for("third")


@define
class World:
    """A job of which each call of `run` is one more run."""

    node: Master
    transactions: OwnTransactions
    threads: HandlerThreads
    assigned: AssignedJob
    held: HeldAssignment
    job: RunningJob = None  # type: ignore[assignment]  # set by the first run

    def run(self, handler: Callable[[Any, Any], Any], runtime: Runtime) -> Deferred[Any]:
        """Perform the job."""
        self.job = begun(self.assigned, self.held, self.transactions.open)
        self.assigned = AssignedJob(self.job.id, Tagged.work_type, 1, 1, {}, {"steps": True})
        ending: Deferred[Any] = begun_with(handler, self.job, runtime, self.threads)
        return ending

    async def suspended(self, handler: Callable[[Any, Any], Any], runtime: Runtime) -> list[str]:
        """Perform the job, which ends at waits; return their names."""
        with pytest.raises(BaseException, check=is_suspension):  # noqa: B017  # which groups too
            await self.run(handler, runtime)
        return [wait["name"] for wait in self.job.waits]

    def steps(self) -> list[str]:
        """The names of the steps that are done."""
        return self.node.column("select name from txqueue.job_step order by number")


@pytest.fixture
def threads() -> Iterator[HandlerThreads]:
    """Threads of the test's own."""
    pool = ThreadPool(0, 2)
    pool.start()
    yield HandlerThreads(running_reactor(), pool, most=2)
    pool.stop()


@pytest.fixture
def it(node: Master, dsn: str, threads: HandlerThreads) -> Iterator[World]:
    """A job that a worker holds."""
    transactions = OwnTransactions(running_reactor(), dsn, "txqueue", "test")
    node.cursor.execute("create table app (number int)")
    node.enqueue({})
    (chunk,) = node.claim()
    told = Assignment(node.incarnation, chunk.assignment, chunk.lane, 1, 1, "")
    held = HeldAssignment(told, transactions.steps)
    yield World(node, transactions, threads, chunk.jobs[0], held)
    transactions.close()


async def test_a_function_in_a_thread_has_steps(node: Master, it: World) -> None:
    """Each runs in the handler's own thread, once; a later run gets what it returned."""
    where: list[threading.Thread] = []

    def charge(amount: int) -> tuple[int, ...]:
        where.append(threading.current_thread())
        return (amount,)

    def perform(_: object, job: ThreadJob) -> Any:
        charged = job.step("charge", charge, 7)
        with job.step_transaction("book") as step:
            if not step.is_done:
                step.txn.execute("insert into app values (%s)", (charged[0],))
                step.result = "booked"
        pages = list(job.cursor("pages", start=1)) if step.result is None else []
        for page in (cursor := job.cursor("pages", start=1)):
            pages.append(page)
            if page == 3:
                cursor.following = None
        job.sleep("no time", 0)
        return threading.current_thread() in where, charged, step.result, pages

    assert await it.run(perform, Runtime.THREAD) == (True, (7,), "booked", [1, 2, 3])
    assert threading.main_thread() not in where
    again = await it.run(perform, Runtime.THREAD)
    assert again[1:] == ((7,), "booked", [])
    assert len(where) == 1
    assert node.column("select number from app") == [7]


async def test_a_wait_ends_a_function_in_a_thread(node: Master, it: World) -> None:
    """No `except Exception` holds it up, and the run after the signal gets its value."""

    def perform(_: object, job: ThreadJob) -> Any:
        with suppress(Exception):
            return job.wait_for("approved")
        return "swallowed"

    assert await it.suspended(perform, Runtime.THREAD) == ["approved"]
    node.value("select txqueue.signal(%s, 'approved', '7')", it.job.id)
    assert await it.run(perform, Runtime.THREAD) == 7


async def test_threads_of_one_function_share_its_steps(node: Master, it: World) -> None:
    """Each calls the function of its own step; a wait of one lets the steps of others end."""
    both = threading.Barrier(2, timeout=30)
    where: dict[int, threading.Thread] = {}

    def number(n: int) -> int:
        both.wait()
        where[n] = threading.current_thread()
        return n

    def perform(_: object, job: ThreadJob) -> Any:
        with ThreadPoolExecutor(3) as pool:
            calls = [pool.submit(job.step, f"step {n}", number, n) for n in range(2)]
            nap = pool.submit(job.sleep, "nap", 60)
        return [call.result() for call in calls], nap.result()

    assert await it.suspended(perform, Runtime.THREAD) == ["nap"]
    assert sorted(it.steps()) == ["step 0", "step 1"]
    assert len({*where.values()}) == 2


async def test_a_step_in_a_thread_is_tried_again_in_place(node: Master, it: World) -> None:
    """As often as its policy says, in the handler's thread."""
    tries: list[threading.Thread] = []

    def fails(times: int) -> int:
        tries.append(threading.current_thread())
        if len(tries) <= times:
            raise ValueError("no")
        return times

    def perform(_: object, job: ThreadJob) -> Any:
        assert job.step("fails twice", fails, times=2, retry=Retry(3, first=0.0)) == 2
        with pytest.raises(ValueError, match="no"):
            job.step("fails", fails, 9, retry=Retry(2, first=0.0))
        return threading.current_thread()

    thread = await it.run(perform, Runtime.THREAD)
    assert tries == [thread] * 5
    assert it.steps() == ["fails twice"]


async def test_a_step_in_a_thread_calls_no_coroutine(node: Master, it: World) -> None:
    """The error says what to do, before anything is written."""

    async def late() -> None:
        raise AssertionError

    def perform(_: object, job: ThreadJob) -> Any:
        return job.step("late", late)

    with pytest.raises(InvalidWork, match="pass a plain function"):
        await it.run(perform, Runtime.THREAD)


async def test_a_task_of_asyncios_has_transactions(node: Master, it: World) -> None:
    """Of steps and its own, with more jobs than go into one message, awaited as they are."""

    async def book(job: RunningJob, n: int) -> None:
        async with job.step_transaction(f"book {n}") as step:
            if not step.is_done:
                await step.txn.execute("insert into app values (%s)", (n,))
                await step.txn.signal(job.id, f"booked {n}", n)

    async def perform(_: object, job: RunningJob) -> int:
        await asyncio.gather(*(book(job, n) for n in range(3)))
        booked = [await job.wait_for(f"booked {n}") for n in range(3)]
        async with job.transaction() as txn:
            await txn.execute("insert into app values (%s)", (sum(booked) + 4,))
            ids = await txn.enqueue_many(Tagged("a") for _ in range(2_001))
        return len(ids)

    assert await it.run(perform, Runtime.ASYNCIO) == 2_001
    assert node.column("select number from app order by 1") == [0, 1, 2, 7]
    assert node.value("select state::text from txqueue.job where job_id = %s", it.job.id) == (
        "done"
    )


async def test_a_task_of_asyncios_rolls_back(node: Master, it: World) -> None:
    """By an error, and when it is cancelled during a statement."""

    async def sleeps(job: RunningJob) -> None:
        async with job.step_transaction("cancelled") as step:
            await step.txn.execute("insert into app values (1)")
            await step.txn.execute("select pg_sleep(60)")

    async def fails(job: RunningJob) -> None:
        async with job.step_transaction("broken") as step:
            await step.txn.execute("insert into app values (2)")
            raise ValueError("no")

    async def perform(_: object, job: RunningJob) -> Any:
        with pytest.raises(ValueError, match="no"):
            await fails(job)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await sleeps(job)
        return await job.step("after", str)

    assert await it.run(perform, Runtime.ASYNCIO) == ""
    assert it.steps() == ["after"]
    assert node.column("select number from app") == []


async def test_a_step_may_call_steps(node: Master, it: World) -> None:
    """A wait inside of one ends the run, too: that step is called again."""

    async def outer(job: RunningJob) -> int:
        return int(await job.step("inner", int)) + int(await job.wait_for("number"))

    async def perform(_: object, job: RunningJob) -> Any:
        return await job.step("outer", outer, job)

    assert await it.suspended(perform, Runtime.TWISTED) == ["number"]
    node.value("select txqueue.signal(%s, 'number', '7')", it.job.id)
    assert await it.run(perform, Runtime.TWISTED) == 7


@pytest.mark.parametrize("of", [twice_in_thread, twice_in_twisted, twice_in_asyncio])
async def test_a_function_that_is_work_has_steps(
    of: Task[..., ..., Any], node: Master, it: World
) -> None:
    """By the job that is its first argument."""
    work = of.work(7)

    def function(_: object, job: Any) -> Any:
        return work.perform(job)

    async def coroutine(_: object, job: Any) -> Any:
        return await work.perform(job)

    runtime = type(work).runtime
    perform = function if runtime is Runtime.THREAD else coroutine
    assert await it.suspended(perform, runtime) == ["third"]
    node.value("select txqueue.signal(%s, 'third', '8')", it.job.id)
    assert await it.run(perform, runtime) == (7, 7, 8)


@pytest.mark.parametrize("runtime", [Runtime.THREAD, Runtime.ASYNCIO, Runtime.TWISTED])
async def test_a_wait_may_hold_the_place_in_the_group(
    runtime: Runtime, node: Master, it: World
) -> None:
    """The option reaches the database with the wait, of each kind."""

    def function(_: object, job: ThreadJob) -> None:
        job.sleep("nap", 60, hold_group=True)

    async def coroutine(_: object, job: RunningJob) -> None:
        await job.wait_for("word", hold_group=True)

    perform: Any = function if runtime is Runtime.THREAD else coroutine
    await it.suspended(perform, runtime)
    assert [wait["hold_group"] for wait in it.job.waits] == [True]

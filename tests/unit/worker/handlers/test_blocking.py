"""Functions in threads: their calls block, and end with an error when the function should end."""

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.threadpool import ThreadPool

from tests.unit.worker.handlers.test_runtimes import begun_with
from tests.unit.worker.performing import Handled
from tests.waiting import running_reactor
from txqueue import RunningJob, Runtime, ThreadJob
from txqueue.errors import TransactionMisused
from txqueue.model.assignment import Assignment
from txqueue.worker.handlers.job_transaction import one_at_most
from txqueue.worker.handlers.running_job import HeldAssignment, begun, change
from txqueue.worker.handlers.threads import HandlerThreads, ReactorCalls

WHERE: ContextVar[str] = ContextVar("WHERE", default="nowhere")


class World:
    """A job whose function runs in a thread, and the transactions of its database."""

    def __init__(self, threads: HandlerThreads) -> None:
        self.threads = threads
        self.said: list[str] = []
        self.statement: Deferred[None] = Deferred()
        self.reached: Deferred[None] = Deferred()
        held = HeldAssignment(Assignment(1, 1, 0, 1, 1, ""))
        self.job = begun(Handled.entry(7), held, one_at_most(self.open, lambda _: None))

    @asynccontextmanager
    async def open(self, job: RunningJob) -> AsyncIterator[Any]:
        """A transaction that notes its end."""
        try:
            yield self
        except BaseException as error:
            self.said.append(f"rolled back: {error}")
            raise
        self.said.append("committed")
        change(job, is_completed=True)

    async def execute(self, sql: str, parameters: object = ()) -> list[tuple[str, object]]:
        """Wait in the reactor's thread."""
        assert threading.current_thread() is threading.main_thread()
        if sql == "wait":
            self.reach()
            await self.statement
        return [(WHERE.get(), parameters)]

    async def enqueue_many(self, works: list[Any], **options: object) -> list[int]:
        """Number the work."""
        assert threading.current_thread() is threading.main_thread()
        return [len(works)]

    def reach(self) -> None:
        """Note that the function has come to where the test waits for it."""
        running_reactor().callFromThread(self.reached.callback, None)

    def run(self, function: Callable[[Any, ThreadJob], Any]) -> Deferred[Any]:
        """Perform the job."""
        ending: Deferred[Any] = begun_with(function, self.job, Runtime.THREAD, self.threads)
        return ending

    async def over(self) -> None:
        """Wait for the end of a thread that was left behind."""
        if (leaving := self.threads.left_by(self.job)) is not None:
            await leaving


@pytest.fixture
def world() -> Iterator[World]:
    """One with two threads."""
    pool = ThreadPool(0, 2)
    pool.start()
    yield World(HandlerThreads(running_reactor(), pool, most=2))
    pool.stop()


async def test_a_function_writes_in_the_jobs_transaction(world: World) -> None:
    """With the context of its thread; the value of each call is there when it returns."""

    def perform(_: object, job: ThreadJob) -> object:
        WHERE.set("in the thread")
        with job.transaction() as txn:
            rows = txn.execute("select", [1])
        assert job.progress(1, 2) is None
        return job.id, job.tags, rows

    assert await world.run(perform) == (7, {}, [("in the thread", [1])])
    assert world.said == ["committed"]


async def test_an_error_rolls_back(world: World) -> None:
    """And is the handler's."""

    def perform(_: object, job: ThreadJob) -> None:
        with job.transaction():
            raise ValueError("no such account")

    with pytest.raises(ValueError, match="no such account"):
        await world.run(perform)
    assert world.said == ["rolled back: no such account"]


async def test_an_iterator_runs_in_the_thread_that_made_it(world: World) -> None:
    """The reactor's thread gets a thousand work items at a time."""
    where = set()

    def works() -> Iterator[Any]:
        for _ in range(1500):
            where.add(threading.current_thread())
            yield Handled()

    def perform(_: object, job: ThreadJob) -> object:
        with job.transaction() as txn:
            return txn.enqueue_many(works())

    assert await world.run(perform) == [1000, 500]
    assert threading.main_thread() not in where


async def test_a_cancelled_job_ends_what_its_function_waits_for(world: World) -> None:
    """The error names the operator, and the transaction is rolled back."""

    def perform(_: object, job: ThreadJob) -> None:
        with job.transaction() as txn:
            txn.execute("wait")

    ending = world.run(perform)
    await world.reached
    change(world.job, cancelled_by="ada")
    world.threads.interrupt(world.job)
    with pytest.raises(CancelledError, match="job 7 was cancelled by ada"):
        await ending
    assert world.said == ["rolled back: job 7 was cancelled by ada"]


async def test_a_cancelled_job_makes_no_further_call(world: World) -> None:
    """Its function sees that in the next one, even if that is the commit."""
    go_on = threading.Event()

    def perform(_: object, job: ThreadJob) -> None:
        with job.transaction():
            world.reach()
            go_on.wait(60)
        raise AssertionError

    ending = world.run(perform)
    await world.reached
    change(world.job, cancelled_by="ada")
    world.threads.interrupt(world.job)
    go_on.set()
    with pytest.raises(CancelledError, match="job 7 was cancelled by ada"):
        await ending
    assert world.said == ["rolled back: job 7 was cancelled by ada"]


async def test_a_function_that_is_left_behind_waits_no_longer(world: World) -> None:
    """Its transaction is rolled back at once, although a statement still runs."""
    errors: list[BaseException] = []

    def perform(_: object, job: ThreadJob) -> None:
        try:
            with job.transaction() as txn:
                txn.execute("wait")
        except CancelledError as error:
            errors.append(error)
        with pytest.raises(CancelledError, match="waits no longer"):
            job.coalesce()

    ending = world.run(perform)
    await world.reached
    ending.cancel()
    assert len(world.said) == 1
    with pytest.raises(CancelledError):
        await ending
    await world.over()
    assert "the run of job 7 is over: its worker waits no longer" in str(errors[0])


async def test_what_a_function_left_open_is_rolled_back_while_it_goes_on(world: World) -> None:
    """Its connection is free for other jobs; the function sees it at the end of the block."""
    go_on = threading.Event()
    errors: list[BaseException] = []

    def perform(_: object, job: ThreadJob) -> None:
        try:
            with job.transaction():
                world.reach()
                go_on.wait(60)
        except CancelledError as error:
            errors.append(error)

    ending = world.run(perform)
    await world.reached
    ending.cancel()
    (said,) = world.said
    assert said.startswith("rolled back: the run of job 7 is over")
    go_on.set()
    with pytest.raises(CancelledError):
        await ending
    await world.over()
    assert "waits no longer" in str(errors[0])
    assert len(world.said) == 1


async def test_the_reactors_thread_cannot_wait(world: World) -> None:
    """It would wait for itself."""
    job = ThreadJob(world.job, ReactorCalls(world.job, running_reactor().callFromThread))
    with pytest.raises(TransactionMisused, match="would block the reactor's thread"):
        job.coalesce()


async def test_a_call_of_a_thread_counts_as_awaited_at_once(world: World) -> None:
    """The handler may end, in its own thread, before the reactor begins what another has called."""
    asked: list[tuple[Any, ...]] = []
    job = ThreadJob(world.job, ReactorCalls(world.job, lambda *args: asked.append(args)))
    with pytest.raises(TransactionMisused):
        job.coalesce()
    world.job.check_awaited()
    ((_, _, call, *_),) = asked
    call.close()


def test_attributes_of_the_job_are_read_only(world: World) -> None:
    """As for coroutines."""
    job = ThreadJob(world.job, ReactorCalls(world.job, print))
    with pytest.raises(AttributeError, match="read-only"):
        job.id = 8
    with pytest.raises(AttributeError, match="cannot delete"):
        del job.id

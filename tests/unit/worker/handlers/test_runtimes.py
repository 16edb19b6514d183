"""How one handler is run: by hand until it waits, as a Deferred, in asyncio, in a thread."""

import asyncio
import threading
import traceback
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any
from unittest.mock import Mock

import pytest
from attrs import define
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, succeed
from twisted.python.threadpool import ThreadPool

from tests.waiting import running_reactor
from txqueue import Runtime, WorkItem
from txqueue.worker.handlers.runtimes import kind_of
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.handlers.waiting import Ended, Waiting

Handler = Callable[[Any, Any], Any]


@pytest.fixture
def threads() -> Iterator[HandlerThreads]:
    """Threads of the test's own."""
    pool = ThreadPool(0, 2)
    pool.start()
    yield HandlerThreads(running_reactor(), pool, most=2)
    pool.stop()


def begun(handler: Handler, job: object = None, runtime: Runtime = Runtime.TWISTED) -> Any:
    """Begin to perform a work item with this handler, without threads."""
    return begun_with(handler, job, runtime, None)


def begun_with(handler: Handler, job: object, its_runtime: Runtime, threads: Any) -> Any:
    """The same, with threads."""
    value = waiting_with(handler, job, its_runtime, threads)
    return value.ending.addCallback(Ended.get) if isinstance(value, Waiting) else value


def waiting_with(handler: Handler, job: object, its_runtime: Runtime, threads: Any) -> Any:
    """The same; what waits is not turned into a Deferred."""

    @define
    class Handled(WorkItem):
        runtime = its_runtime
        perform = handler  # type: ignore[assignment]  # any kind of it

    kind = kind_of(Handled, threads)
    return kind.begin(kind.structure({}, Handled), job)


def test_a_coroutine_that_waits_for_nothing_needs_no_deferred() -> None:
    """Most jobs are like this; its value is there at once."""

    async def perform(self: object, job: int) -> int:
        return job + await succeed(1)

    assert begun(perform, 7) == 8


def test_a_coroutine_continues_after_each_wait() -> None:
    """With what it waited for."""
    waits: list[Deferred[int]] = [Deferred(), Deferred(), Deferred()]

    async def perform(self: object, job: object) -> list[int]:
        return [await each for each in waits]

    results: list[list[int]] = []
    begun(perform).addCallback(results.append)
    for number, each in enumerate(waits):
        assert results == []
        each.callback(number)
    assert results == [[0, 1, 2]]


@pytest.mark.parametrize("place", [0, 1])
def test_a_failure_is_raised_where_the_coroutine_waits(place: int) -> None:
    """At its first wait and at later ones; it can catch the error and continue."""
    waits: list[Deferred[str]] = [Deferred(), Deferred()]

    async def perform(self: object, job: object) -> list[str]:
        said = []
        for each in waits:
            try:
                said.append(await each)
            except ValueError as error:
                said.append(f"caught {error}")
        return said

    results: list[list[str]] = []
    begun(perform).addCallback(results.append)
    for number, each in enumerate(waits):
        if number == place:
            each.errback(ValueError(number))
        else:
            each.callback("fine")
    assert results[0][place] == f"caught {place}"
    assert results[0][1 - place] == "fine"


async def test_a_failure_that_is_not_caught_is_the_job_s() -> None:
    """It comes out of the Deferred."""
    wait: Deferred[None] = Deferred()

    async def perform(self: object, job: object) -> None:
        await wait

    ending = begun(perform)
    wait.errback(ValueError("mine"))
    with pytest.raises(ValueError, match="mine"):
        await ending


def test_a_failure_before_the_first_wait_is_raised_at_once() -> None:
    """There is no Deferred yet."""

    async def perform(self: object, job: object) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        begun(perform)


async def test_a_cancellation_reaches_what_the_coroutine_waits_for() -> None:
    """What it waits for is cancelled, and it can clean up."""
    steps: list[str] = []
    wait: Deferred[None] = Deferred(lambda _: steps.append("cancelled"))

    async def perform(self: object, job: object) -> None:
        try:
            await wait
        finally:
            steps.append("cleaned up")

    ending = begun(perform)
    ending.cancel()
    assert steps == ["cancelled", "cleaned up"]
    with pytest.raises(CancelledError):
        await ending


def test_a_plain_function_gives_its_value() -> None:
    """No Deferred for what needs none."""
    assert begun(lambda _, job: job + 1, 7) == 8


def test_a_function_may_return_a_deferred() -> None:
    """Its value is the job's."""
    wait: Deferred[int] = Deferred()
    results: list[int] = []
    begun(lambda *_: wait).addCallback(results.append)
    wait.callback(7)
    assert results == [7]


async def test_a_function_may_return_a_coroutine() -> None:
    """A decorator that forgot `async` is no reason to lose a job."""

    async def inner(number: int) -> int:
        return number + await wait

    wait: Deferred[int] = Deferred()
    ended = begun(lambda _, job: inner(job), 7)
    wait.callback(1)
    assert await ended == 8


async def test_an_asyncio_handler_awaits_what_asyncio_has() -> None:
    """On the asyncio reactor."""

    async def perform(self: object, job: int) -> int:
        await asyncio.sleep(0)
        return job + 1

    assert await begun(perform, 7, Runtime.ASYNCIO) == 8


async def test_an_asyncio_handler_s_failure_is_the_job_s() -> None:
    """As with any other."""

    async def perform(self: object, job: object) -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await begun(perform, None, Runtime.ASYNCIO)


async def test_an_asyncio_handler_that_awaits_a_deferred_fails_with_a_remedy() -> None:
    """asyncio's own error names neither."""

    async def perform(self: object, job: object) -> None:
        await Deferred[None]()

    with pytest.raises(TypeError, match=r"leave out runtime = Runtime.ASYNCIO"):
        await begun(perform, None, Runtime.ASYNCIO)


async def test_a_cancellation_reaches_an_asyncio_handler() -> None:
    """Its task is cancelled, and it can clean up."""
    entered: Deferred[None] = Deferred()
    left: Deferred[str] = Deferred()

    async def perform(self: object, job: object) -> None:
        entered.callback(None)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            left.callback("cleaned up")
            raise

    ending = begun(perform, None, Runtime.ASYNCIO)
    await entered
    ending.cancel()
    assert await left == "cleaned up"
    with pytest.raises(CancelledError):
        await ending


async def task_cancelled() -> None:
    """Await a task of the handler's own that was cancelled."""
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel("the pool was closed")
    await task


async def raises_cancelled() -> None:
    """Raise the error by hand."""
    await asyncio.sleep(0)
    raise asyncio.CancelledError("the pool was closed")


async def raises_exit() -> None:
    """Raise what closes a coroutine."""
    await asyncio.sleep(0)
    raise GeneratorExit("the pool was closed")


@pytest.mark.parametrize(
    ("fails", "cls"),
    [
        (task_cancelled, CancelledError),
        (raises_cancelled, CancelledError),
        (raises_exit, GeneratorExit),
    ],
)
async def test_what_an_asyncio_handler_raises_keeps_its_text_and_its_place(
    fails: Callable[[], Any], cls: type[BaseException]
) -> None:
    """Also if it is what asyncio ends tasks by."""

    async def perform(self: object, job: object) -> None:
        await fails()

    error = (await waiting_with(perform, None, Runtime.ASYNCIO, None).ending).error
    assert (type(error), str(error)) == (cls, "the pool was closed")
    places = {frame.name for frame in traceback.extract_tb(error.__traceback__)}
    assert {"perform", fails.__name__} <= places


async def test_an_asyncio_handler_that_takes_too_long_timed_out() -> None:
    """Its error says so, as any other's."""

    async def perform(self: object, job: object) -> None:
        await asyncio.sleep(60)

    ending = begun(perform, None, Runtime.ASYNCIO).addTimeout(0.01, running_reactor())
    with pytest.raises(TimeoutError):
        await ending


async def test_a_threaded_handler_runs_in_a_thread(threads: HandlerThreads) -> None:
    """It may block; its value comes back to the reactor's thread."""

    def perform(self: object, job: Any) -> tuple[int, int]:
        return job.attempt + 1, threading.get_ident()

    job = Mock(attempt=7)
    value, thread = await begun_with(perform, job, Runtime.THREAD, threads)
    assert value == 8
    assert thread != threading.get_ident()


async def test_a_threaded_handler_s_failure_is_the_job_s(threads: HandlerThreads) -> None:
    """As with any other."""

    def perform(self: object, job: object) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        await begun_with(perform, None, Runtime.THREAD, threads)


NOTE: ContextVar[str] = ContextVar("note", default="unset")


@pytest.mark.parametrize("is_raised", [False, True])
async def test_a_coroutine_keeps_its_context_variables_to_itself(is_raised: bool) -> None:
    """A variable set before a wait can be reset after it."""
    wait: Deferred[None] = Deferred()

    async def perform(self: object, job: object) -> str:
        token = NOTE.set("own")
        try:
            await wait
        except LookupError:
            """Another way to continue."""
        seen = NOTE.get()
        NOTE.reset(token)
        return f"{seen}, {NOTE.get()}"

    running = begun(perform)
    assert NOTE.get() == "unset"
    if is_raised:
        wait.errback(LookupError())
    else:
        wait.callback(None)
    assert await running == "own, unset"
    assert NOTE.get() == "unset"


def test_a_function_keeps_its_context_variables_to_itself() -> None:
    """No other job of the worker sees them."""

    def perform(self: object, job: object) -> None:
        NOTE.set("own")

    begun(perform)
    assert NOTE.get() == "unset"

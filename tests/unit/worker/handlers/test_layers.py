"""Middleware around handlers of each runtime."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.threadpool import ThreadPool

from tests.unit.worker.handlers.test_runtimes import begun_with
from tests.waiting import running_reactor
from txqueue import Discard, Fail, Runtime, Snooze, middleware
from txqueue.model import directives as registry
from txqueue.worker.handlers.threads import HandlerThreads

Next = Callable[[], Awaitable[Any]]
RUNTIMES = [Runtime.TWISTED, Runtime.ASYNCIO, Runtime.THREAD]


@pytest.fixture(autouse=True)
def _none_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", [])


@pytest.fixture
def threads() -> Iterator[HandlerThreads]:
    """Threads of the test's own."""
    pool = ThreadPool(0, 2)
    pool.start()
    yield HandlerThreads(running_reactor(), pool, most=2)
    pool.stop()


async def ended(value: Any) -> Any:
    """Wait for a handler if it waits."""
    return await value if isinstance(value, Deferred) else value


def handler(runtime: Runtime, result: Any) -> Callable[[Any, Any], Any]:
    """A handler of a runtime that returns a value or raises an error."""

    def end() -> Any:
        if isinstance(result, Exception):
            raise result
        return result

    async def in_twisted(self: object, job: object) -> Any:
        await succeed(None)
        return end()

    async def in_asyncio(self: object, job: object) -> Any:
        await asyncio.sleep(0)
        return end()

    def in_thread(self: object, job: object) -> Any:
        return end()

    return {
        Runtime.TWISTED: in_twisted,
        Runtime.ASYNCIO: in_asyncio,
        Runtime.THREAD: in_thread,
    }[runtime]


def note(name: str, notes: list[str]) -> Callable[[Next, Any], Awaitable[Any]]:
    """A middleware that notes what happens."""

    async def noting(call_next: Next, job: Any) -> Any:
        notes.append(f"{name} {job}")
        try:
            return [name, await call_next()]
        finally:
            notes.append(f"{name} ends")

    return noting


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_coroutines_run_around_handlers_of_all_runtimes(
    runtime: Runtime, threads: HandlerThreads
) -> None:
    """By their order; what each returns takes the place of what is inside."""
    notes: list[str] = []
    middleware(note("inner", notes), order=2)
    middleware(note("outer", notes), order=1)
    value = await ended(begun_with(handler(runtime, 7), "job", runtime, threads))
    assert value == ["outer", ["inner", 7]]
    assert notes == ["outer job", "inner job", "inner ends", "outer ends"]


@pytest.mark.parametrize("runtime", RUNTIMES)
async def test_errors_of_the_handler_are_raised_in_middleware(
    runtime: Runtime, threads: HandlerThreads
) -> None:
    """It may raise another one, or return a value instead."""

    @middleware
    async def forgiving(call_next: Next, job: Any) -> Any:
        try:
            return await call_next()
        except KeyError as error:
            raise LookupError("another") from error
        except ValueError as error:
            return f"caught {error}"

    made = begun_with(handler(runtime, ValueError("it")), None, runtime, threads)
    assert await ended(made) == "caught it"
    with pytest.raises(LookupError, match="another"):
        await ended(begun_with(handler(runtime, KeyError()), None, runtime, threads))


async def test_functions_that_return_values_or_deferreds_have_it_too() -> None:
    """As `perform` need not be a coroutine."""
    wait: Deferred[int] = Deferred()

    def perform(self: object, job: str) -> object:
        return wait if job == "waits" else 5

    middleware(note("m", []))
    assert begun_with(perform, "returns", Runtime.TWISTED, None) == ["m", 5]
    made = begun_with(perform, "waits", Runtime.TWISTED, None)
    wait.callback(6)
    assert await made == ["m", 6]


async def test_a_plain_function_runs_in_the_handler_s_own_thread(threads: HandlerThreads) -> None:
    """Inside of coroutines, and around handlers in threads only."""
    seen: list[threading.Thread] = []

    @middleware
    def in_thread(call_next: Callable[[], Any], job: Any) -> Any:
        seen.append(threading.current_thread())
        return ["thread", call_next()]

    def perform(self: object, job: object) -> str:
        seen.append(threading.current_thread())
        return "done"

    assert await begun_with(perform, None, Runtime.THREAD, threads) == ["thread", "done"]
    middleware(note("m", []))
    assert await begun_with(perform, None, Runtime.THREAD, threads) == ["m", ["thread", "done"]]
    assert seen[0] is seen[1]
    assert seen[2] is seen[3]
    assert threading.main_thread() not in seen
    assert begun_with(handler(Runtime.TWISTED, 1), None, Runtime.TWISTED, None) == ["m", 1]


@pytest.mark.parametrize("is_calling_twice", [True, False])
async def test_a_handler_runs_at_most_once(*, is_calling_twice: bool) -> None:
    """A middleware may leave it out; a second call is an error."""
    runs = []

    @middleware
    async def choosing(call_next: Next, job: Any) -> Any:
        if is_calling_twice:
            await call_next()
            await call_next()
        return "left out"

    async def perform(self: object, job: object) -> None:
        runs.append(job)

    if is_calling_twice:
        with pytest.raises(RuntimeError, match="called twice"):
            begun_with(perform, 1, Runtime.TWISTED, None)
        assert runs == [1]
    else:
        assert begun_with(perform, 1, Runtime.TWISTED, None) == "left out"
        assert runs == []


async def test_a_cancellation_reaches_the_handler_through_middleware() -> None:
    """And its clean-up runs before that of the middleware."""
    notes: list[str] = []
    middleware(note("m", notes))

    async def perform(self: object, job: object) -> None:
        try:
            await Deferred()
        finally:
            notes.append("handler ends")

    made = begun_with(perform, "job", Runtime.TWISTED, None)
    made.cancel()
    with pytest.raises(CancelledError):
        await made
    assert notes == ["m job", "handler ends", "m ends"]


def left_out(value: Any) -> Callable[[Next, Any], Awaitable[Any]]:
    """A middleware that does not call the handler."""

    async def leaving(call_next: Next, job: Any) -> Any:
        return value

    return leaving


async def unawaited(call_next: Next, job: Any) -> None:
    """A middleware that calls the handler, and does not await it."""
    call_next()


async def returned_unawaited(call_next: Next, job: Any) -> Any:
    """The same; it returns what it got."""
    return call_next()


def left_out_in_thread(call_next: Callable[[], Any], job: Any) -> None:
    """A middleware of threads that does not call the handler."""


@pytest.mark.parametrize(
    ("layer", "runtime", "missing"),
    [
        *[(left_out(None), runtime, "called") for runtime in RUNTIMES],
        *[(unawaited, runtime, "awaited") for runtime in RUNTIMES],
        *[(returned_unawaited, runtime, "awaited") for runtime in RUNTIMES],
        (left_out_in_thread, Runtime.THREAD, "called"),
    ],
)
async def test_middleware_that_leaves_the_handler_out_is_refused(
    layer: Any, runtime: Runtime, missing: str, threads: HandlerThreads
) -> None:
    """Or all jobs of the process would be done, and no handler would run."""
    middleware(layer)
    with pytest.raises(RuntimeError, match=f"has not {missing} call_next.*return await call_next"):
        await ended(begun_with(handler(runtime, 7), None, runtime, threads))


@pytest.mark.parametrize("outcome", ["cached", Discard("not now")])
async def test_middleware_may_end_a_job_in_the_place_of_its_handler(outcome: Any) -> None:
    """By another outcome."""
    middleware(left_out(outcome))
    begun = begun_with(handler(Runtime.TWISTED, 7), None, Runtime.TWISTED, None)
    assert await ended(begun) is outcome


async def forgetful(call_next: Next, job: Any) -> None:
    """A middleware that returns nothing."""
    await call_next()


async def logging(call_next: Next, job: Any) -> None:
    """The same; it takes a directive for an error."""
    with suppress(Exception):
        await call_next()


def forgetful_in_thread(call_next: Callable[[], Any], job: Any) -> None:
    """The same in a thread."""
    call_next()


@pytest.mark.parametrize("result", ["value", Snooze(60), Fail("bad")])
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("layer", [forgetful, logging, forgetful_in_thread])
async def test_what_a_handler_has_come_to_is_not_lost(
    layer: Any, result: Any, runtime: Runtime, threads: HandlerThreads
) -> None:
    """By middleware that returns nothing, be it returned or raised."""

    async def perform(self: object, job: object) -> Any:
        return result

    def function(self: object, job: object) -> Any:
        return result

    middleware(layer)
    middleware(forgetful)
    handles = function if runtime is Runtime.THREAD else perform
    assert await ended(begun_with(handles, None, runtime, threads)) is result
    if layer is logging and isinstance(result, Exception):
        raising = handler(runtime, result)
        assert await ended(begun_with(raising, None, runtime, threads)) is result

"""Reactors with a steady clock, and clean-ups that a task of asyncio's ends."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager
from functools import wraps
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.selectreactor import SelectReactor

from txqueue.store.driver.awaitables import entered
from txqueue.store.inquiries.inquiry import aanswer
from txqueue.system.clock import steady, unbroken


def in_task(test: Callable[[], Coroutine[Any, Any, None]]) -> Any:
    """Run a test as a task of asyncio's."""

    @wraps(test)
    async def run() -> None:
        await Deferred.fromFuture(asyncio.ensure_future(test()))

    return run


async def turns() -> None:
    """Let all tasks go on."""
    for _ in range(5):
        await asyncio.sleep(0)


class Cleaning:
    """A clean-up that ends at an event."""

    def __init__(self) -> None:
        self.is_done = False
        self.end = asyncio.Event()

    async def clean(self) -> str:
        """Clean up."""
        await self.end.wait()
        self.is_done = True
        return "clean"


async def cancelled(task: "asyncio.Task[Any]", times: int = 1) -> None:
    """Cancel a task, each time once it waits."""
    for _ in range(times):
        await turns()
        task.cancel()
    await turns()


@in_task
async def test_a_cancelled_task_cleans_up_first() -> None:
    """It ends as cancelled then."""
    cleaning = Cleaning()
    task = asyncio.ensure_future(unbroken(cleaning.clean()))
    await cancelled(task)
    assert not task.done()
    cleaning.end.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cleaning.is_done


@in_task
async def test_a_task_that_is_cancelled_twice_leaves_its_clean_up_to_itself() -> None:
    """The caller does not wait; the clean-up ends."""
    cleaning = Cleaning()
    task = asyncio.ensure_future(unbroken(cleaning.clean()))
    await cancelled(task, 2)
    assert task.cancelled()
    cleaning.end.set()
    await turns()
    assert cleaning.is_done


@in_task
async def test_a_clean_up_returns_its_value() -> None:
    """Without a cancellation nothing differs."""
    cleaning = Cleaning()
    cleaning.end.set()
    assert await unbroken(cleaning.clean()) == "clean"


@in_task
async def test_a_savepoint_is_undone_although_its_task_is_cancelled_again() -> None:
    """What an exchange sends after an error is a clean-up."""

    def exchange() -> Generator[str, None, None]:
        try:
            yield "statement"
        finally:
            yield "undo"

    cleaning = Cleaning()

    async def send(statement: str) -> None:
        await (cleaning.clean() if statement == "undo" else asyncio.Event().wait())

    task = asyncio.ensure_future(aanswer(exchange(), send))
    await cancelled(task, 2)
    assert not task.done()
    cleaning.end.set()
    await turns()
    assert (task.cancelled(), cleaning.is_done) == (True, True)


@in_task
async def test_a_connection_that_comes_with_a_cancellation_is_put_back() -> None:
    """The task never has it."""
    lent: Deferred[Any] = Deferred()
    states = []

    @asynccontextmanager
    async def lending() -> AsyncIterator[Any]:
        connection = await lent
        states.append("lent")
        try:
            yield connection
        finally:
            states.append("put back")

    async def use() -> None:
        async with entered(lending()):
            states.append("used")

    task = asyncio.ensure_future(use())
    await turns()
    lent.callback(object())
    task.cancel()
    await turns()
    assert task.cancelled()
    assert states == ["lent", "put back"]


@pytest.mark.parametrize("wall", [0.0, 5e9])
def test_a_wall_clock_that_is_set_moves_no_timer(
    wall: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A timer of a second comes after a second, whatever the wall clock shows by then."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    reactor = steady(SelectReactor)()
    called: list[bool] = []
    reactor.callLater(1.0, called.append, True)
    monkeypatch.setattr(time, "time", lambda: wall)
    now[0] += 0.9
    reactor.runUntilCurrent()
    assert not called
    now[0] += 0.2
    reactor.runUntilCurrent()
    assert called
    reactor.fireSystemEvent("shutdown")

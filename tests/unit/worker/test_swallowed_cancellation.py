"""Handlers that go on although they were cancelled: in Twisted, `except Exception` does that."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater

from tests.unit.worker.performing import Handled, Harness
from tests.waiting import eventually
from txqueue import RunningJob, Runtime
from txqueue.worker.running.waiting_run import BEAT, CLEANUP, LONGEST_END

Handler = Callable[[object, RunningJob], Any]


def started() -> Harness:
    """A performer that watches its jobs."""
    harness = Harness(capacity=1)
    harness.performer.start()
    return harness


def pass_time(harness: Harness, seconds: float) -> None:
    """Let the performer's clock go on, in steps in which each of its timers is called."""
    for _ in range(round(seconds / BEAT)):
        harness.clock.advance(BEAT)


def tries(harness: Harness, times: int, cancelled: list[float]) -> Handler:
    """A handler that tries again after each error."""

    async def perform(_: object, job: RunningJob) -> None:
        for _try in range(times):
            try:
                await deferLater(harness.clock, 1000.0)
            except Exception:
                cancelled.append(harness.clock.seconds())

    return perform


def test_a_handler_that_swallows_its_timeout_is_cancelled_again() -> None:
    """What it awaits then is cancelled as well, until it ends; it has failed by its timeout."""
    harness = started()
    cancelled: list[float] = []
    with harness.handler(tries(harness, 4, cancelled), timeout=2.0):
        harness.hand(5, Handled.entry(1))
        pass_time(harness, 2 + CLEANUP + 4)
    assert cancelled == [2, 2 + CLEANUP, 3 + CLEANUP, 4 + CLEANUP]
    (settled,) = harness.settled
    assert settled["outcome"] == "retry"
    assert settled["error"].startswith("TimeoutError: it ran for longer than its timeout of 2 s")


def test_a_cancelled_job_does_not_go_on_for_ever() -> None:
    """It is cancelled, its capacity is free, and the log says what the handler should do."""
    harness = started()
    cancelled: list[float] = []
    with harness.handler(tries(harness, 1000, cancelled), 5, Handled.entry(1), Handled.entry(2)):
        harness.performer.cancel(5, 1, "ann")
        pass_time(harness, LONGEST_END)
        assert [(each["job_id"], each["outcome"]) for each in harness.settled] == [(1, "cancelled")]
        tried = len(cancelled)
        harness.performer.stop()
        pass_time(harness, 2000)
    ((is_grave, text),) = harness.logged
    assert is_grave
    assert "job 1 (performing.handled): its handler goes on although it was cancelled" in text
    # Closed, the first handler goes on no more; only the second one was cancelled since.
    assert len(cancelled) == tried + 1


def test_a_handler_that_swallows_everything_is_not_continued() -> None:
    """Not even one that goes on when it is closed: another run of its job may have begun."""
    harness = started()
    steps: list[float] = []

    async def perform(_: object, job: RunningJob) -> None:
        # No end of the interpreter may find it in a loop without end.
        for _step in range(1000):
            try:
                await deferLater(harness.clock, 1.0)
            except BaseException:
                """It goes on, whatever it is."""
            steps.append(harness.clock.seconds())

    with harness.handler(perform, 5, Handled.entry(1)):
        harness.performer.cancel(5, 1, "ann")
        pass_time(harness, LONGEST_END)
        assert [each["outcome"] for each in harness.settled] == ["cancelled"]
        last = len(steps)
        pass_time(harness, 20)
        gc.collect()
    assert len(steps) == last


def test_a_handler_has_time_to_clean_up() -> None:
    """What it awaits to undo its work is not cancelled at once."""
    harness = started()
    undone: list[float] = []

    async def perform(_: object, job: RunningJob) -> None:
        try:
            await harness.wait(job)
        except CancelledError:
            await deferLater(harness.clock, CLEANUP - 1)
            undone.append(harness.clock.seconds())
            raise

    with harness.handler(perform, timeout=1.0):
        harness.hand(5, Handled.entry(1))
        pass_time(harness, 1 + CLEANUP)
    assert undone == [CLEANUP]
    assert [each["outcome"] for each in harness.settled] == ["retry"]


def test_a_part_of_a_handler_that_cannot_be_cancelled_is_not_waited_for() -> None:
    """Its end is ignored when it comes at last."""
    harness = started()
    at_last: Deferred[None] = Deferred()

    async def stubborn() -> None:
        while not at_last.called:
            try:
                await deferLater(harness.clock, 1000.0)
            except Exception:
                continue

    async def perform(_: object, job: RunningJob) -> str:
        await Deferred.fromCoroutine(stubborn())
        return "late"

    with harness.handler(perform, timeout=1.0):
        harness.hand(5, Handled.entry(1))
        pass_time(harness, 1 + LONGEST_END)
        assert [each["outcome"] for each in harness.settled] == ["retry"]
        at_last.callback(None)
        pass_time(harness, 1100)
    assert len(harness.settled) == 1
    assert harness.finished == []


@pytest.mark.parametrize("is_closed", [True, False])
async def test_an_asyncio_handler_is_cancelled_again(is_closed: bool) -> None:
    """There only a handler that catches `CancelledError` itself swallows it."""
    harness = started()
    waits: list[int] = []

    async def perform(_: object, job: RunningJob) -> None:
        for _try in range(1000 if is_closed else 3):
            waits.append(1)
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                continue

    async def after(seconds: float, condition: Callable[[], bool]) -> None:
        pass_time(harness, seconds)

        def holds() -> bool:
            harness.turn()
            return condition()

        await eventually(holds, 10)

    Handled.runtime = Runtime.ASYNCIO
    try:
        with harness.handler(perform, timeout=1.0):
            harness.hand(5, Handled.entry(1))
            await after(0, lambda: len(waits) == 1)
            await after(1, lambda: len(waits) == 2)
            if is_closed:
                pass_time(harness, LONGEST_END)
            else:
                await after(CLEANUP, lambda: len(waits) == 3)
                await after(1, lambda: harness.settled != [])
    finally:
        del Handled.runtime
    assert [each["outcome"] for each in harness.settled] == ["retry"]

"""A call that is not awaited does nothing, and the run says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest
from attrs import define
from twisted.internet.defer import Deferred, gatherResults

from txqueue import RunningJob, Runtime, WorkItem, testing
from txqueue.errors import InvalidWork, Suspended, TransactionMisused
from txqueue.store.driver.connection import Connection
from txqueue.store.enqueueing.transaction import Transaction

Handler = Callable[[Any, RunningJob], Any]


async def performed(handler: Handler, its_runtime: Runtime = Runtime.TWISTED) -> testing.Outcome:
    """Perform a handler."""

    @define
    class Handled(WorkItem):
        work_type = "unit.awaited.handled"
        runtime = its_runtime
        perform = handler  # type: ignore[assignment]  # any kind of it

    return await testing.aperform(Handled())


@pytest.mark.parametrize("runtime", [Runtime.TWISTED, Runtime.ASYNCIO])
async def test_a_call_has_no_truth(runtime: Runtime) -> None:
    """What a person has not approved is not approved."""

    async def perform(_: object, job: RunningJob) -> str:
        return "approved" if job.wait_for("ok") else "rejected"  # type: ignore[truthy-bool]

    error = (await performed(perform, runtime)).error
    assert isinstance(error, InvalidWork)
    assert "write: await job.wait_for('ok', ...)" in str(error)


@pytest.mark.parametrize("runtime", [Runtime.TWISTED, Runtime.ASYNCIO])
@pytest.mark.parametrize(
    "call",
    [
        lambda job: job.step("pay", int),
        lambda job: job.wait_for("pay"),
        lambda job: job.sleep("pay", 60),
        lambda job: job.call("pay", cast("WorkItem", None)),
    ],
)
async def test_a_run_that_has_not_awaited_a_call_fails(
    call: Callable[[RunningJob], object], runtime: Runtime
) -> None:
    """At its end, without a retry."""

    async def perform(_: object, job: RunningJob) -> str:
        await job.step("other", int)
        call(job)
        return "paid"

    outcome = await performed(perform, runtime)
    assert (outcome.kind, outcome.steps) == ("failed", {"other": 0})
    assert "('pay', ...) was not awaited, so it has done nothing" in str(outcome.reason)


@pytest.mark.parametrize("runtime", [Runtime.TWISTED, Runtime.ASYNCIO])
async def test_a_run_that_waits_has_forgotten_nothing_before(runtime: Runtime) -> None:
    """Its wait would hide that nothing was done."""

    async def perform(_: object, job: RunningJob) -> None:
        job.step("pay", int)  # type: ignore[unused-coroutine]
        await job.wait_for("ok")

    outcome = await performed(perform, runtime)
    assert outcome.kind == "failed"
    assert "job.step('pay', ...) was not awaited" in str(outcome.reason)


async def test_a_run_that_swallows_its_wait_has_forgotten_nothing_before() -> None:
    """Likewise, if its end is that of a function that has returned."""

    async def perform(_: object, job: RunningJob) -> None:
        job.step("pay", int)  # type: ignore[unused-coroutine]
        with suppress(Suspended):
            await job.wait_for("ok")

    assert (await performed(perform)).kind == "failed"


async def one_by_one(_: object, job: RunningJob) -> None:
    """Make calls that are awaited later."""
    for call in [job.wait_for("ok"), job.step("pay", int)]:
        await call


async def together(_: object, job: RunningJob) -> None:
    """Make calls of which one waits."""
    later = job.step("later", int)
    await asyncio.gather(job.wait_for("ok"), job.step("pay", int))
    await later


async def in_tasks(_: object, job: RunningJob) -> None:
    """Make a call in a task whose frame has another one."""

    async def waiting() -> None:
        later = job.step("later", int)
        await job.wait_for("ok")
        await later

    async with asyncio.TaskGroup() as group:
        group.create_task(waiting())
        group.create_task(waiting_for(job, "other"))


async def waiting_for(job: RunningJob, name: str) -> None:
    """Wait for another signal, also with a call for later."""
    later = job.step(f"after {name}", int)
    await job.wait_for(name)
    await later


@pytest.mark.parametrize(
    ("perform", "runtime"),
    [
        (one_by_one, Runtime.TWISTED),
        (one_by_one, Runtime.ASYNCIO),
        (together, Runtime.ASYNCIO),
        (in_tasks, Runtime.ASYNCIO),
    ],
)
async def test_a_run_that_waits_may_have_made_calls_for_later(
    perform: Handler, runtime: Runtime
) -> None:
    """They are dropped with the handler, which makes them again in its next run."""
    assert (await performed(perform, runtime)).kind == "suspended"


@pytest.mark.parametrize("runtime", [Runtime.TWISTED, Runtime.ASYNCIO])
@pytest.mark.parametrize("name", ["transaction", "step_transaction"])
async def test_a_transaction_that_was_not_entered(name: str, runtime: Runtime) -> None:
    """It is the run's end, or its wait, that says so."""
    given = ("book",) if name == "step_transaction" else ()

    async def perform(_: object, job: RunningJob) -> None:
        getattr(job, name)(*given)

    async def wait(_: object, job: RunningJob) -> None:
        getattr(job, name)(*given)
        await job.wait_for("ok")

    for handler in (perform, wait):
        outcome = await performed(handler, runtime)
        assert outcome.kind == "failed"
        assert "was not entered, so it has done nothing" in str(outcome.reason)
        assert f"write: async with job.{name}(" in str(outcome.reason)


async def test_a_transaction_that_was_not_entered_in_a_thread() -> None:
    """Its run says so, too."""

    def perform(_: object, job: Any) -> None:
        job.transaction()

    outcome = await performed(perform, Runtime.THREAD)
    assert "in a thread, with job.transaction(" in str(outcome.reason)


async def test_a_handler_that_only_forgets_a_step_fails() -> None:
    """A plain function that returns nothing, too."""

    def perform(_: object, job: RunningJob) -> None:
        job.step("pay", int)  # type: ignore[unused-coroutine]

    assert "job.step('pay', ...)" in str((await performed(perform)).reason)


async def test_a_call_is_awaited_in_many_ways() -> None:
    """By a Deferred, with others, and by being returned."""

    async def perform(_: object, job: RunningJob) -> int:
        one, two = await gatherResults(
            [Deferred.fromCoroutine(job.step("one", int, 1)), Deferred.fromCoroutine(late(job))]
        )
        return int(one + two)

    async def late(job: RunningJob) -> int:
        return await job.step("two", int, 2)

    assert (await performed(perform)).get() == 3
    assert (await performed(lambda _, job: job.step("one", int, 1))).get() == 1


async def test_a_task_of_asyncios_awaits_a_call() -> None:
    """In each way to make one."""

    async def perform(_: object, job: RunningJob) -> int:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(job.step("a", int, 1))
        second = asyncio.ensure_future(job.step("b", int, 2))
        third = await asyncio.wait_for(job.step("c", int, 3), 60)
        return sum(await asyncio.gather(first, second, job.step("d", int, 4))) + third

    assert (await performed(perform, Runtime.ASYNCIO)).get() == 10


async def test_an_error_of_the_handlers_own_says_more() -> None:
    """It is the job's, whatever was not awaited."""

    async def perform(_: object, job: RunningJob) -> None:
        job.step("pay", int)  # type: ignore[unused-coroutine]
        raise ValueError("mine")

    assert isinstance((await performed(perform)).error, ValueError)


@pytest.mark.parametrize(
    "call",
    [
        lambda txn: txn.execute("select secret"),
        lambda txn: txn.enqueue(cast("WorkItem", None)),
        lambda txn: txn.enqueue_many([]),
        lambda txn: txn.signal(7, "ok"),
        lambda txn: txn.fill(cast("Any", None), []),
    ],
)
def test_a_transaction_that_has_not_awaited_a_call_is_rolled_back(
    call: Callable[[Transaction], object],
) -> None:
    """The error at its end names the method, and shows nothing of the application's."""
    with (
        pytest.raises(TransactionMisused, match=r"txn\.\w+\(\.\.\.\) was not awaited"),
        Transaction(cast("Connection", None), "txqueue") as txn,
    ):
        call(txn)


def fail_in(txn: Transaction) -> None:
    """Fail in a transaction of which a call was not awaited."""
    with txn:
        txn.execute("select 1")  # type: ignore[unused-coroutine]
        raise ValueError("mine")


def test_a_transaction_that_fails_keeps_its_error() -> None:
    """A call that was not awaited says less."""
    with pytest.raises(ValueError, match="mine"):
        fail_in(Transaction(cast("Connection", None), "txqueue"))

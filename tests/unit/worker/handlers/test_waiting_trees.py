"""A model of waits: random trees of gather, race, timeout and cancel over steps and waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest
from attrs import define
from hypothesis import given, note, settings
from hypothesis import strategies as st
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.threadpool import ThreadPool

from tests.unit.worker.handlers.waiting_trees import (
    ANY,
    ENDS,
    HANDLERS,
    BrokenStep,
    Program,
    expected,
    programs,
)
from tests.waiting import running_reactor
from txqueue import RunningJob, WorkItem, testing
from txqueue.store.enqueueing.steps import StepWrite
from txqueue.testing.performing import assignment_of
from txqueue.testing.running import RunInTest
from txqueue.testing.steps import BorrowedTransactions, StepsInMemory
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.running.performer import Performer

RUNS = 40
CHOSEN: dict[str, Program] = {}
"""What the handlers do."""


def _perform(handler: type[Any]) -> Any:
    def function(_: object, job: Any) -> Any:
        return handler(job).perform(CHOSEN["program"])

    async def coroutine(_: object, job: RunningJob) -> Any:
        return await handler(job).perform(CHOSEN["program"])

    return function if handler is HANDLERS["thread"][1] else coroutine


def _work(way: str) -> WorkItem:
    its_runtime, handler = HANDLERS[way]

    @define
    class Tree(WorkItem):
        """Does what the program says."""

        work_type = f"unit.trees.{way}"
        runtime = its_runtime
        perform = _perform(handler)

    return Tree()


WORK = {way: _work(way) for way in HANDLERS}


class LateSteps(StepsInMemory):
    """Steps that are written in a later turn, as in the database."""

    def write(self, step: StepWrite) -> Deferred[str | None]:
        """Write a step, soon."""
        writing: Deferred[str | None] = deferLater(running_reactor(), 0)
        return writing.addCallback(lambda _: super(LateSteps, self).write(step))


@pytest.fixture(scope="module")
def threads() -> Iterator[HandlerThreads]:
    """Threads of the test's own."""
    pool = ThreadPool(0, 4)
    pool.start()
    yield HandlerThreads(running_reactor(), pool, most=2)
    pool.stop()


async def by_a_worker(
    work: WorkItem, steps: dict[str, Any], threads: HandlerThreads
) -> testing.Outcome:
    """Run a job as a worker does."""
    opener = BorrowedTransactions(cast("Any", None), is_of_asyncio=False)
    assignment = assignment_of(work, {}, 1, has_steps=bool(steps))
    run = RunInTest(assignment, opener, LateSteps.of(opener, steps, ()))
    run.steps.clock = running_reactor()
    opened = run._open
    performer = Performer(
        running_reactor(),
        threads,
        1,
        run.report,
        opened,
        steps=cast("Any", run.steps),
        hooks=run._hooks,
    )
    performer.perform(run.assignment)
    await run.report.ended
    performer.stop()
    return run.outcome()


async def run_to_the_end(perform: Any, work: WorkItem) -> None:
    """Run a job until it does not wait any more; compare each run with the model."""
    steps: dict[str, Any] = {}
    program = CHOSEN["program"]
    note(str(program))
    for _ in range(RUNS):
        end = expected(program, steps.keys())
        outcome = await perform(work, steps)
        if end.how != "waits":
            break
        assert outcome.kind == "suspended"
        assert end.waits <= outcome.waits.keys()
        assert ANY in end.left or outcome.waits.keys() <= end.waits | end.left
        # The next run has them all.
        steps |= {**outcome.steps, **dict.fromkeys(outcome.waits)}
    if end.how == "done":
        assert outcome.kind == ENDS[program.end], outcome
    else:
        assert isinstance(outcome.error, BrokenStep)
        assert not hasattr(outcome.error, "__notes__")


@pytest.mark.parametrize("way", ["twisted", "asyncio"])
@settings(max_examples=60)
@given(data=st.data())
async def test_a_job_waits_only_for_what_its_handler_awaits(
    way: str, data: st.DataObject, threads: HandlerThreads
) -> None:
    """By a worker: whatever else was begun, has lost a race, or was cancelled."""
    CHOSEN["program"] = data.draw(programs())

    async def perform(work: WorkItem, steps: dict[str, Any]) -> testing.Outcome:
        return await by_a_worker(work, steps, threads)

    await run_to_the_end(perform, WORK[way])


@settings(max_examples=60)
@given(data=st.data())
async def test_a_function_in_a_thread_waits_only_for_what_it_awaits(
    data: st.DataObject, threads: HandlerThreads
) -> None:
    """Its threads cannot be cancelled, but be left."""
    CHOSEN["program"] = data.draw(programs(in_thread=True))

    async def perform(work: WorkItem, steps: dict[str, Any]) -> testing.Outcome:
        return await by_a_worker(work, steps, threads)

    await run_to_the_end(perform, WORK["thread"])


@pytest.mark.parametrize("way", ["here", "twisted", "asyncio"])
@settings(max_examples=60)
@given(data=st.data())
async def test_a_tested_handler_waits_as_on_a_node(way: str, data: st.DataObject) -> None:
    """By `perform` and `aperform`."""
    CHOSEN["program"] = data.draw(programs())

    async def perform(work: WorkItem, steps: dict[str, Any]) -> testing.Outcome:
        if way == "here":
            return testing.perform(work, steps=steps)
        return await testing.aperform(work, steps=steps)

    await run_to_the_end(perform, WORK[way])

"""What a run costs of the rate of its group, as its handler says, and Throttled in each runtime."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from attrs import define

from tests.unit.worker.performing import Handled, Harness
from tests.unit.worker.test_own_transaction import Database
from txqueue import Rate, Retry, RunningJob, Runtime, ThreadJob, Throttled, WorkItem, testing
from txqueue.errors import InvalidWork


def settled(perform: Any) -> list[dict[str, Any]]:
    """Run a handler; return what is settled of its job, of weight 2."""
    harness = Harness(opener=Database().open)
    harness.perform(perform, 5, Handled.entry(1, weight=2), retry=Retry(attempts=1))
    return harness.settled


async def _returns(_: object, job: RunningJob) -> dict[str, float]:
    was, job.cost = job.cost, 7.5
    return {"was": was, "is": job.cost}


async def _fails(_: object, job: RunningJob) -> None:
    job.cost = 7.5
    raise Throttled(3)


@pytest.mark.parametrize(
    ("perform", "expected"),
    [
        (_returns, {"outcome": "done", "cost": 7.5, "result": {"was": 2.0, "is": 7.5}}),
        (_fails, {"outcome": "snooze", "cost": 7.5, "delay": 3.0, "throttled": True}),
    ],
)
def test_the_cost_is_settled_however_the_run_ends(perform: Any, expected: dict[str, Any]) -> None:
    """Before that it is the job's weight."""
    assert settled(perform) == [{"job_id": 1, "assignment": 5, **expected}]


@pytest.mark.parametrize("cost", [-1, float("nan"), float("inf"), "7", True, None, 2e9])
def test_a_cost_that_is_none(cost: Any) -> None:
    """The error is one of the handler, which may go on: its work may be done."""

    async def perform(_: object, job: RunningJob) -> None:
        with pytest.raises(ValueError, match="not a number from 0 to 1,000,000,000; set what"):
            job.cost = cost
        assert job.cost == 2

    assert settled(perform) == []


def test_a_cost_comes_before_the_transaction_that_ends_the_job() -> None:
    """Later it would be lost."""

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction():
            job.cost = 3
        with pytest.raises(InvalidWork, match=r"set job.cost inside of job.transaction\(\)"):
            job.cost = 4

    assert settled(perform) == []


@define
class Called(WorkItem):
    """Calls a service that refuses, in a step that would be tried again in place."""

    work_type = "unit.cost.called"

    def refuse(self) -> None:
        """As a service does."""
        raise Throttled(timedelta(seconds=30))

    async def perform(self, job: RunningJob) -> None:
        """Call it."""
        await job.step("call", self.refuse, retry=Retry(3, first=0))


@define
class CalledByAsyncio(Called):
    """The same."""

    work_type = "unit.cost.asyncio"
    runtime = Runtime.ASYNCIO


@define
class CalledInThread(Called):
    """The same, by a function that blocks."""

    work_type = "unit.cost.thread"
    runtime = Runtime.THREAD

    def perform(self, job: ThreadJob) -> None:  # type: ignore[override]
        """Call it."""
        job.cost = 3
        job.step("call", self.refuse, retry=Retry(3, first=0))


@pytest.mark.parametrize("cls", [Called, CalledByAsyncio, CalledInThread])
async def test_a_step_may_be_throttled(cls: type[Called]) -> None:
    """In each runtime: the job waits, not the step."""
    outcome = await testing.aperform(cls())
    assert (outcome.kind, outcome.delay, dict(outcome.steps)) == ("snooze", 30.0, {})


@pytest.mark.parametrize(
    ("values", "wrong"),
    [
        ({"jobs": 0}, "not a rate of 0.000001 to 1,000,000 jobs a second"),
        ({"jobs": "60"}, "not a rate"),
        ({"jobs": 60, "per": 0}, "not a rate"),
        ({"jobs": 1, "per": timedelta(days=30)}, "not a rate"),
        ({"jobs": 60, "burst": 0}, "burst of .* is not a whole number from 1"),
    ],
)
def test_what_is_no_rate(values: dict[str, Any], wrong: str) -> None:
    """It is refused where it is written."""
    with pytest.raises(InvalidWork, match=wrong):
        Rate(**values)

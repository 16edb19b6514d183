"""`drain` runs jobs with steps as a node does: their waits, signals, children and times."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from attrs import define

from txqueue import Discard, Next, RunningJob, Runtime, ThreadJob, WorkItem, task, testing
from txqueue.adapters.psycopg2 import enqueue
from txqueue.errors import JobFailed, TimedOut


@define
class Report(WorkItem):
    """A child: fails without an order."""

    work_type = "testing.steps.report"

    order: int

    async def perform(self, job: RunningJob) -> str:
        """Return a name."""
        if not self.order:
            raise JobFailed("there is no order")
        return f"report {self.order}"


@define
class Order(WorkItem):
    """An order that a person approves."""

    work_type = "testing.steps.order"

    order: int

    async def perform(self, job: RunningJob) -> Any:
        """Go through all kinds of steps."""
        charge = await job.step("charge", int, self.order)
        async with job.step_transaction("book") as step:
            if not step.is_done:
                await step.txn.execute("insert into booking values (%s)", (charge,))
                step.result = "booked"
        try:
            answer = await job.wait_for("approved", timeout=timedelta(days=1))
        except TimedOut:
            return "too late"
        await job.sleep("cool off", timedelta(hours=1))
        return [step.result, answer, await job.call("report", Report(self.order))]


@define
class Parcel:
    """A result."""

    number: int


@task(name="testing.steps.counts")
async def counts() -> dict[str, int] | Discard:
    """Return a result."""
    return {"a": 1}


@task(name="testing.steps.plain")
def plain() -> object:
    """Return a result."""
    return [1]


@task(name="testing.steps.booked")
async def booked(job: RunningJob) -> int:
    """Return a result in its own transaction."""
    async with job.transaction() as txn:
        txn.result = (await txn.execute("select 7"))[0][0]
    return 7


@task(name="testing.steps.booked_in_thread")
def booked_in_thread(job: ThreadJob) -> int:
    """Do the same in a thread."""
    with job.transaction() as txn:
        txn.result = txn.execute("select 7")[0][0]
    return 7


@task(name="testing.steps.ended")
async def ended(job: RunningJob) -> int:
    """Return no result, against its annotation."""
    async with job.transaction():
        pass
    return None  # type: ignore[return-value]  # what an application gets wrong


@task(name="testing.steps.packed")
async def packed() -> Parcel:
    """Be the last stage."""
    return Parcel(5)


@task(name="testing.steps.picked")
async def picked() -> Next:
    """Be the first stage."""
    return Next(packed.work())


CHILDREN = {
    each.work_type: each for each in (counts, plain, booked, booked_in_thread, ended, picked)
}


@define
class Caller(WorkItem):
    """Calls a job, and reads its result in two runs."""

    work_type = "testing.steps.caller"

    child: str

    async def perform(self, job: RunningJob) -> str:
        """Return how the result looks."""
        result = await job.call("child", CHILDREN[self.child].work())
        await job.sleep("a while", 60)
        return repr(result)


@define
class Raced(WorkItem):
    """Waits for an approval until its nap is over, and then for something else."""

    work_type = "testing.steps.raced"
    runtime = Runtime.ASYNCIO

    async def perform(self, job: RunningJob) -> Any:
        """Let a nap and a wait race."""
        nap = asyncio.ensure_future(job.sleep("nap", 60))
        approval = asyncio.ensure_future(job.wait_for("approval", timeout=3600))
        done, _ = await asyncio.wait([nap, approval], return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
        approval.cancel()
        return await job.wait_for("shipped")


@pytest.fixture
def connection(open_connection: Any) -> Iterator[Any]:
    """The connection, in a transaction that is rolled back after the test."""
    open_connection.cursor().execute("create temporary table booking (number int) on commit drop")
    with testing.connected(open_connection):
        yield open_connection
    open_connection.rollback()


def value(connection: Any, sql: str, *parameters: Any) -> Any:
    """Return the only value of a query."""
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchone()[0]


def drained(**options: Any) -> list[tuple[str, dict[str, str]]]:
    """Drain; return how the runs have ended."""
    return [(run.kind, dict(run.waits)) for run in testing.drain(**options)]


@pytest.mark.parametrize("is_early", [False, True])
def test_an_order_is_shipped(connection: Any, *, is_early: bool) -> None:
    """By a signal, sent before the wait or after it, an hour that passes at once, and a child."""
    job_id = enqueue(connection, Order(7))
    signal = "select txqueue.signal(%s, 'approved', '\"yes\"')"
    if is_early:
        value(connection, signal, job_id)
    else:
        assert drained() == [("suspended", {"approved": "signal"})]
        assert drained(where=[job_id]) == []
        value(connection, signal, job_id)
    runs = drained(where=[job_id], until=timedelta(hours=2))
    assert runs == [
        ("suspended", {"cool off": "sleep"}),
        ("suspended", {"report": "call"}),
        ("done", {}),
        ("done", {}),
    ]
    stored = value(connection, "select result from txqueue.job where job_id = %s", job_id)
    assert stored == ["booked", "yes", "report 7"]
    assert value(connection, "select array_agg(number) from booking") == [7]
    assert value(connection, "show idle_in_transaction_session_timeout") == "0"


def test_a_wait_times_out(connection: Any) -> None:
    """The time passes at once; before that, the job waits."""
    job_id = enqueue(connection, Order(7))
    assert len(drained(until=timedelta(hours=23))) == 1
    assert drained(where=[job_id], until=timedelta(hours=25)) == [("done", {})]
    stored = value(connection, "select result from txqueue.job where job_id = %s", job_id)
    assert stored == "too late"


def test_a_run_says_which_steps_it_has_done(connection: Any) -> None:
    """And which work it has called."""
    enqueue(connection, Order(7))
    (run,) = testing.drain()
    assert run.steps == {"charge": 7, "book": "booked"}
    assert run.calls == {}


@pytest.mark.parametrize(
    ("child", "result"),
    [
        (counts, "{'a': 1}"),
        (plain, "[1]"),
        (booked, "7"),
        (booked_in_thread, "7"),
        (ended, "None"),
        (picked, "Parcel(number=5)"),
    ],
)
def test_a_call_reads_what_its_child_has_returned(connection: Any, child: Any, result: str) -> None:
    """Without directives, None and what has no rule, by the last stage; later runs do the same."""
    call = enqueue(connection, Caller(child.work_type))
    testing.drain(until=timedelta(minutes=2))
    assert value(connection, "select result from txqueue.job where job_id = %s", call) == result


async def test_a_wait_that_has_lost_a_race_leaves_nothing(connection: Any) -> None:
    """Its signal stays for another wait, and neither that nor its time has the job go on."""
    job_id = enqueue(connection, Raced())
    first, second = await testing.adrain(until=timedelta(minutes=2))
    assert (dict(first.waits), dict(second.waits)) == (
        {"nap": "sleep", "approval": "signal"},
        {"shipped": "signal"},
    )
    value(connection, "select txqueue.signal(%s, 'approval')", job_id)
    assert await testing.adrain(where=[job_id], until=timedelta(hours=3)) == []
    waits = (
        "select array_agg(signal) from txqueue.job_step where job_id = %s and signal is not null"
    )
    assert value(connection, waits, job_id) == ["shipped"]
    assert value(connection, "select name from txqueue.job_signal where job_id = %s", job_id)
    value(connection, "select txqueue.signal(%s, 'shipped', '7')", job_id)
    (last,) = await testing.adrain(where=[job_id])
    assert last.get() == 7

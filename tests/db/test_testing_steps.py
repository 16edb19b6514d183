"""`drain` runs jobs with steps as a node does: their waits, signals, children and times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from typing import Any

import psycopg2
import pytest
from attrs import define

from tests.fixtures.databases import Templates, fresh_database
from txqueue import RunningJob, Runtime, ThreadJob, WorkItem, testing
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
class OrderInAsyncio(Order):
    """The same in asyncio."""

    work_type = "testing.steps.order_in_asyncio"
    runtime = Runtime.ASYNCIO


@define
class OrderInThread(WorkItem):
    """The same in a thread."""

    work_type = "testing.steps.order_in_thread"
    runtime = Runtime.THREAD

    order: int

    def perform(self, job: ThreadJob) -> Any:
        """Go through all kinds of steps."""
        charge = job.step("charge", int, self.order)
        with job.step_transaction("book") as step:
            if not step.is_done:
                step.txn.execute("insert into booking values (%s)", (charge,))
                step.result = "booked"
        try:
            answer = job.wait_for("approved", timeout=timedelta(days=1))
        except TimedOut:
            return "too late"
        job.sleep("cool off", timedelta(hours=1))
        return [step.result, answer, job.call("report", Report(self.order))]


@pytest.fixture(scope="module")
def open_connection(dsn18: str, templates: Templates) -> Iterator[Any]:
    """A connection to a database with the schema, for all tests of this file."""
    with (
        fresh_database(dsn18, templates.name(dsn18)) as dsn,
        closing(psycopg2.connect(dsn)) as connection,
    ):
        yield connection


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


async def drained(cls: type[Any], **options: Any) -> list[tuple[str, dict[str, str]]]:
    """Drain, with a loop if the handlers need one; return how the runs have ended."""
    drain = testing.adrain(**options) if cls is OrderInAsyncio else None
    runs = testing.drain(**options) if drain is None else await drain
    return [(run.kind, dict(run.waits)) for run in runs]


@pytest.mark.parametrize("cls", [Order, OrderInAsyncio, OrderInThread])
@pytest.mark.parametrize("is_early", [False, True])
async def test_an_order_is_shipped(cls: type[Any], connection: Any, *, is_early: bool) -> None:
    """By a signal, sent before the wait or after it, an hour that passes at once, and a child."""
    job_id = enqueue(connection, cls(7))
    signal = "select txqueue.signal(%s, 'approved', '\"yes\"')"
    if is_early:
        value(connection, signal, job_id)
    else:
        assert await drained(cls) == [("suspended", {"approved": "signal"})]
        assert await drained(cls, where=[job_id]) == []
        value(connection, signal, job_id)
    runs = await drained(cls, where=[job_id], until=timedelta(hours=2))
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


@pytest.mark.parametrize("cls", [Order, OrderInAsyncio, OrderInThread])
async def test_a_wait_times_out(cls: type[Any], connection: Any) -> None:
    """The time passes at once; before that, the job waits."""
    job_id = enqueue(connection, cls(7))
    assert len(await drained(cls, until=timedelta(hours=23))) == 1
    assert await drained(cls, where=[job_id], until=timedelta(hours=25)) == [("done", {})]
    stored = value(connection, "select result from txqueue.job where job_id = %s", job_id)
    assert stored == "too late"


async def test_a_run_says_which_steps_it_has_done(connection: Any) -> None:
    """And which work it has called."""
    enqueue(connection, Order(7))
    (run,) = testing.drain()
    assert run.steps == {"charge": 7, "book": "booked"}
    assert run.calls == {}

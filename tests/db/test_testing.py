"""What `txqueue.testing` promises, over a connection of psycopg2 that is rolled back."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, cast

import psycopg2
import pytest

from tests.db.tested_work import Expiring, Forever, Mail, Once, Transfer, add, report_on
from txqueue import Fail, RunningJob, task, testing
from txqueue.adapters.psycopg2 import batch, enqueue
from txqueue.errors import ConfigurationError, InvalidWork


@pytest.fixture
def connection(open_connection: Any) -> Iterator[Any]:
    """The connection, in a transaction that is rolled back after the test."""
    with testing.connected(open_connection):
        yield open_connection
    open_connection.rollback()


def rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def kinds(outcomes: list[testing.Outcome]) -> list[str]:
    """Return how runs have ended."""
    return [each.kind for each in outcomes]


def test_a_field_is_compared(connection: Any) -> None:
    """Values of fields are compared as they are stored."""
    enqueue(connection, Mail("ada", Decimal("1.10")))
    testing.assert_enqueued(Mail, amount=Decimal("1.10"))
    testing.refute_enqueued(Mail, amount=Decimal("1.2"))
    with pytest.raises(InvalidWork, match="amount"):
        testing.assert_enqueued(Mail, amount="much")


def test_an_omitted_default_is_compared(connection: Any) -> None:
    """A field that the payload leaves out has its default."""
    enqueue(connection, report_on.work(rows=20))
    testing.assert_enqueued(report_on, place="here", rows=20)
    testing.refute_enqueued(report_on, place="there")


def test_a_moment_is_compared(connection: Any) -> None:
    """Moments are equal in any time zone."""
    moment = datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC)
    enqueue(connection, Mail("ada"), not_before=moment)
    testing.assert_enqueued(Mail, not_before=moment.astimezone(), state="waiting")
    testing.refute_enqueued(Mail, not_before=moment + timedelta(seconds=1))


def test_a_number_is_asserted(connection: Any) -> None:
    """With count, neither fewer nor more will do."""
    for _ in range(2):
        enqueue(connection, Mail("ada"))
    testing.assert_enqueued(Mail, count=2)
    for count in (1, 3):
        with pytest.raises(AssertionError, match=f"not {count} but 2: job of testing.mail"):
            testing.assert_enqueued(Mail, count=count)


def test_the_last_job_is_returned(connection: Any) -> None:
    """Of several, an assertion returns the one enqueued last."""
    enqueue(connection, Mail("ada"))
    last = enqueue(connection, Mail("ada"))
    assert testing.assert_enqueued(Mail).id == last


def test_ended_jobs_do_not_count(connection: Any) -> None:
    """A job that is done is not enqueued."""
    enqueue(connection, Mail("ada"))
    testing.drain()
    testing.refute_enqueued(Mail)
    testing.assert_enqueued(Mail, state="done")


def test_a_failure_tells_which_jobs_there_are(connection: Any) -> None:
    """It names those of the class with their differences first, and counts the others."""
    number = enqueue(connection, Mail("ada"), priority=6)
    enqueue(connection, add.work(1))
    with pytest.raises(AssertionError) as raised:
        testing.assert_enqueued(Mail, to="bob", queue="mail", priority=6)
    assert str(raised.value).splitlines() == [
        "no job of testing.mail with to='bob', queue='mail', priority=6 is enqueued. There are:",
        f"  job {number} testing.mail in mail, waiting {{'to': 'ada', 'amount': '0'}}:"
        " to='ada', not 'bob'",
        "  jobs of other types: testing.add (1)",
    ]


def test_a_refusal_names_the_job(connection: Any) -> None:
    """refute_enqueued says which job there is."""
    number = enqueue(connection, Mail("ada"))
    with pytest.raises(AssertionError, match=f"job {number} testing.mail in mail"):
        testing.refute_enqueued(Mail)


def test_an_unknown_name_is_refused(connection: Any) -> None:
    """A name that neither the class nor jobs have is no condition that always fails."""
    with pytest.raises(TypeError, match=r"did you mean amount\?"):
        testing.refute_enqueued(Mail, amuont=1)


def test_a_drain_leaves_unrelated_jobs(connection: Any) -> None:
    """With a class, jobs of others stay; so do jobs that other transactions have enqueued."""
    enqueue(connection, Mail("ada"))
    enqueue(connection, add.work(1))
    assert kinds(testing.drain(Mail)) == ["done"]
    testing.assert_enqueued(add, count=1)
    assert kinds(testing.drain({"queue": "elsewhere"})) == []


def test_a_drain_runs_what_waits(connection: Any) -> None:
    """The callback of a batch runs after its jobs."""
    with batch(connection, report_on.work()) as jobs:
        jobs.enqueue(Mail("failing"))
    outcomes = testing.drain(Mail, raise_errors=False)
    assert kinds(outcomes) == ["failed", "done"]
    assert outcomes[1].get() == [0, 1]


def test_a_drain_follows_time(connection: Any) -> None:
    """Nothing runs before it is due; with until, jobs run in the order of time."""
    soon = enqueue(connection, Mail("ada"), not_before=datetime.now(UTC) + timedelta(hours=2))
    first = enqueue(connection, Mail("bob"), not_before=datetime.now(UTC) + timedelta(hours=1))
    assert testing.drain() == []
    assert [each.job_id for each in testing.drain(until=timedelta(hours=3))] == [first, soon]


def test_a_drain_until_something_else_is_refused(connection: Any) -> None:
    """Nothing runs: a number is not taken for no time at all."""
    enqueue(connection, Mail("ada"))
    for until in (10, "10"):
        with pytest.raises(TypeError, match="pass a timedelta"):
            testing.drain(until=cast("Any", until))
    for past in (timedelta(seconds=-1), datetime(2026, 1, 1)):
        with pytest.raises(ValueError, match=r"is in the past|has no time zone"):
            testing.drain(until=past)
    testing.assert_enqueued(Mail, count=1)


def test_a_retry_is_due_after_its_run(connection: Any) -> None:
    """A retry's delay begins at the moment that counts as now, not at the real one."""
    enqueue(connection, Mail("broken"), not_before=datetime.now(UTC) + timedelta(minutes=10))
    outcomes = testing.drain(until=timedelta(minutes=10, seconds=45), raise_errors=False)
    assert [(each.kind, each.attempt) for each in outcomes] == [("retry", 1), ("retry", 2)]


def test_a_job_expires_in_time(connection: Any) -> None:
    """By the moment that counts as now, a job whose not_after has passed is cancelled."""
    at = datetime.now(UTC) + timedelta(hours=1)
    enqueue(connection, Expiring(), not_after=at)
    assert kinds(testing.drain(until=at + timedelta(hours=2))) == ["snooze", "cancelled"]


def test_a_drain_ends(connection: Any) -> None:
    """Work that is never done is named after limit runs, and its jobs stay in the queue."""
    enqueue(connection, Forever())
    with pytest.raises(
        AssertionError, match=r"5 runs were not enough: testing.forever snooze \(5\)"
    ):
        testing.drain(limit=5)
    testing.assert_enqueued(Forever, state=["waiting", "ready"])


def test_the_first_error_is_raised(connection: Any) -> None:
    """A handler's own error arrives with its traceback, once the attempt is stored."""
    enqueue(connection, Mail("broken"))
    with pytest.raises(ValueError, match="no such address") as raised:
        testing.drain()
    assert raised.traceback[-1].name == "perform"
    assert testing.assert_enqueued(Mail).attempt == 1


def test_a_failure_without_error_is_raised(connection: Any) -> None:
    """A payload that does not fit its class is an error of the drain too."""
    with connection.cursor() as cursor:
        cursor.execute("""select txqueue.enqueue('testing.mail', '{"wrong": 1}', 'mail')""")
    with pytest.raises(InvalidWork, match="wrong"):
        testing.drain()


def test_groups_and_keys_are_kept(connection: Any) -> None:
    """Jobs of a group run in order, and a unique key is free again after its job."""
    connection.cursor().execute("create table app (amount bigint, text text)")
    for amount in (3, 1, 2):
        enqueue(connection, Transfer(amount))
    assert kinds(testing.drain(Transfer)) == ["done"] * 6
    assert rows(connection, "select amount from app") == [(3,), (1,), (2,)]
    assert enqueue(connection, Once("a")) == enqueue(connection, Once("a"))
    testing.drain(Once)
    assert kinds(testing.drain([enqueue(connection, Once("a"))])) == ["done"]


def test_a_group_without_room_waits(connection: Any) -> None:
    """A job whose group takes none now does not run."""
    enqueue(connection, Transfer(1))
    rows(connection, "select txqueue.pause('group', 'accounts', 'test')")
    assert testing.drain() == []


def test_a_rate_is_of_the_clock(connection: Any) -> None:
    """A group's rate lets as many jobs run as on a node, whatever the moment that counts as now."""
    connection.cursor().execute("create table app (amount bigint, text text)")
    arguments = "'group', 'accounts', null, 0.001, 1, null, null, 'test'"
    rows(connection, f"select txqueue.set_limit({arguments})")
    for amount in (1, 2):
        enqueue(connection, Transfer(amount))
    outcomes = testing.drain(Transfer, until=timedelta(days=1))
    assert [each.work_type for each in outcomes] == ["testing.transfer", "testing.mail"]
    testing.assert_enqueued(Transfer, waiting_for="rate", count=1)


def test_a_paused_queue_stays(connection: Any) -> None:
    """A queue that is paused gives out no job."""
    enqueue(connection, Mail("ada"))
    rows(connection, "select txqueue.pause('queue', 'mail', 'test')")
    assert testing.drain() == []


def test_a_stage_follows(connection: Any) -> None:
    """After Next, the job's next stage runs with its own attempts."""
    number = enqueue(connection, Mail("next"))
    outcomes = testing.drain()
    assert [(each.kind, each.job_id, each.attempt) for each in outcomes] == [
        ("next", number, 1),
        ("done", number, 1),
    ]
    assert outcomes[0].stage == Mail("the next stage")


def test_all_is_cleared(connection: Any) -> None:
    """clear() deletes jobs in any state, limits and what nodes have published."""
    enqueue(connection, Mail("ada"), tenant="t", after=[enqueue(connection, add.work(1))])
    testing.drain()
    enqueue(connection, Mail("bob"), not_before=datetime.now(UTC) + timedelta(days=1))
    rows(connection, "select txqueue.pause('queue', 'mail', 'test')")
    testing.clear()
    assert rows(connection, "select (select count(*) from txqueue.job)") == [(0,)]
    assert rows(connection, "select count(*) from txqueue.control") == [(0,)]


def test_a_handler_can_use_a_transaction(connection: Any) -> None:
    """perform() gives job.transaction() the test's connection, and completes nothing."""
    connection.cursor().execute("create table app (amount bigint, text text)")
    outcome = testing.perform(Transfer(4), attempt=2)
    assert (outcome.kind, outcome.attempt) == ("done", 2)
    testing.assert_enqueued(Mail, to="owner of 4")
    assert testing.perform(Transfer(-4)).kind == "retry"
    assert rows(connection, "select amount from app") == [(4,)]


@task(name="testing.sum_of_parents")
async def sum_of_parents(job: RunningJob) -> None:
    """Store the sum of what the parents have returned."""
    assert job.parents is not None
    assert job.parents.ids is not None
    async with job.transaction() as txn:
        await txn.execute(
            "insert into total select sum(result::text::int) from txqueue.job"
            " where job_id = any(%s) and state = 'done'",
            [list(job.parents.ids)],
        )


@task(name="testing.number")
def number(value: int) -> int:
    """Return a number, unless it is 13."""
    if value == 13:
        raise Fail("unlucky")
    return value


def test_a_callback_reads_the_results_of_its_parents(connection: Any) -> None:
    """By their numbers, in its own transaction."""
    connection.cursor().execute("create temporary table total (value int) on commit drop")
    with batch(connection, sum_of_parents.work()) as jobs:
        jobs.enqueue_many([number.work(value) for value in (1, 13, 30)])
    testing.drain(raise_errors=False)
    with connection.cursor() as cursor:
        cursor.execute("select value from total")
        assert cursor.fetchall() == [(31,)]


@task(name="testing.commit_elsewhere")
def commit_elsewhere(dsn: str) -> None:
    """Commit a job as another process would."""
    with closing(psycopg2.connect(dsn)) as other, other:
        enqueue(other, Mail("committed meanwhile"))


@task(name="testing.late")
async def late(job: RunningJob) -> int:
    """Return a value after the job's own transaction."""
    async with job.transaction():
        pass
    return 7


def test_a_late_result_is_stored_as_on_a_node(connection: Any) -> None:
    """In the job's row, where callers read it."""
    enqueue(connection, late.work())
    (outcome,) = testing.drain()
    assert outcome.get() == 7
    assert testing.assert_enqueued(late, state="done").result == 7


def test_a_heavy_job_runs(connection: Any) -> None:
    """Its weight is that of its assignment, too."""
    enqueue(connection, Mail("ann"), weight=5)
    assert [each.get() for each in testing.drain()] == ["sent to ann"]


def test_jobs_of_other_transactions_stay(connection: Any) -> None:
    """A drain in a transaction begins with its own jobs; with a condition, others run too."""
    with closing(psycopg2.connect(connection.dsn)) as other:
        with other:
            enqueue(other, Mail("committed before"))
        enqueue(connection, Mail("own"))
        enqueue(connection, commit_elsewhere.work(connection.dsn))
        assert [each.get() for each in testing.drain()] == ["sent to own", None]
        assert len(testing.drain(Mail)) == 2
        connection.rollback()
        with other:
            testing.clear(connection=other)


def test_the_wrong_connection_is_refused(connection: Any) -> None:
    """An object that is no connection, and a call without one."""
    with pytest.raises(TypeError, match="int is no connection"):
        testing.assert_enqueued(connection=5)


def test_a_call_without_connection_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no default either."""
    monkeypatch.delitem(sys.modules, "django.conf", raising=False)
    with pytest.raises(ConfigurationError, match="pass connection="):
        testing.drain()

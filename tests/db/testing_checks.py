"""What `txqueue.testing` promises, as checks over a connection of psycopg2 that is rolled back.

Each runs as a test, and again with a deliberate bug that it must notice.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, cast

import pytest

from tests.db.tested_work import Expiring, Forever, Mail, Once, Transfer, add, report_on
from txqueue import testing
from txqueue.adapters.psycopg2 import batch, enqueue
from txqueue.errors import InvalidWork

__all__ = ["CHECKS"]

Check = Callable[[Any], None]
CHECKS: Final[dict[str, Check]] = {}


def check(function: Check) -> Check:
    """Register a check."""
    CHECKS[function.__name__] = function
    return function


def rows(connection: Any, sql: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def kinds(outcomes: list[testing.Outcome]) -> list[str]:
    """Return how runs have ended."""
    return [each.kind for each in outcomes]


@check
def a_field_is_compared(connection: Any) -> None:
    """Values of fields are compared as they are stored."""
    enqueue(connection, Mail("ada", Decimal("1.10")))
    testing.assert_enqueued(Mail, amount=Decimal("1.10"))
    testing.refute_enqueued(Mail, amount=Decimal("1.2"))
    with pytest.raises(InvalidWork, match="amount"):
        testing.assert_enqueued(Mail, amount="much")


@check
def an_omitted_default_is_compared(connection: Any) -> None:
    """A field that the payload leaves out has its default."""
    enqueue(connection, report_on.work(rows=20))
    testing.assert_enqueued(report_on, place="here", rows=20)
    testing.refute_enqueued(report_on, place="there")


@check
def a_moment_is_compared(connection: Any) -> None:
    """Moments are equal in any time zone."""
    moment = datetime(2031, 1, 2, 3, 4, 5, tzinfo=UTC)
    enqueue(connection, Mail("ada"), not_before=moment)
    testing.assert_enqueued(Mail, not_before=moment.astimezone(), state="waiting")
    testing.refute_enqueued(Mail, not_before=moment + timedelta(seconds=1))


@check
def a_number_is_asserted(connection: Any) -> None:
    """With count, neither fewer nor more will do."""
    for _ in range(2):
        enqueue(connection, Mail("ada"))
    testing.assert_enqueued(Mail, count=2)
    for count in (1, 3):
        with pytest.raises(AssertionError, match=f"not {count} but 2: job of testing.mail"):
            testing.assert_enqueued(Mail, count=count)


@check
def the_last_job_is_returned(connection: Any) -> None:
    """Of several, an assertion returns the one enqueued last."""
    enqueue(connection, Mail("ada"))
    last = enqueue(connection, Mail("ada"))
    assert testing.assert_enqueued(Mail).id == last


@check
def ended_jobs_do_not_count(connection: Any) -> None:
    """A job that is done is not enqueued."""
    enqueue(connection, Mail("ada"))
    testing.drain()
    testing.refute_enqueued(Mail)
    testing.assert_enqueued(Mail, state="done")


@check
def a_failure_tells_which_jobs_there_are(connection: Any) -> None:
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


@check
def a_refusal_names_the_job(connection: Any) -> None:
    """refute_enqueued says which job there is."""
    number = enqueue(connection, Mail("ada"))
    with pytest.raises(AssertionError, match=f"job {number} testing.mail in mail"):
        testing.refute_enqueued(Mail)


@check
def an_unknown_name_is_refused(connection: Any) -> None:
    """A name that neither the class nor jobs have is no condition that always fails."""
    with pytest.raises(TypeError, match=r"did you mean amount\?"):
        testing.refute_enqueued(Mail, amuont=1)


@check
def a_capture_begins_with_its_block(connection: Any) -> None:
    """Jobs enqueued before the block are not captured, those that have run are."""
    enqueue(connection, Mail("before"))
    with testing.capture_enqueued(Mail) as captured:
        enqueue(connection, Mail("inside"))
        testing.drain()
    assert [job.payload["to"] for job in captured] == ["inside"]


@check
def a_drain_leaves_unrelated_jobs(connection: Any) -> None:
    """With a class, jobs of others stay; so do jobs that other transactions have enqueued."""
    enqueue(connection, Mail("ada"))
    enqueue(connection, add.work(1))
    assert kinds(testing.drain(Mail)) == ["done"]
    testing.assert_enqueued(add, count=1)
    assert kinds(testing.drain({"queue": "elsewhere"})) == []


@check
def a_drain_runs_what_jobs_enqueue(connection: Any) -> None:
    """Follow-up work runs too."""
    outcomes = testing.drain([enqueue(connection, Mail("friends"))])
    assert [each.get() for each in outcomes] == ["sent to friends", "sent to a friend"]


@check
def a_drain_runs_what_waits(connection: Any) -> None:
    """The callback of a batch runs after its jobs."""
    with batch(connection, report_on.work()) as jobs:
        jobs.enqueue(Mail("failing"))
    outcomes = testing.drain(Mail, raise_errors=False)
    assert kinds(outcomes) == ["failed", "done"]
    assert outcomes[1].get() == [0, 1]


@check
def a_drain_follows_time(connection: Any) -> None:
    """Nothing runs before it is due; with until, jobs run in the order of time."""
    soon = enqueue(connection, Mail("ada"), not_before=datetime.now(UTC) + timedelta(hours=2))
    first = enqueue(connection, Mail("bob"), not_before=datetime.now(UTC) + timedelta(hours=1))
    assert testing.drain() == []
    assert [each.job_id for each in testing.drain(until=timedelta(hours=3))] == [first, soon]


@check
def a_drain_until_something_else_is_refused(connection: Any) -> None:
    """Nothing runs: a number is not taken for no time at all."""
    enqueue(connection, Mail("ada"))
    for until in (10, "10"):
        with pytest.raises(TypeError, match="pass a timedelta"):
            testing.drain(until=cast("Any", until))
    for past in (timedelta(seconds=-1), datetime(2026, 1, 1)):
        with pytest.raises(ValueError, match=r"is in the past|has no time zone"):
            testing.drain(until=past)
    testing.assert_enqueued(Mail, count=1)


@check
def a_retry_is_due_after_its_run(connection: Any) -> None:
    """A retry's delay begins at the moment that counts as now, not at the real one."""
    enqueue(connection, Mail("broken"), not_before=datetime.now(UTC) + timedelta(minutes=10))
    outcomes = testing.drain(until=timedelta(minutes=10, seconds=45), raise_errors=False)
    assert [(each.kind, each.attempt) for each in outcomes] == [("retry", 1), ("retry", 2)]


@check
def a_job_expires_in_time(connection: Any) -> None:
    """By the moment that counts as now, a job whose not_after has passed is cancelled."""
    at = datetime.now(UTC) + timedelta(hours=1)
    enqueue(connection, Expiring(), not_after=at)
    assert kinds(testing.drain(until=at + timedelta(hours=2))) == ["snooze", "cancelled"]


@check
def a_drain_ends(connection: Any) -> None:
    """Work that is never done is named after limit runs, and its jobs stay in the queue."""
    enqueue(connection, Forever())
    with pytest.raises(
        AssertionError, match=r"5 runs were not enough: testing.forever snooze \(5\)"
    ):
        testing.drain(limit=5)
    testing.assert_enqueued(Forever, state=["waiting", "ready"])


@check
def the_first_error_is_raised(connection: Any) -> None:
    """A handler's own error arrives with its traceback, once the attempt is stored."""
    enqueue(connection, Mail("broken"))
    with pytest.raises(ValueError, match="no such address") as raised:
        testing.drain()
    assert raised.traceback[-1].name == "perform"
    assert testing.assert_enqueued(Mail).attempt == 1


@check
def a_failure_without_error_is_raised(connection: Any) -> None:
    """A payload that does not fit its class is an error of the drain too."""
    with connection.cursor() as cursor:
        cursor.execute("""select txqueue.enqueue('testing.mail', '{"wrong": 1}', 'mail')""")
    with pytest.raises(InvalidWork, match="wrong"):
        testing.drain()


@check
def groups_and_keys_are_kept(connection: Any) -> None:
    """Jobs of a group run in order, and a unique key is free again after its job."""
    connection.cursor().execute("create table app (amount bigint, text text)")
    for amount in (3, 1, 2):
        enqueue(connection, Transfer(amount))
    assert kinds(testing.drain(Transfer)) == ["done"] * 6
    assert rows(connection, "select amount from app") == [(3,), (1,), (2,)]
    assert enqueue(connection, Once("a")) == enqueue(connection, Once("a"))
    testing.drain(Once)
    assert kinds(testing.drain([enqueue(connection, Once("a"))])) == ["done"]


@check
def a_group_without_room_waits(connection: Any) -> None:
    """A job whose group takes none now does not run."""
    enqueue(connection, Transfer(1))
    rows(connection, "select txqueue.pause('group', 'accounts', 'test')")
    assert testing.drain() == []


@check
def a_rate_is_of_the_clock(connection: Any) -> None:
    """A group's rate lets as many jobs run as on a node, whatever the moment that counts as now."""
    connection.cursor().execute("create table app (amount bigint, text text)")
    arguments = "'group', 'accounts', null, 0.001, 1, null, null, 'test'"
    rows(connection, f"select txqueue.set_limit({arguments})")
    for amount in (1, 2):
        enqueue(connection, Transfer(amount))
    outcomes = testing.drain(Transfer, until=timedelta(days=1))
    assert [each.work_type for each in outcomes] == ["testing.transfer", "testing.mail"]
    testing.assert_enqueued(Transfer, waiting_for="rate", count=1)


@check
def a_paused_queue_stays(connection: Any) -> None:
    """A queue that is paused gives out no job."""
    enqueue(connection, Mail("ada"))
    rows(connection, "select txqueue.pause('queue', 'mail', 'test')")
    assert testing.drain() == []


@check
def a_stage_follows(connection: Any) -> None:
    """After Next, the job's next stage runs with its own attempts."""
    number = enqueue(connection, Mail("next"))
    outcomes = testing.drain()
    assert [(each.kind, each.job_id, each.attempt) for each in outcomes] == [
        ("next", number, 1),
        ("done", number, 1),
    ]
    assert outcomes[0].stage == Mail("the next stage")


@check
def results_are_stored(connection: Any) -> None:
    """A result is in the row, as a node stores it."""
    number = enqueue(connection, add.work(1, second=2))
    assert testing.drain()[0].get() == 3
    (job,) = testing.all_enqueued(add, state="done", id=number)
    assert job.result == 3


@check
def all_is_cleared(connection: Any) -> None:
    """clear() deletes jobs in any state, limits and what nodes have published."""
    enqueue(connection, Mail("ada"), tenant="t", after=[enqueue(connection, add.work(1))])
    testing.drain()
    enqueue(connection, Mail("bob"), not_before=datetime.now(UTC) + timedelta(days=1))
    rows(connection, "select txqueue.pause('queue', 'mail', 'test')")
    testing.clear()
    assert rows(connection, "select (select count(*) from txqueue.job)") == [(0,)]
    assert rows(connection, "select count(*) from txqueue.control") == [(0,)]


@check
def a_handler_can_use_a_transaction(connection: Any) -> None:
    """perform() gives job.transaction() the test's connection, and completes nothing."""
    connection.cursor().execute("create table app (amount bigint, text text)")
    outcome = testing.perform(Transfer(4), attempt=2)
    assert (outcome.kind, outcome.attempt) == ("done", 2)
    testing.assert_enqueued(Mail, to="owner of 4")
    assert testing.perform(Transfer(-4)).kind == "retry"
    assert rows(connection, "select amount from app") == [(4,)]

"""A job's own transaction: one in a run, what follows its commit, and a database without room."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from twisted.internet.defer import CancelledError, Deferred

from tests.unit.worker.performing import Handled, Harness
from txqueue import Fail, Retry, RunningJob
from txqueue.errors import DatabaseUnavailable, TransactionMisused
from txqueue.policy.endings.outcome import CONNECTIONLESS_PAUSE
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.worker.handlers.job_transaction import take_result
from txqueue.worker.handlers.running_job import change
from txqueue.worker.running.performer import SOON


class Database:
    """Notes what was committed; may have no connection, or lose it."""

    def __init__(self) -> None:
        self.committed: list[str] = []
        self.is_full = False
        self.is_lost = False
        self.turn: Deferred[None] | None = None
        # What one job after the other waits for.
        self.turns: Iterator[Deferred[None]] = iter(())

    @asynccontextmanager
    async def open(self, job: RunningJob) -> AsyncIterator[Any]:
        """A transaction whose commit completes the job."""
        if self.is_full:
            raise DatabaseUnavailable("too many clients already")
        if (turn := next(self.turns, self.turn)) is not None:
            await turn
        written: list[str] = []
        yield written
        if self.is_lost:
            raise DatabaseUnavailable("the connection was lost")
        self.committed += written
        change(job, is_completed=True)


@pytest.fixture
def database() -> Database:
    """One with room."""
    return Database()


@pytest.fixture
def harness(database: Database) -> Harness:
    """A performer whose jobs have transactions there."""
    return Harness(opener=database.open)


def run(harness: Harness, perform: Any, seconds: int = 0, **terms: Any) -> None:
    """Perform a job, and let so many seconds pass."""
    with harness.handler(perform, retry=Retry(attempts=1)):
        harness.performer.start()
        harness.hand(5, Handled.entry(1, terms=terms or None))
        harness.turn()
        harness.clock.pump([1.0] * seconds)


def is_done(harness: Harness) -> bool:
    """Whether its own transaction has completed the job, and nothing else is written."""
    return (harness.finished, harness.settled) == ([(5, 3, [], 1, 1)], [])


def test_a_second_transaction_is_refused(harness: Harness, database: Database) -> None:
    """What it wrote would be rolled back; the job is done, and the error is kept with it."""

    async def perform(_: object, job: RunningJob) -> None:
        for number in (1, 2):
            async with job.transaction() as txn:
                txn.append(f"row {number}")  # type: ignore[attr-defined]

    run(harness, perform)
    assert database.committed == ["row 1"]
    assert is_done(harness)
    ((job_id, text),) = harness.late_errors
    assert job_id == 1
    assert "job 1 is done: its own transaction has committed" in text
    assert text.startswith("after its transaction had committed, the handler failed: ")


@pytest.mark.parametrize(
    ("given", "returned", "late", "said"),
    [
        (None, 7, [(1, "7")], []),
        (7, 7, [], []),
        (7, None, [], []),
        (None, object(), [], ["is not JSON"]),
        (7, 8, [], ["another value than it had set as txn.result"]),
    ],
)
def test_a_value_that_comes_after_the_commit(
    harness: Harness, *, given: Any, returned: Any, late: Any, said: list[str]
) -> None:
    """It is stored if the transaction has kept none; else its loss is noted."""

    async def perform(_: object, job: RunningJob) -> Any:
        async with job.transaction():
            take_result(job, cast("Transaction", SimpleNamespace(result=given)), 100)
        return returned

    run(harness, perform)
    assert is_done(harness)
    assert harness.late_results == late
    assert [job_id for job_id, _ in harness.late_errors] == [1] * len(said)
    assert all(each in text for each, (_, text) in zip(said, harness.late_errors, strict=True))


def test_jobs_are_coalesced_by_a_call_that_is_awaited(harness: Harness, database: Database) -> None:
    """Otherwise the transaction is rolled back."""

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction() as txn:
            change(job, within=txn)
            job.coalesce()  # type: ignore[unused-coroutine]
            take_result(job, cast("Transaction", SimpleNamespace(result=None)), 100)

    run(harness, perform)
    assert database.committed == []
    (settled,) = harness.settled
    assert "job.coalesce(...) was not awaited" in settled["error"]


def test_a_commit_is_reported(harness: Harness, database: Database) -> None:
    """Once with the end of the run, so that clients that wait for the job are notified."""

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction():
            pass

    run(harness, perform)
    assert is_done(harness)
    assert harness.committed == [1]


def test_a_commit_is_reported_before_the_handler_ends(harness: Harness) -> None:
    """It may go on for long, but the job has ended."""
    going_on: Deferred[None] = Deferred()

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction():
            pass
        await going_on

    run(harness, perform)
    assert (harness.committed, harness.finished) == ([1], [(5, 3, [], 0, 0)])
    going_on.callback(None)
    harness.turn()
    assert harness.finished[1:] == [(5, 3, [], 1, 1)]


def test_a_transaction_that_is_rolled_back_is_not_reported(
    harness: Harness, database: Database
) -> None:
    """The job has not ended by it."""
    database.is_lost = True

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction():
            pass

    run(harness, perform)
    assert harness.committed == []


def test_a_nested_transaction_is_refused(harness: Harness, database: Database) -> None:
    """Its commit would complete the job, and the outer one would be lost."""

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction() as txn:
            txn.append("outer")  # type: ignore[attr-defined]
            async with job.transaction():
                raise AssertionError

    run(harness, perform)
    assert database.committed == []
    (settled,) = harness.settled
    assert settled["outcome"] == "failed"
    assert "opens its own transaction while it has one open" in settled["error"]


def test_a_transaction_without_async_is_refused(harness: Harness, database: Database) -> None:
    """A coroutine cannot block; nothing is opened."""

    async def perform(_: object, job: RunningJob) -> None:
        with job.transaction():  # type: ignore[attr-defined]
            raise AssertionError

    run(harness, perform)
    assert database.committed == []
    (settled,) = harness.settled
    assert settled["outcome"] == "failed"
    assert "write async with; with runtime = Runtime.THREAD, a plain function" in settled["error"]


def test_a_handler_may_go_on_in_the_transaction_that_is_open(
    harness: Harness, database: Database
) -> None:
    """The refusal of another one changes nothing."""

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction() as txn:
            with pytest.raises(TransactionMisused):
                async with job.transaction():
                    raise AssertionError
            txn.append("all the same")  # type: ignore[attr-defined]

    run(harness, perform)
    assert database.committed == ["all the same"]
    assert is_done(harness)


def test_a_transaction_that_was_rolled_back_may_be_repeated(
    harness: Harness, database: Database
) -> None:
    """As after a serialization failure."""

    async def perform(_: object, job: RunningJob) -> None:
        for number in (1, 2):
            try:
                async with job.transaction() as txn:
                    txn.append(f"try {number}")  # type: ignore[attr-defined]
                    if number == 1:
                        raise ValueError("deadlock")
            except ValueError:
                continue

    run(harness, perform)
    assert database.committed == ["try 2"]
    assert is_done(harness)


@pytest.mark.parametrize("is_returned", [True, False])
def test_an_error_after_the_commit_is_kept(harness: Harness, is_returned: bool) -> None:
    """Returned directives as well; the job stays done, and its node logs the error."""

    async def perform(_: object, job: RunningJob) -> Any:
        async with job.transaction():
            pass
        if is_returned:
            return Fail("no mail was sent")
        raise ValueError("no mail was sent")

    run(harness, perform)
    assert is_done(harness)
    assert [job_id for job_id, _ in harness.late_errors] == [1]
    assert "no mail was sent" in harness.late_errors[0][1]
    ((is_grave, line),) = harness.logged
    assert is_grave
    assert line.startswith("job 1 (performing.handled) is done, but after its transaction had")
    assert "no mail was sent" in line


def test_an_error_after_the_commit_may_be_secret(harness: Harness) -> None:
    """Of redacted work the log has only its class."""

    async def perform(_: object, job: RunningJob) -> Any:
        async with job.transaction():
            pass
        raise ValueError("ann's card")

    run(harness, perform, redacted=True)
    ((_, line),) = harness.logged
    assert "ValueError" in line
    assert "card" not in line


def test_a_job_without_a_connection_spends_no_attempt(harness: Harness, database: Database) -> None:
    """It runs again soon, however few attempts it has."""
    database.is_full = True

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction():
            raise AssertionError

    run(harness, perform)
    (settled,) = harness.settled
    assert settled["outcome"] == "snooze"
    assert 0.5 * CONNECTIONLESS_PAUSE <= settled["delay"] <= 1.5 * CONNECTIONLESS_PAUSE
    assert settled["error"].startswith("txqueue.errors.DatabaseUnavailable: too many clients")


@pytest.mark.parametrize("is_lost", [True, False])
def test_other_errors_without_a_connection_spend_one(
    harness: Harness, database: Database, is_lost: bool
) -> None:
    """A connection that is lost: perhaps by the handler's statements. An error of its own."""
    database.is_lost = is_lost
    database.is_full = not is_lost

    async def perform(_: object, job: RunningJob) -> None:
        try:
            async with job.transaction():
                pass
        except DatabaseUnavailable as error:
            if is_lost:
                raise
            raise ValueError("something else") from error

    run(harness, perform)
    assert [each["outcome"] for each in harness.settled] == ["failed"]


@pytest.mark.parametrize("is_other", [False, True])
@pytest.mark.parametrize("ends_by", ["timeout", "heartbeat"])
def test_a_run_that_ends_while_it_waits_for_a_connection_spends_no_attempt(
    harness: Harness,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    is_other: bool,
    ends_by: str,
) -> None:
    """Handlers of other jobs had all connections; it says so, and runs again soon."""
    database.turn = Deferred()
    monkeypatch.setattr(Handled, "heartbeat", 3.0 if ends_by == "heartbeat" else None)

    async def perform(_: object, job: RunningJob) -> None:
        try:
            async with job.transaction():
                raise AssertionError
        except CancelledError:
            if not is_other:
                raise
            # As asyncio does: the error that ends the run is another object.
            raise CancelledError from None

    run(harness, perform, 6, **({"timeout": 3.0} if ends_by == "timeout" else {}))
    (settled,) = harness.settled
    assert settled["outcome"] == "snooze"
    assert 0.5 * CONNECTIONLESS_PAUSE <= settled["delay"] <= 1.5 * CONNECTIONLESS_PAUSE
    assert "while it waited for a connection of job.transaction()" in settled["error"]


def test_a_timeout_within_the_transaction_spends_an_attempt(harness: Harness) -> None:
    """It had its connection, so its own statements took so long."""

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction():
            await harness.wait(job)

    run(harness, perform, 4, timeout=3.0)
    (settled,) = harness.settled
    assert settled["outcome"] == "failed"
    assert settled["error"].startswith("TimeoutError: it ran for longer than its timeout of 3 s\n")


def test_a_timeout_after_a_wait_for_a_connection_spends_an_attempt(
    harness: Harness, database: Database
) -> None:
    """The handler has caught an earlier error of its wait, and runs on until it is late."""
    database.is_full = True

    async def perform(_: object, job: RunningJob) -> None:
        with suppress(DatabaseUnavailable):
            async with job.transaction():
                raise AssertionError
        await harness.wait(job)

    run(harness, perform, 4, timeout=3.0)
    assert [each["outcome"] for each in harness.settled] == ["failed"]


def test_an_operator_cancels_a_job_that_waits_for_a_connection(
    harness: Harness, database: Database
) -> None:
    """It does not run again."""
    database.turn = Deferred()

    async def perform(_: object, job: RunningJob) -> None:
        async with job.transaction():
            raise AssertionError

    with harness.handler(perform, 5, Handled.entry(1)):
        harness.performer.cancel(5, 1, "ann")
        harness.turn()
    assert [each["outcome"] for each in harness.settled] == ["cancelled"]


async def held_up(_: object, job: RunningJob) -> None:
    """Write in the job's own transaction, which waits until the test lets it go on."""
    async with job.transaction():
        pass


def handed(harness: Harness, database: Database, jobs: int) -> list[Deferred[None]]:
    """Hand over jobs of which one runs at a time; return what each waits for."""
    turns: list[Deferred[None]] = [Deferred() for _ in range(jobs)]
    database.turns = iter(turns)
    harness.hand(5, *(Handled.entry(number) for number in range(1, jobs + 1)))
    harness.turn()
    return turns


def test_completed_jobs_are_reported_together_while_others_wait(database: Database) -> None:
    """The master only claims others for them; the next job starts without a turn of the reactor."""
    harness = Harness(capacity=1, opener=database.open)
    with harness.handler(held_up):
        turns = handed(harness, database, 20)
        for number in (0, 1):
            turns[number].callback(None)
            assert harness.in_flight.ids == {number + 2}
            harness.turn()
        assert harness.finished == []
        turns[2].callback(None)
        harness.turn()
        assert harness.finished == [(5, 3, [], 3, 3)]
        for turn in turns[3:]:
            turn.callback(None)
            harness.turn()
    assert sum(jobs for _, _, _, jobs, _ in harness.finished) == 20
    # The last ones wait for none.
    assert harness.finished[-1][3] == 1


def test_a_completed_job_is_reported_soon(database: Database) -> None:
    """Even if no other job ends meanwhile: a client may wait for its end."""
    harness = Harness(capacity=1, opener=database.open)
    with harness.handler(held_up):
        turns = handed(harness, database, 20)
        turns[0].callback(None)
        harness.turn()
        assert harness.finished == []
        harness.clock.advance(SOON)
        assert harness.finished == [(5, 3, [], 1, 1)]
        harness.performer.stop()

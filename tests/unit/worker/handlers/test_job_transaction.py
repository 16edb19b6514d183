"""What a handler says comes after its job: carried with the completion, or the job goes on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from attrs import define
from twisted.internet.defer import Deferred

from tests.unit.worker.performing import Handled, Harness
from txqueue import Next, RunningJob, Snooze, UniqueMode, WorkItem
from txqueue.errors import DatabaseUnavailable, InvalidWork, Refused
from txqueue.store.enqueueing.calls import job_object
from txqueue.worker.handlers.job_transaction import enqueue_follow_ups
from txqueue.worker.handlers.running_job import Parents, change


@define
class Stage(WorkItem):
    """What comes then."""

    work_type = "stages.stage"
    unique_mode = UniqueMode.AGAIN

    number: int

    @property
    def unique(self) -> str | None:
        """A key, but for 0."""
        return f"stage {self.number}" if self.number else None

    def perform(self, job: Any) -> None:
        """Do nothing."""


class Transaction:
    """Notes what is enqueued; refuses one."""

    def __init__(self) -> None:
        self.enqueued: list[tuple[WorkItem, dict[str, Any]]] = []

    async def enqueue(self, work: WorkItem, **options: Any) -> int:
        """Note it."""
        if options.get("queue") == "full":
            raise Refused("the queue is full", "later")
        self.enqueued.append((work, options))
        return len(self.enqueued)


class Opened:
    """The transactions that jobs have opened."""

    def __init__(self) -> None:
        self.results: list[str | None] = []
        self.committed: list[tuple[WorkItem, dict[str, Any]]] = []
        self.away = 0

    @asynccontextmanager
    async def open(self, job: RunningJob) -> AsyncIterator[Any]:
        """A transaction whose commit completes the job."""
        if self.away > 0:
            self.away -= 1
            raise DatabaseUnavailable("the database is away")
        txn: Any = Transaction()
        change(job, within=txn)
        try:
            yield txn
            await enqueue_follow_ups(job, txn)
        finally:
            change(job, within=None)
        self.results.append(job.result)
        self.committed += txn.enqueued
        change(job, is_completed=True)


@pytest.fixture
def opened() -> Opened:
    """No transaction yet."""
    return Opened()


@pytest.fixture
def harness(opened: Opened) -> Harness:
    """A performer whose jobs may open transactions."""
    return Harness(opener=opened.open)


def test_what_comes_then_is_enqueued_with_the_completion(harness: Harness, opened: Opened) -> None:
    """By a plain function, with its options, and with what it returns."""

    def perform(_: Any, job: RunningJob) -> str:
        assert job.then(Stage(1), priority=9) is not None
        return "kept"

    harness.perform(perform, 1, Handled.entry(7))
    assert opened.committed == [(Stage(1), {"priority": 9})]
    assert opened.results == ['"kept"']
    assert harness.settled == []
    assert [(done, jobs) for _, _, done, jobs, _ in harness.finished] == [([], 1)]


def test_what_comes_of_a_job_that_waited(harness: Harness, opened: Opened) -> None:
    """The same; and within its own transaction it is a part of that."""

    async def perform(_: Any, job: RunningJob) -> None:
        await harness.wait(job)
        if job.id == 8:
            async with job.transaction():
                assert await job.then(Stage(2)) == 1
        else:
            assert await job.then(Stage(1)) is None

    with harness.handler(perform, 1, Handled.entry(7), Handled.entry(8)):
        harness.end_all()
    assert [work for work, _ in opened.committed] == [Stage(1), Stage(2)]


def test_work_added_before_the_own_transaction(harness: Harness, opened: Opened) -> None:
    """It is a part of that; what is said after it is refused."""
    said: list[str] = []

    async def perform(_: Any, job: RunningJob) -> None:
        await job.then(Stage(1))
        async with job.transaction():
            await job.then(Stage(2))
        with pytest.raises(InvalidWork, match="job 7 is completed") as caught:
            job.then(Stage(3))
        said.append(caught.value.remedy)

    harness.perform(perform, 1, Handled.entry(7))
    assert [work for work, _ in opened.committed] == [Stage(2), Stage(1)]
    assert len(said) == 1


@pytest.mark.parametrize("ending", [ValueError("no"), Snooze(1.0)])
def test_nothing_comes_of_a_job_that_is_not_done(
    harness: Harness, opened: Opened, ending: Exception
) -> None:
    """Whether it raises that or returns it."""

    def perform(_: Any, job: RunningJob) -> Any:
        job.then(Stage(1))
        if isinstance(ending, Snooze):
            return ending
        raise ending

    harness.perform(perform, 1, Handled.entry(7))
    assert opened.committed == []
    assert [each["outcome"] for each in harness.settled] in (["retry"], ["snooze"])


def test_what_is_refused_fails_the_attempt(harness: Harness, opened: Opened) -> None:
    """Nothing of it is committed, and the job is tried again."""

    def perform(_: Any, job: RunningJob) -> None:
        job.then(Stage(1))
        job.then(Stage(2), queue="full")

    harness.perform(perform, 1, Handled.entry(7))
    assert opened.committed == []
    (settled,) = harness.settled
    assert (settled["outcome"], settled["error"][:40].count("Refused")) == ("retry", 1)


def test_an_invalid_stage_raises_at_once(harness: Harness) -> None:
    """In the handler, where it is said."""
    told: list[InvalidWork] = []

    def perform(_: Any, job: RunningJob) -> None:
        with pytest.raises(InvalidWork) as caught:
            job.then(Stage(1), weigth=2)  # type: ignore[call-arg]  # a wrong name
        told.append(caught.value)

    harness.perform(perform, 1, Handled.entry(7))
    assert "no option weigth" in str(told[0])


@pytest.mark.parametrize("is_raised", [False, True])
def test_a_job_continues_as_its_next_stage(harness: Harness, is_raised: bool) -> None:
    """With the payload and the options of that."""

    def perform(_: Any, job: RunningJob) -> Next:
        said = Next(Stage(0), queue="late")
        if is_raised:
            raise said
        return said

    harness.perform(perform, 1, Handled.entry(7))
    (settled,) = harness.settled
    assert settled["outcome"] == "next"
    stage = {"work_type": "stages.stage", "payload": {"number": 0}, "queue": "late"}
    # Its class has computed no group for it.
    assert settled["stage"] == {**stage, "options": {"keys": False}}


def test_a_cancelled_job_has_no_next_stage(harness: Harness) -> None:
    """Though its handler says so."""

    async def perform(_: Any, job: RunningJob) -> Next:
        try:
            await harness.wait(job)
        except BaseException:
            return Next(Stage(0))
        raise AssertionError

    with harness.handler(perform, 1, Handled.entry(7)):
        harness.performer.cancel(1, 7, "ann")
        harness.turn()
    (settled,) = harness.settled
    assert (settled["outcome"], settled["error"]) == ("cancelled", "cancelled by ann")


def test_a_next_stage_that_is_not_valid_fails_the_job(harness: Harness) -> None:
    """There is nothing to try again."""

    def perform(_: Any, job: RunningJob) -> Next:
        return Next(Stage("text"))  # type: ignore[arg-type]  # a wrong field

    harness.perform(perform, 1, Handled.entry(7))
    (settled,) = harness.settled
    assert settled["outcome"] == "failed"
    assert settled["error"].startswith("its next stage is not valid: the fields of Stage")
    with pytest.raises(ValueError, match="no option after"):
        Next(Stage(1), after=[1])


def test_a_handler_cannot_use_both_next_and_then(harness: Harness) -> None:
    """It is not done, so that would be lost: the job fails, and says why."""

    def perform(_: Any, job: RunningJob) -> Next:
        job.then(Stage(1))
        return Next(Stage(0))

    harness.perform(perform, 1, Handled.entry(7))
    (settled,) = harness.settled
    assert settled["outcome"] == "failed"
    assert "cannot use both Next and job.then()" in settled["error"]


def test_a_job_knows_how_its_parents_ended(harness: Harness) -> None:
    """None if it waited for none."""
    seen: list[Parents | None] = []

    def perform(_: Any, job: RunningJob) -> None:
        seen.append(job.parents)

    ends = {"done": 2, "failed": 1, "cancelled": 0}
    few, many = {"parents": ends, "after": [4, 5, 6]}, {"parents": ends, "after": 3000}
    with harness.handler(perform):
        harness.hand(1, Handled.entry(7, terms=few), Handled.entry(8))
        harness.hand(2, Handled.entry(9, terms=many), Handled.entry(10, terms={"parents": ends}))
        harness.turn()
    of_unknown = Parents(2, 1, 0, None)
    assert seen == [Parents(2, 1, 0, (4, 5, 6)), None, of_unknown, of_unknown]


async def test_taking_others_along_needs_the_own_transaction(harness: Harness) -> None:
    """Outside of it there is nothing that they could end with."""
    said: Deferred[str] = Deferred()

    async def perform(_: Any, job: RunningJob) -> None:
        with pytest.raises(InvalidWork, match="in its own transaction only") as caught:
            await job.coalesce()
        said.callback(caught.value.remedy)

    harness.perform(perform, 1, Handled.entry(7))
    assert "job.transaction()" in await said


def test_a_key_and_its_mode_go_along() -> None:
    """Those of the item, unless the options have others."""
    assert job_object(Stage(7))["unique"] == "stage 7"
    assert job_object(Stage(7))["unique_mode"] == "again"
    assert "unique_mode" not in job_object(Stage(0))
    chosen = job_object(Stage(0), {"unique": "k", "unique_mode": UniqueMode.REPLACE})
    assert (chosen["unique"], chosen["unique_mode"]) == ("k", "replace")


@pytest.mark.parametrize(
    ("option", "remedy"),
    [
        ({"unique_mode": "never"}, "UniqueMode.KEEP"),
        ({"after": 7}, "a list of the numbers"),
        ({"after": ["7"]}, "a list of the numbers"),
        ({"after_any_end": 1}, "any end"),
    ],
)
def test_options_about_others_are_checked(option: dict[str, Any], remedy: str) -> None:
    """Before anything is sent."""
    with pytest.raises(InvalidWork) as caught:
        job_object(Stage(0), option)
    assert remedy in caught.value.remedy


@define
class Broken(WorkItem):
    """What comes then, of which something cannot be said."""

    work_type = "stages.broken"
    why: str

    @property
    def group(self) -> Any:
        """Not text, or an error."""
        if self.why == "error":
            raise LookupError(self.why)
        return object()

    def perform(self, job: Any) -> None:
        """Do nothing."""


@pytest.mark.parametrize("why", ["error", "object"])
def test_an_invalid_stage_fails_only_its_own_job(why: str) -> None:
    """What ends after it is reported as ever."""
    harness = Harness()

    def perform(_: object, job: RunningJob) -> object:
        return Next(Broken(why)) if job.id == 1 else Snooze(1.0)

    with harness.handler(perform, 5, Handled.entry(1), Handled.entry(2)):
        harness.hand(6, Handled.entry(3))
        harness.turn()
    assert [(each["job_id"], each["outcome"]) for each in harness.settled] == [
        (1, "failed"),
        (2, "snooze"),
        (3, "snooze"),
    ]


def test_a_completion_waits_for_a_database_that_is_away(harness: Harness, opened: Opened) -> None:
    """The handler has succeeded: no attempt is spent, and what comes then is enqueued once."""
    opened.away = 3

    def perform(_: Any, job: RunningJob) -> None:
        job.then(Stage(1))

    with harness.handler(perform, 5, Handled.entry(1), timeout=1.0):
        assert harness.settled == []
        assert harness.finished == []
        harness.clock.pump([0.1] * 60)
    assert harness.settled == []
    assert harness.finished == [(5, 3, [], 1, 1)]
    assert [work for work, _ in opened.committed] == [Stage(1)]


def test_a_completion_that_waits_is_not_cancelled(harness: Harness, opened: Opened) -> None:
    """Its handler has returned, so the job becomes done and its follow-up work is enqueued."""
    opened.away = 2

    def perform(_: Any, job: RunningJob) -> None:
        job.then(Stage(1))

    with harness.handler(perform, 5, Handled.entry(1)):
        harness.performer.cancel(5, 1, "ann")
        harness.clock.pump([0.1] * 30)
    assert harness.settled == []
    assert harness.finished == [(5, 3, [], 1, 1)]
    assert [work for work, _ in opened.committed] == [Stage(1)]


def test_a_cancelled_job_whose_follow_up_work_is_refused_does_not_run_again(
    harness: Harness, opened: Opened
) -> None:
    """It cannot be done, and an operator has cancelled it meanwhile."""
    opened.away = 1

    def perform(_: Any, job: RunningJob) -> None:
        job.then(Stage(1), queue="full")

    with harness.handler(perform, 5, Handled.entry(1)):
        harness.performer.cancel(5, 1, "ann")
        harness.clock.pump([0.1] * 30)
    (settled,) = harness.settled
    assert settled["outcome"] == "cancelled"
    assert settled["error"].startswith("cancelled by ann; as it ended: ")


def test_options_about_a_key_are_sent_with_the_job() -> None:
    """As the database reads it: moments as text, lengths of time as seconds."""
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    newer = job_object(Stage(7), {"as_of": moment, "created_by": "ann"})
    assert newer["options"] == {"as_of": moment.isoformat(), "created_by": "ann"}
    once = job_object(Stage(7), {"unique_mode": UniqueMode.ONCE, "once_for": timedelta(days=1)})
    assert (once["unique_mode"], once["options"]) == ("once", {"once_for": 86400.0})


@pytest.mark.parametrize("option", [{"as_of": datetime(2026, 1, 1, tzinfo=UTC)}, {"once_for": 1}])
def test_options_about_a_key_need_a_key(option: dict[str, Any]) -> None:
    """It would mean nothing."""
    with pytest.raises(InvalidWork, match="without a key"):
        job_object(Stage(0), option)

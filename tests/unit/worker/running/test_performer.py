"""Performing jobs: starting them within capacity, and reporting how they end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from attrs import define
from twisted.internet.defer import CancelledError, Deferred

from tests.unit.worker.performing import INCARNATION, Handled, Harness, entry
from txqueue import Discard, Fail, Retry, RunningJob, Snooze, Throttled, WorkItem
from txqueue.model.assignment import AssignedJob
from txqueue.model.work_item import type_version
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.worker.handlers.running_job import change
from txqueue.worker.running.performer import SOON, STUCK


@define
class Number(WorkItem):
    """Returns nothing, at once; refuses negative numbers."""

    work_type = "performing.number"
    retry = Retry(attempts=3, first=10.0, jitter=0, fatal=(KeyError,))

    number: int

    async def perform(self, job: RunningJob) -> None:
        """Do nothing."""


def outcome(harness: Harness) -> dict[str, Any]:
    """The one outcome that was settled."""
    assert harness.finished == []
    (settled,) = harness.settled
    return settled


def test_jobs_that_return_nothing_are_finished_together() -> None:
    """One report an assignment, with the numbers, the count and the weight."""
    harness = Harness()
    harness.hand(
        5, entry(1, "performing.number", weight=2, number=1), entry(2, "performing.number")
    )
    harness.hand(6, entry(3, "performing.number"))
    harness.turn()
    assert harness.finished == [(5, 3, [1, 2], 2, 3), (6, 3, [3], 1, 1)]
    assert harness.settled == []


def test_no_more_jobs_are_started_than_the_master_allows() -> None:
    """The others wait until it lets the worker go on."""
    harness = Harness()
    harness.in_flight.limit(3)
    harness.hand(5, *(entry(job_id, "performing.number") for job_id in range(1, 6)))
    harness.turn()
    assert sum(len(ids) for _, _, ids, _, _ in harness.finished) == harness.in_flight.started == 3
    harness.in_flight.limit(0)
    harness.clock.advance(STUCK)
    assert sum(len(ids) for _, _, ids, _, _ in harness.finished) == harness.in_flight.started == 5


def test_what_ended_while_messages_were_read_is_reported_after_them() -> None:
    """In the same turn of the reactor; what waits longer has reports of its own."""
    harness = Harness()
    with harness.handler(lambda _, job: harness.wait(job)):
        with harness.performer.reading():
            harness.hand(5, entry(1, "performing.number"))
            harness.hand(6, Handled.entry(2), entry(3, "performing.number"))
            assert harness.finished == []
        assert harness.finished[0] == (5, 3, [1], 1, 1)
        harness.turn()
        assert harness.finished[1:] == [(6, 3, [3], 1, 1)]
        harness.end(2)
    assert harness.finished[2:] == [(6, 3, [2], 1, 1)]


def test_the_next_job_starts_without_a_turn_while_the_report_can_wait() -> None:
    """It can while many jobs wait; the report follows soon."""
    harness = Harness(capacity=1)
    started: list[int] = []

    def perform(_: object, job: RunningJob) -> Deferred[None]:
        started.append(job.id)
        return harness.wait(job)

    with harness.handler(perform, 5, *(Handled.entry(number) for number in range(1, 11))):
        harness.running.pop(1).callback(None)
        assert (started, harness.finished) == ([1, 2], [])
        harness.clock.advance(SOON)
        assert harness.finished == [(5, 3, [1], 1, 1)]


def test_assignments_that_end_together_are_reported_together() -> None:
    """One message wakes the master once."""
    harness = Harness()
    with harness.performer.reading():
        for assignment in (5, 6, 7):
            harness.hand(assignment, entry(assignment, "performing.number"))
    assert [number for number, *_ in harness.finished] == [5, 6, 7]
    assert harness.reports == 1


def test_ended_jobs_stay_noted_until_their_report_is_sent() -> None:
    """If a handler blocks before that, the master must not take them for unstarted."""
    harness = Harness()
    flight = harness.in_flight
    harness.is_sent = False
    for number in (1, 2):
        harness.hand(5, entry(number, "performing.number"))
        harness.turn()
    assert flight.begun == {1, 2}
    harness.is_sent = True
    harness.hand(5, entry(3, "performing.number"))
    harness.turn()
    assert flight.begun == {3}


def test_jobs_wait_while_the_master_reads_no_reports() -> None:
    """Those whose notes fit into the shared memory run; the others do once it has read them."""
    harness = Harness()
    kept = Handled.entry(1_000_000)
    with harness.handler(lambda _, job: harness.wait(job), 4, kept):
        harness.is_sent = False
        for number in range(6000):
            harness.hand(10 + number, entry(number + 1, "performing.number"))
            harness.clock.advance(0)
        ran = sum(len(ids) for _, _, ids, _, _ in harness.finished)
        assert 3000 < ran < 4096
        assert harness.in_flight.begun == {kept.job_id, *range(1, ran + 1)}
        # A stuck worker does not turn its reactor all the time.
        assert [
            call.getTime() - harness.clock.seconds() for call in harness.clock.getDelayedCalls()
        ] == [STUCK]
        harness.is_sent = True
        for _ in range(200):
            harness.clock.advance(STUCK)
        assert sum(len(ids) for _, _, ids, _, _ in harness.finished) == 6000
        harness.end(kept.job_id)
    assert harness.finished[-1] == (4, 3, [kept.job_id], 1, 1)


def test_a_job_that_waits_is_reported_when_it_ends() -> None:
    """Others of its chunk are reported before it."""
    harness = Harness()
    with harness.handler(
        lambda _, job: harness.wait(job), 5, Handled.entry(1), entry(2, "performing.number")
    ):
        assert harness.finished == [(5, 3, [2], 1, 1)]
        harness.end(1)
    assert harness.finished[1:] == [(5, 3, [1], 1, 1)]


def test_a_handler_sees_its_job() -> None:
    """Its number, which run this is, its weight."""
    harness = Harness()
    seen: list[tuple[int, int, int]] = []
    harness.perform(
        lambda _, job: seen.append((job.id, job.attempt, job.weight)),
        5,
        Handled.entry(7, attempt=3, weight=4),
    )
    assert seen == [(7, 3, 4)]


@pytest.mark.parametrize("later", [False, True])
def test_a_result_is_kept(later: bool) -> None:
    """At once or after a wait; anything but None."""
    harness = Harness()
    with harness.handler(
        lambda _, job: harness.wait(job) if later else {"a": [1]}, 5, Handled.entry(1)
    ):
        if later:
            harness.end(1, {"a": [1]})
    assert harness.results == {"1": {"a": [1]}}
    assert harness.finished == [(5, 3, [1], 1, 1)]


def test_a_result_is_stored_as_it_was_returned() -> None:
    """Small results are encoded together, later; what handlers change until then has no effect."""
    harness = Harness()
    shared: dict[str, Any] = {}

    def perform(_: object, job: RunningJob) -> object:
        shared["last"] = job.id
        return shared if job.id < 3 else {"inner": [shared]}

    harness.perform(perform, 5, *map(Handled.entry, (1, 2, 3)))
    assert harness.results == {"1": {"last": 1}, "2": {"last": 2}, "3": {"inner": [{"last": 3}]}}


def test_a_result_that_cannot_be_stored_fails_the_job() -> None:
    """Running it again would not help."""
    harness = Harness()
    harness.perform(lambda *_: object(), 5, Handled.entry(1))
    assert outcome(harness)["outcome"] == "failed"
    assert "the result is not JSON" in outcome(harness)["error"]


@pytest.mark.parametrize("how", ["raised", "returned", "raised later", "returned later"])
@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (Snooze(5), {"outcome": "snooze", "delay": 5.0}),
        (Throttled(5), {"outcome": "snooze", "delay": 5.0, "throttled": True}),
        (Discard("no need"), {"outcome": "cancelled", "error": "no need"}),
        (Fail("broken"), {"outcome": "failed", "error": "broken"}),
    ],
    ids=["snooze", "throttled", "discard", "fail"],
)
def test_what_a_handler_says_is_settled(
    how: str, said: Exception, expected: dict[str, object]
) -> None:
    """Raised or returned, at once or after a wait, is all the same."""
    harness = Harness()

    async def perform(self: object, job: RunningJob) -> object:
        if how.endswith("later"):
            await harness.wait(job)
        if how.startswith("raised"):
            raise said
        return said

    with harness.handler(perform, 5, Handled.entry(1)):
        harness.end_all()
    assert {"job_id": 1, "assignment": 5, **expected} == outcome(harness)


@pytest.mark.parametrize(
    ("error", "failures", "options", "expected"),
    [
        (ValueError("mine"), 0, None, "retry"),
        (ValueError("mine"), 2, None, "failed"),
        (ValueError("mine"), 0, {"attempts": 1}, "failed"),
        (ValueError("mine"), 2, {"attempts": 9}, "retry"),
        (KeyError("fatal"), 0, None, "failed"),
        (SystemExit(1), 0, None, "retry"),
    ],
    ids=str,
)
def test_a_failure_is_tried_again_while_attempts_are_left(
    error: BaseException, failures: int, options: dict[str, Any] | None, expected: str
) -> None:
    """By the type's policy; a job may have its own number of attempts."""
    harness = Harness()

    async def perform(self: object, job: RunningJob) -> None:
        raise error

    with harness.handler(perform, retry=Number.retry):
        harness.hand(5, Handled.entry(1, attempt=failures + 1, terms=options))
        harness.hand(6, entry(2, "performing.number"))
        harness.turn()
    assert [each["outcome"] for each in harness.settled] == [expected]
    assert type(error).__name__ in harness.settled[0]["error"]
    assert harness.settled[0].get("delay") == (10.0 * 2**failures if expected == "retry" else None)
    assert harness.finished == [(6, 3, [2], 1, 1)]


@pytest.mark.parametrize(
    ("timeout", "options", "limit"), [(2.0, None, 2.0), (None, {"timeout": 3}, 3.0)]
)
def test_a_job_that_takes_too_long_is_cancelled(
    timeout: float | None, options: dict[str, Any] | None, limit: float
) -> None:
    """By the type's timeout or the job's own; the handler can clean up; it is tried again."""
    harness = Harness()
    steps: list[str] = []

    async def perform(self: object, job: RunningJob) -> None:
        try:
            await harness.wait(job)
        except CancelledError:
            steps.append("cancelled")
            raise

    with harness.handler(perform, 5, Handled.entry(1, terms=options), timeout=timeout):
        harness.clock.advance(limit - 0.1)
        assert steps == []
        harness.clock.advance(0.2)
    assert steps == ["cancelled"]
    assert outcome(harness)["outcome"] == "retry"
    assert "TimeoutError" in outcome(harness)["error"]


def test_a_job_that_ends_in_time_leaves_no_timer() -> None:
    """Its timeout is cancelled."""
    harness = Harness()
    with harness.handler(lambda _, job: harness.wait(job), 5, Handled.entry(1), timeout=60.0):
        harness.end(1)
    assert harness.clock.getDelayedCalls() == []


@pytest.mark.parametrize(
    ("work_type", "payload", "complaint"),
    [
        ("performing.number", {"number": "many"}, "expected int @ $.number"),
        ("performing.number", {}, "required field missing @ $.number"),
        ("performing.number", {"number": 1, "more": 2}, "extra fields found"),
        ("no.such.type", {}, "work type 'no.such.type' is not known here"),
    ],
)
def test_a_job_that_cannot_be_read_is_left_to_other_nodes(
    work_type: str, payload: dict[str, Any], complaint: str
) -> None:
    """With what is wrong, and the version that could not; the others of its chunk run."""
    harness = Harness()
    harness.hand(5, AssignedJob(1, work_type, 1, 1, payload), entry(2, "performing.number"))
    harness.turn()
    assert [(each["job_id"], each["outcome"]) for each in harness.settled] == [(1, "unread")]
    assert complaint in harness.settled[0]["error"]
    versions = {"no.such.type": "no.such.type#unknown"}
    assert harness.settled[0]["version"] == versions.get(work_type, type_version(Number))
    assert harness.finished == [(5, 3, [2], 1, 1)]


@pytest.mark.parametrize("payload", [[1], "text", None, 7])
def test_a_payload_that_is_no_object_fails(payload: object) -> None:
    """No version of any class can read it."""
    harness = Harness()
    harness.hand(5, AssignedJob(1, "performing.number", 1, 1, payload))
    harness.turn()
    assert outcome(harness)["outcome"] == "failed"


@pytest.mark.parametrize(
    "options",
    [7, [], {"timeout": "30"}, {"timeout": -1}, {"attempts": 0}, {"attempts": "x"},
     {"attempts": 10**9}],
    ids=str,
)  # fmt: skip
def test_options_that_make_no_sense_fail_the_job_alone(options: Any) -> None:
    """Any SQL client can write them; the worker and its other jobs continue."""
    harness = Harness()

    async def perform(self: object, job: RunningJob) -> None:
        raise ValueError("mine")

    harness.perform(perform, 5, Handled.entry(1, terms=options), entry(2, "performing.number"))
    assert [(each["job_id"], each["outcome"]) for each in harness.settled] == [(1, "failed")]
    assert harness.finished == [(5, 3, [2], 1, 1)]


def test_a_completed_job_is_done_whatever_happens_next() -> None:
    """Its own transaction has committed: it is counted, and not written again."""

    @asynccontextmanager
    async def opener(job: RunningJob) -> AsyncIterator[Transaction]:
        yield None  # type: ignore[misc]  # nothing is asked of it here
        change(job, is_completed=True)

    async def perform(self: object, job: RunningJob) -> None:
        async with job.transaction():
            pass
        raise ValueError("too late")

    harness = Harness(opener=opener)
    harness.perform(perform, 5, Handled.entry(1, weight=4))
    assert (harness.finished, harness.settled) == ([(5, 3, [], 1, 4)], [])


def test_stopping_cancels_what_runs_and_starts_nothing() -> None:
    """The process ends, or the pipe is closed."""
    harness = Harness(capacity=1)
    cancelled: list[int] = []

    def perform(self: object, job: RunningJob) -> Deferred[None]:
        return Deferred(lambda _: cancelled.append(job.id))

    with harness.handler(perform, 5, Handled.entry(1), Handled.entry(2)):
        harness.performer.stop()
        harness.turn()
    assert cancelled == [1]


def test_no_job_of_a_burst_starts_once_the_lease_is_out() -> None:
    """The process may have been stopped between two of them, for long."""
    harness = Harness()
    started: list[int] = []

    def perform(_: object, job: RunningJob) -> None:
        started.append(job.id)
        if job.id == 9:
            harness.performer.renew(0.0)

    harness.perform(perform, 5, *(Handled.entry(number) for number in range(1, 21)))
    assert started == list(range(1, 10))


def test_what_a_former_run_was_assigned_does_not_start() -> None:
    """Whether it came before or after the lease of the new one: it may run elsewhere by now."""
    harness = Harness(capacity=1)
    with harness.handler(
        lambda _, job: harness.wait(job), 5, Handled.entry(1), Handled.entry(2, weight=3)
    ):
        harness.performer.renew(float("inf"), INCARNATION + 1)
        harness.hand(6, Handled.entry(3))
        harness.turn()
        harness.end(1)
        assert harness.running == {}
    assert sorted(harness.finished) == [(5, 3, [], 1, 3), (5, 3, [1], 1, 1), (6, 3, [], 1, 1)]


def test_the_last_progress_is_sent_with_the_completion() -> None:
    """However shortly before it returned, or failed."""
    harness = Harness()

    def perform(_: Any, job: RunningJob) -> None:
        job.progress(1, 2)
        job.progress(2, 2, "all")
        if job.id == 2:
            raise KeyError

    harness.perform(perform, 5, Handled.entry(1), Handled.entry(2), retry=Retry(attempts=1))
    assert harness.finished == []
    assert [(each["outcome"], each["progress"]) for each in harness.settled] == [
        ("done", [2, 2, "all"]),
        ("failed", [2, 2, "all"]),
    ]


def test_a_failure_that_cannot_be_logged_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise its job would stay assigned for good."""

    def refuse(*_: object) -> None:
        raise OSError("no log")

    def fail(*_: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(Harness, "log_text", refuse)
    harness = Harness()
    with harness.handler(fail):
        harness.hand(5, Handled.entry(1))
    harness.turn()
    assert outcome(harness)["outcome"] in ("failed", "retry")


def test_the_job_that_runs_its_first_step_is_noted() -> None:
    """Also beside others that wait, so that the master can tell which one blocks the worker."""
    harness = Harness()
    seen: list[int] = []

    def handler(_: Any, job: Any) -> Any:
        seen.append(harness.in_flight.beginning)
        return harness.wait(job) if job.id == 1 else None

    with harness.handler(handler):
        for job_id in (1, 2):
            harness.hand(job_id, Handled.entry(job_id))
            harness.turn()
    assert seen == [1, 2]
    assert (harness.in_flight.beginning, harness.in_flight.ids) == (0, {1})


def test_an_error_in_the_place_of_a_wait_says_so() -> None:
    """The job fails by its policy, and the text names the wait and the remedy."""

    async def perform(_: object, job: RunningJob) -> None:
        try:
            await job.sleep("nap", 60)
        finally:
            raise ValueError("the file cannot be closed")

    harness = Harness(capacity=1)
    harness.perform(perform, 5, Handled.entry(1))
    (settled,) = harness.settled
    assert settled["outcome"] == "retry"
    assert settled["error"].startswith("ValueError: the file cannot be closed")
    assert "wait for 'nap': the job has failed instead" in settled["error"]
    assert "let Suspended through" in settled["error"]


def test_an_error_that_a_wait_was_not_replaced_by_is_as_it_was() -> None:
    """A handler that fails before it waits has no such text."""
    harness = Harness(capacity=1)

    async def perform(_: object, job: RunningJob) -> None:
        raise ValueError("it has not waited")

    harness.perform(perform, 5, Handled.entry(1))
    assert "Suspended" not in harness.settled[0]["error"]

"""The terms of a job: groups that end with the lease, and expiry."""

import time
from contextlib import suppress
from typing import Any

import pytest
from twisted.internet.defer import CancelledError, Deferred

from tests.unit.worker.performing import Handled, Harness
from txqueue import RunningJob
from txqueue.worker.running.backlog import is_expired

GROUPED = {"grouped": True}


def test_jobs_of_groups_are_interrupted_and_others_continue() -> None:
    """What belongs to no group may run twice; what runs again has spent no attempt."""
    harness = Harness()
    with harness.handler(
        lambda _, job: harness.wait(job), 5, Handled.entry(1, terms=GROUPED), Handled.entry(2)
    ):
        assert not harness.performer.end_groups()
        harness.turn()
        (settled,) = harness.settled
        assert (settled["job_id"], settled["outcome"], settled["delay"]) == (1, "snooze", 0.0)
        harness.end(2)
    assert harness.finished == [(5, 3, [2], 1, 1)]


def test_a_job_that_will_not_end_is_reported() -> None:
    """It swallows its cancellation: the process must end."""
    harness = Harness()
    jobs: list[RunningJob] = []

    def perform(_: object, job: RunningJob) -> Any:
        jobs.append(job)
        return Deferred.fromCoroutine(stubborn(job))

    async def stubborn(job: RunningJob) -> None:
        with suppress(CancelledError):
            await harness.wait(job)
        await harness.wait(job)

    with harness.handler(perform, 5, Handled.entry(1, terms=GROUPED)):
        assert harness.performer.end_groups()
        assert jobs[0].is_cancelled
        harness.end_all()


@pytest.mark.parametrize("terms", [{"tags": {"campaign": "spring"}, "grouped": True}, {}, None])
def test_a_handler_reads_the_tags_of_its_job(terms: dict[str, Any] | None) -> None:
    """A mapping that cannot be changed; empty without tags."""
    harness = Harness()
    seen: list[Any] = []
    harness.perform(lambda _, job: seen.append(job.tags), 5, Handled.entry(1, terms=terms))
    (tags,) = seen
    assert tags == (terms or {}).get("tags", {})
    with pytest.raises(TypeError):
        tags["campaign"] = "autumn"


@pytest.mark.parametrize(
    ("terms", "expires", "is_out"),
    [
        ({}, True, False),
        ({"left": 5.0}, True, False),
        ({"left": 0.5}, True, True),
        ({"left": -3.0}, True, True),
        ({"left": -3.0}, False, False),
        ({"left": -3.0, "expires": True}, False, True),
        ({"left": -3.0, "expires": False}, True, False),
        ({"left": -3.0, "steps": True}, True, False),
    ],
)
def test_expiry_counts_from_when_the_job_was_asked_for(
    terms: dict[str, Any], expires: bool, is_out: bool
) -> None:
    """What is left was true at that moment or later, so no job starts too late."""
    assert is_expired(terms, expires, time.monotonic() - 1) is is_out


def test_an_expired_job_does_not_start() -> None:
    """It ends as cancelled, says why, and no attempt is spent."""
    harness = Harness()
    with harness.handler(lambda _, job: harness.wait(job)):
        options = {"left": -1.0, "expires": True, "timeout": 3}
        harness.hand(5, Handled.entry(1, terms=options), Handled.entry(2))
        harness.turn()
        assert list(harness.running) == [2]
        harness.end(2)
    (settled,) = harness.settled
    assert settled["outcome"] == "cancelled"
    assert settled["error"].startswith("expired")
    assert settled["unstarted"]

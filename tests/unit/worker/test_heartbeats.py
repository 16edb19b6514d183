"""What a handler says while it runs: how far it is, and that it is alive."""

from decimal import Decimal
from typing import Any

import pytest
from twisted.internet.defer import Deferred

from tests.unit.worker.performing import Handled, Harness
from txqueue import Retry, RunningJob
from txqueue.errors import InvalidWork
from txqueue.worker.running.waiting_run import BEAT


def hand(harness: Harness) -> None:
    """Begin one job, and its looks."""
    harness.performer.start()
    harness.hand(5, Handled.entry(1))
    harness.turn()


def test_a_silent_handler_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is interrupted, and tried again by its policy."""
    harness = Harness()
    monkeypatch.setattr(Handled, "heartbeat", 5.0)
    with harness.handler(lambda _, job: harness.wait(job), retry=Retry(attempts=2)):
        hand(harness)
        harness.clock.pump([BEAT] * 5)
        assert not harness.settled
        harness.clock.pump([BEAT] * 3)
    (outcome,) = harness.settled
    assert outcome["outcome"] == "retry"
    assert outcome["error"].startswith("txqueue.errors.Hung: hung: silent for longer than 5 s")


def test_a_handler_that_beats_is_not_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long it takes."""
    harness = Harness()
    jobs: list[RunningJob] = []

    def perform(_: object, job: RunningJob) -> Deferred[object]:
        jobs.append(job)
        return harness.wait(job)

    monkeypatch.setattr(Handled, "heartbeat", 5.0)
    with harness.handler(perform):
        hand(harness)
        for _ in range(10):
            jobs[0].beat()
            harness.clock.pump([BEAT] * 4)
        harness.end_all()
    assert not harness.settled
    assert harness.finished[0][2] == [1]


def test_progress_is_reported_once_a_beat_and_only_if_it_is_new() -> None:
    """Whatever was said last goes out, with the run."""
    harness = Harness()

    def perform(_: object, job: RunningJob) -> Deferred[object]:
        for done in range(1000):
            job.progress(done, 1000, "copying")
        return harness.wait(job)

    with harness.handler(perform):
        hand(harness)
        harness.clock.pump([BEAT / 2] * 8)
        harness.end_all()
    assert [told.progress for told in harness.started] == ['[999, 1000, "copying"]']


@pytest.mark.parametrize(
    ("said", "match", "remedy"),
    [
        ((float("nan"),), "the progress of job 1 is not JSON", "finite numbers"),
        (("half",), "the progress of job 1 has done='half'", "pass numbers"),
        ((Decimal(1),), r"has done=Decimal\('1'\)", "pass numbers"),
        ((1, "3"), "has total='3'", "pass numbers"),
        ((1, [3]), r"has total=\[3\]", "pass numbers"),
        ((1, 1, 3), "has note=3", "pass text"),
        ((1, 1, None), "has note=None", "pass text"),
        ((1, 1, b"copying"), "has note=b'copying'", "pass text"),
    ],
)
def test_progress_must_be_numbers_and_a_text(said: Any, match: str, remedy: str) -> None:
    """All else is refused, and no progress is kept of it."""
    harness = Harness()

    def perform(_: object, job: RunningJob) -> None:
        with pytest.raises(InvalidWork, match=match) as caught:
            job.progress(*said)
        assert remedy in caught.value.remedy
        assert job.last_progress is None

    with harness.handler(perform):
        hand(harness)
    assert harness.finished[0][2] == [1]


def test_the_error_of_a_hung_handler_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the real error; that it had been silent before explains nothing."""
    harness = Harness()
    monkeypatch.setattr(Handled, "heartbeat", 5.0)
    waiting: Deferred[object] = Deferred(lambda own: own.errback(OSError("the disk is gone")))
    with harness.handler(lambda *_: waiting, retry=Retry(attempts=2)):
        hand(harness)
        harness.clock.pump([BEAT] * 8)
    assert "OSError: the disk is gone" in harness.settled[0]["error"]

"""What a node's log and the application's hooks learn of failed attempts."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.task import Clock

from tests.unit.worker.performing import Handled, Harness
from txqueue import Fail, FailedAttempt, Retry, RunningJob, Snooze, on_failure
from txqueue.errors import KeyUnavailable
from txqueue.model import directives as failed_attempt
from txqueue.policy.endings.outcome import KEYLESS, error_class, error_text, name_in
from txqueue.worker.running.run_records import (
    MOST_LINES,
    WINDOW,
    FailureLog,
    failed_attempt_of,
    line_of,
)


def failure(**more: Any) -> FailedAttempt:
    """A failed attempt with a traceback."""
    try:
        raise ValueError("no such\nrow \x1b[31m")
    except ValueError as error:
        given = {"job_id": 17, "work_type": "shop.mail", "attempt": 2, "attempts": 5, "delay": 4.0}
        return FailedAttempt(**{**given, "error": error, **more})


def told(failed: FailedAttempt) -> str:
    """The log's text for it."""
    return line_of(failed, name_in(error_class(failed.error)), error_text(failed.error))


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch) -> list[FailedAttempt]:
    """The failures passed to one hook."""
    told: list[FailedAttempt] = []
    monkeypatch.setattr(failed_attempt, "_hooks", [])
    on_failure(told.append)
    return told


def test_an_attempt_that_is_followed_by_another_has_one_line() -> None:
    """With its number, type and attempt, when it runs again, and its error's first line."""
    said = "job 17 (shop.mail) failed in attempt 2 of 5, again in 4.0 s: ValueError: no such"
    assert told(failure()) == said


def test_the_last_attempt_has_its_traceback() -> None:
    """Below its line, without control characters."""
    first, *rest = told(failure(delay=None)).split("\n")
    assert first == "job 17 (shop.mail) failed for good in attempt 2 of 5: ValueError: no such"
    assert rest[0].startswith("Traceback")
    assert "in failure" in "\n".join(rest)
    assert "\x1b" not in "\n".join(rest)


def test_a_long_message_leaves_the_frames_in_the_log() -> None:
    """Its middle is left out instead."""
    try:
        raise ValueError("x" * 100_000 + "END")
    except ValueError as error:
        text = told(failure(delay=None, error=error))
    assert "in test_a_long_message_leaves_the_frames_in_the_log" in text
    assert " [...] " in text
    assert text.endswith("END")
    assert len(text) < 9000


@pytest.mark.parametrize("delay", [None, 4.0])
def test_a_redacted_type_shows_no_text_of_its_errors(delay: float | None) -> None:
    """An error quotes what it was given."""
    line = told(failure(delay=delay, redacted=True))
    assert line.endswith(": ValueError")


class Log:
    """A log with a clock."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.lines: list[str] = []
        self.log = FailureLog(
            self.clock.seconds,
            lambda _, text, __: self.lines.append(text),
            failed_attempt.failure_hooks,
        )

    def note(self, failed: FailedAttempt) -> None:
        """Note a failure as the end of its run does."""
        name, text = name_in(error_class(failed.error)), error_text(failed.error)
        self.log.note(failed, name, text)


@pytest.mark.usefixtures("hooks")
def test_of_many_failures_of_a_kind_some_are_written_and_the_others_counted() -> None:
    """Another kind has lines of its own, and the same one too when its time is over."""
    log = Log()
    for number in range(1000):
        log.note(failure(job_id=number))
    log.note(failure(work_type="shop.push"))
    assert len(log.lines) == MOST_LINES + 1
    log.clock.advance(WINDOW)
    log.log.look()
    assert log.lines[-1] == "995 more failures of shop.mail with ValueError"
    log.note(failure())
    assert len(log.lines) == MOST_LINES + 3


@pytest.mark.usefixtures("hooks")
def test_kinds_without_end_are_forgotten_one_by_one() -> None:
    """Each is written, and nothing is left over of them."""
    log = Log()
    for number in range(10_000):
        log.note(failure(work_type=f"type.{number}"))
    assert len(log.lines) == 10_000
    log.clock.advance(WINDOW)
    log.log.look()
    assert len(log.lines) == 10_000


@pytest.mark.parametrize("has_hook", [False, True])
def test_a_failure_that_is_only_counted_is_described_for_hooks_only(
    monkeypatch: pytest.MonkeyPatch, hooks: list[FailedAttempt], has_hook: bool
) -> None:
    """To describe each takes longer than to run a short job."""
    if not has_hook:
        monkeypatch.setattr(failed_attempt, "_hooks", [])
    described: list[FailedAttempt] = []

    def describe(*of: Any) -> FailedAttempt:
        described.append(failed_attempt_of(*of))
        return described[-1]

    monkeypatch.setattr("txqueue.worker.running.endings.failed_attempt_of", describe)

    def perform(_: Any, job: RunningJob) -> None:
        raise ValueError(job.id)

    number = 4 * MOST_LINES
    bench = Harness()
    with bench.handler(perform):
        bench.hand(5, *[Handled.entry(job_id) for job_id in range(1, number + 1)])
        while len(bench.settled) < number:
            bench.turn()
    assert len(bench.settled) == number
    assert len(described) == (number if has_hook else MOST_LINES)
    assert len(hooks) == (number if has_hook else 0)
    assert len(bench.logged) == MOST_LINES


def test_a_hook_that_fails_is_logged_and_stops_no_other(hooks: list[FailedAttempt]) -> None:
    """The other hook is called, and the caller continues."""

    def broken(_: FailedAttempt) -> None:
        raise RuntimeError("tracker away")

    on_failure(broken)
    log = Log()
    log.note(failure())
    assert len(hooks) == 1
    assert "tracker away" in log.lines[-1]


def test_failures_of_handlers_are_reported(hooks: list[FailedAttempt]) -> None:
    """Those that are tried again and those that are not, but nothing else that ends a job."""
    said: dict[int, Any] = {1: KeyError("k"), 2: ValueError("v"), 3: Fail("enough"), 4: Snooze(1)}

    def perform(_: Any, job: RunningJob) -> None:
        if job.id in said:
            raise said[job.id]

    bench = Harness()
    with bench.handler(perform):
        bench.hand(5, Handled.entry(1), Handled.entry(2, attempt=10))
        bench.hand(6, *[Handled.entry(each) for each in (3, 4, 5)])
        bench.turn()
    assert [(each.job_id, each.is_final) for each in hooks] == [(1, False), (2, True), (3, True)]
    assert hooks[0].attempts == Retry().attempts
    assert [grave for grave, _ in bench.logged] == [False, True, True]


def test_a_job_enqueued_as_redacted_reaches_hooks_as_redacted(hooks: list[FailedAttempt]) -> None:
    """Whatever the class here says."""

    def perform(_: Any, job: RunningJob) -> None:
        raise ValueError("s3cret")

    bench = Harness()
    with bench.handler(perform):
        bench.hand(5, Handled.entry(1, terms={"redacted": True}))
        bench.turn()
    assert "s3cret" not in bench.logged[0][1]
    assert hooks[0].redacted


def test_the_same_hook_is_registered_once(hooks: list[FailedAttempt]) -> None:
    """A module that is imported again adds none."""
    append = hooks.append
    monitored = on_failure(append)
    on_failure(monitored)
    assert len(failed_attempt.failure_hooks()) == 1


def test_a_job_that_needs_a_missing_key_is_logged() -> None:
    """Without the text of the error, and few of a kind."""
    harness = Harness()

    def fail(*_: Any) -> None:
        raise KeyUnavailable("no key for s3cr3t", "set it")

    harness.perform(fail, 5, *[Handled.entry(each) for each in range(1, MOST_LINES + 3)])
    assert {each["error_class"] for each in harness.settled} == {KEYLESS}
    assert len(harness.logged) == MOST_LINES
    is_grave, text = harness.logged[0]
    assert not is_grave
    assert "needs a key that this node does not have, and is tried again in 60 s" in text
    assert "s3cr3t" not in text


def test_the_traceback_of_a_handler_begins_with_the_handler(hooks: list[FailedAttempt]) -> None:
    """The worker's own frames that have called it are left out, also of a chain's last error."""

    def inner() -> None:
        raise ValueError("v")

    def perform(_: Any, job: RunningJob) -> None:
        try:
            inner()
        except ValueError as error:
            if job.id == 2:
                raise KeyError("k") from error
            raise

    bench = Harness()
    with bench.handler(perform):
        bench.hand(5, Handled.entry(1), Handled.entry(2))
        bench.turn()
    for said, frames in zip(bench.settled, (2, 3), strict=True):
        lines = [line for line in said["error"].split("\n") if line.startswith("  File")]
        assert len(lines) == frames
        assert all(__file__ in line for line in lines)
    assert len(hooks) == 2

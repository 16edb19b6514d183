"""The outcome of a job whose handler raised."""

import json
from typing import Any

import pytest
from twisted.internet import defer
from twisted.internet.defer import FailureGroup, FirstError
from twisted.python.failure import Failure

from txqueue import Discard, Fail, Retry, Snooze, Throttled
from txqueue.errors import InvalidWork, JobFailed, Suspended, UnknownWorkType, UnreadablePayload
from txqueue.model.assignment import JobKey, framed
from txqueue.model.work_item import NotRead
from txqueue.policy.endings.outcome import Verdict, error_text, is_suspension, judge, summary_of
from txqueue.policy.endings.tracebacks import LONGEST_TRACEBACK
from txqueue.store.node.outcomes import outcomes_text

RETRY = Retry(attempts=3, first=10.0, factor=2.0, jitter=0, fatal=(KeyError,))


def kept(error: JobFailed) -> JobFailed:
    """Return the error as one that a call has kept."""
    error.is_kept = True
    return error


def caused(error: BaseException, cause: BaseException) -> BaseException:
    """Return the error as one that was raised from another."""
    error.__cause__ = cause
    return error


KEPT = kept(JobFailed("called by a step", ""))


@pytest.mark.parametrize(
    ("error", "failures", "outcome", "delay"),
    [
        (ValueError("x"), 0, "retry", 10.0),
        (ValueError("x"), 1, "retry", 20.0),
        (ValueError("x"), 2, "failed", None),
        (ValueError("x"), 7, "failed", None),
        (KeyError("x"), 0, "failed", None),
        (Snooze(5), 0, "snooze", 5.0),
        (Snooze(5), 7, "snooze", 5.0),
        (Snooze(0), 0, "snooze", 0.0),
        (Throttled(30), 7, "snooze", 30.0),
        (Discard("no need"), 0, "cancelled", None),
        (Discard(), 0, "cancelled", None),
        (Fail("broken"), 0, "failed", None),
        (InvalidWork("wrong", "fix it"), 0, "failed", None),
        (UnknownWorkType("unknown", "import it"), 0, "failed", None),
        (KeyboardInterrupt(), 0, "retry", 10.0),
        (JobFailed("awaited by a client's call", ""), 0, "retry", 10.0),
        (KEPT, 0, "failed", None),
        (FirstError(Failure(KEPT), 0), 0, "failed", None),
        (FirstError(Failure(ValueError("x")), 0), 0, "retry", 10.0),
        (ExceptionGroup("tasks", [ValueError("x"), KEPT]), 0, "failed", None),
        (ExceptionGroup("tasks", [FirstError(Failure(KEPT), 0)]), 0, "failed", None),
        (caused(ValueError("no stock"), FirstError(Failure(KEPT), 0)), 0, "failed", None),
        (caused(ValueError("x"), KeyError("x")), 0, "retry", 10.0),
    ],
    ids=repr,
)
def test_the_outcome(
    error: BaseException, failures: int, outcome: str, delay: float | None
) -> None:
    """Exceptions are retried while attempts are left; the special ones say what they want."""
    verdict = judge(error, RETRY, failures, 0.5)
    assert (outcome, delay) == (verdict.outcome, verdict.delay)


def test_throttled_for_ever_fails() -> None:
    """After a thousand runs in a row, in which no attempt was spent."""
    verdicts = [judge(Throttled(30), RETRY, 0, 0.5, times) for times in (0, 998, 999)]
    assert [each.outcome for each in verdicts] == ["snooze", "snooze", "failed"]
    assert [each.throttled for each in verdicts] == [True, True, None]
    assert verdicts[-1].error == "throttled 1,000 times in a row, last for 30 s"


@pytest.mark.parametrize(
    ("error", "kept"),
    [
        (Discard("no need"), "no need"),
        (Discard(), None),
        (Fail("broken"), "broken"),
        (Fail(), "failed by its handler"),
        (Fail(ValueError("inner")), "inner"),  # type: ignore[arg-type]  # people do
        (Discard(7), "7"),  # type: ignore[arg-type]  # people do
        (InvalidWork("wrong", "fix it"), "wrong; fix it"),
        (Fail("nul \0 and \ud800"), "nul � and ?"),
        (Snooze(1), None),
    ],
    ids=repr,
)
def test_what_is_kept_as_the_error(error: BaseException, kept: str | None) -> None:
    """A reason is kept as text that PostgreSQL can store."""
    assert kept == judge(error, RETRY, 0, 0.5).error


def test_a_failure_keeps_its_traceback() -> None:
    """The line of the exception comes first, then where it was raised."""
    try:
        raise ValueError("the reason")
    except ValueError as error:
        first, _, rest = error_text(error).partition("\n")
    assert first == "ValueError: the reason"
    assert "test_a_failure_keeps_its_traceback" in rest


def test_a_long_error_is_shortened() -> None:
    """Without the middle of its message; NULs and lone surrogates are replaced."""
    text = error_text(ValueError("\0\ud800" + "x" * 100_000 + "END"))
    assert len(text) < LONGEST_TRACEBACK + 1100
    assert text.endswith("END")
    assert not {"\0", "\ud800"} & set(text)


def fail_with(message: str, depth: int = 0) -> None:
    """Raise an error with a message, some calls deep."""
    if depth:
        fail_with(message, depth - 1) if depth % 2 else fail_again_with(message, depth - 1)
    raise ValueError(message)


def fail_again_with(message: str, depth: int) -> None:
    """Raise it from another function, which Python does not count as a repetition."""
    fail_with(message, depth)


@pytest.mark.parametrize("depth", [0, 200])
@pytest.mark.parametrize("is_linked", [False, True])
def test_a_long_message_loses_its_middle_and_not_the_frames(depth: int, is_linked: bool) -> None:
    """As these tell kinds of failure apart: the last of them, if they are many."""
    try:
        try:
            fail_with("START" + "x" * 100_000 + "END", depth)
        except ValueError as error:
            if is_linked:
                raise ValueError("START" + "y\n" * 100_000 + "END") from error
            raise
    except ValueError as error:
        text = error_text(error)
    assert len(text) < LONGEST_TRACEBACK + 1100
    _, _, rest = text.partition("\n\n")
    frames, _, message = rest.rpartition("ValueError: START")
    last = "test_a_long_message" if is_linked else "fail_with"
    assert f", in {last}" in frames[frames.rindex('File "') :]
    assert " [...] " in message
    assert message.endswith("END")


def test_a_message_that_just_fits_is_whole() -> None:
    """It is shortened only where the text is too long."""
    assert "[...]" not in error_text(ValueError("x" * (LONGEST_TRACEBACK - 20)))


def test_a_syntax_error_is_headed_by_its_class_and_message() -> None:
    """Its text in Python's own form, which begins with the file, follows."""
    try:
        compile("a b", "/srv/broken.py", "exec")
    except SyntaxError as error:
        text, line = error_text(error), summary_of(error)
    assert line == "SyntaxError: invalid syntax (broken.py, line 1)"
    assert text.startswith(f"{line}\n\nTraceback (most recent call last):\n")
    assert text.endswith(
        '  File "/srv/broken.py", line 1\n    a b\n      ^\nSyntaxError: invalid syntax'
    )


def test_an_exception_that_cannot_be_shown_is_kept_all_the_same() -> None:
    """`str()` of an exception may raise itself."""

    class Broken(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert judge(Broken(), RETRY, 0, 0.5).outcome == "retry"


@pytest.mark.parametrize(
    ("verdict", "more"),
    [
        (Verdict("retry", 1.5, "why"), {"delay": 1.5, "error": "why"}),
        (Verdict("snooze", 0.0), {"delay": 0.0}),
        (Verdict("cancelled"), {}),
    ],
)
def test_a_verdict_is_what_settle_takes(verdict: Verdict, more: dict[str, object]) -> None:
    """Only what applies is sent."""
    expected = {"job_id": 7, "assignment": 9, "outcome": verdict.outcome, **more}
    assert [expected] == json.loads(outcomes_text([verdict.of(JobKey(9, 7))]))


NO_DELAYS = [float("nan"), float("inf"), -float("inf"), -5, -0.001, 1e300, 10**400]


@pytest.mark.parametrize("delay", NO_DELAYS)
def test_a_snooze_needs_a_delay_that_can_be_waited_for(delay: float) -> None:
    """The error is raised in the handler, where it can be fixed: a negative one has no end."""
    with pytest.raises(ValueError, match="cannot snooze for"):
        Snooze(delay)


@pytest.mark.parametrize("delay", [*NO_DELAYS, "7x", None])
def test_a_snooze_that_was_changed_spends_an_attempt(delay: Any) -> None:
    """PostgreSQL cannot store each number: it would refuse the outcomes of other jobs as well."""
    said = Snooze(1)
    said.delay = delay
    verdict = judge(said, RETRY, 0, 0.5)
    assert verdict.outcome == "retry"
    assert "its Snooze cannot be read" in str(verdict.error)


@pytest.mark.parametrize("delay", NO_DELAYS)
def test_the_longest_delay_of_a_retry_can_be_waited_for(delay: Any) -> None:
    """The class is refused when it is defined."""
    with pytest.raises(InvalidWork, match="longest"):
        Retry(longest=delay)


def test_a_deferred_that_timed_out_says_what_took_too_long() -> None:
    """Twisted's own error is a pair: a number, and the word Deferred."""
    assert error_text(defer.TimeoutError(0.5, "Deferred")).startswith(
        "TimeoutError: a Deferred took longer than 0.5 s\n\n"
    )
    assert error_text(TimeoutError("mine")).startswith("TimeoutError: mine\n\n")


def test_a_payload_that_this_version_cannot_read() -> None:
    """It spends no attempt: the database leaves the job to other versions."""
    error = NotRead(InvalidWork("extra fields found", "remove them"), "mail#1")
    verdict = judge(error, Retry(attempts=1), 0, 0.5)
    assert verdict == Verdict("unread", error="extra fields found; remove them", version="mail#1")
    assert verdict.of(JobKey(5, 7)).version == "mail#1"


def test_a_payload_of_another_job_that_cannot_be_read() -> None:
    """The attempt failed by it, as by any error: a retry may run on a node that can."""
    error = UnreadablePayload("extra fields found", "remove them")
    assert judge(error, Retry(attempts=2), 0, 0.5).outcome == "retry"
    assert judge(error, Retry(attempts=2), 1, 0.5).outcome == "failed"


def test_a_verdict_has_the_frames_that_failures_at_its_place_share() -> None:
    """Of an error that is linked with no other, and whose text is its line around its frames."""
    try:
        raise ValueError("row 17")
    except ValueError as error:
        alone = error
    try:
        raise KeyError from alone
    except KeyError as error:
        linked = error
    verdict = judge(alone, Retry(attempts=1), 0, 0.5)
    assert verdict.frames is not None
    assert verdict.frames.startswith("Traceback (most recent call last):\n  File")
    assert verdict.error == framed("ValueError: row 17", verdict.frames) == error_text(alone)
    assert verdict.of(JobKey(9, 7)).frames == verdict.frames
    assert judge(linked, Retry(attempts=1), 0, 0.5).frames is None
    assert judge(ValueError("\0" + "x" * 2000), Retry(attempts=1), 0, 0.5).frames is None


WAITS = Suspended("waits")


@pytest.mark.parametrize(
    ("error", "is_one"),
    [
        (WAITS, True),
        (FirstError(Failure(WAITS), 0), True),
        (FirstError(Failure(ValueError()), 0), False),
        (FailureGroup([Failure(WAITS), Failure(WAITS)]), True),
        (FailureGroup([Failure(WAITS), Failure(ValueError())]), False),
        (BaseExceptionGroup("tasks", [WAITS, BaseExceptionGroup("more", [WAITS])]), True),
        (BaseExceptionGroup("tasks", [WAITS, ValueError()]), False),
        (ValueError(), False),
        (None, False),
    ],
)
def test_a_suspension_is_recognized(error: object, is_one: bool) -> None:
    """Alone, as the first of several Deferreds, of a race, and in a group without other errors."""
    assert is_suspension(error) is is_one

"""Decides, without I/O, the outcome of an attempt whose handler failed, returned a directive or
waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

from attrs import define, field

from txqueue.errors import (
    InvalidWork,
    JobFailed,
    KeyUnavailable,
    Suspended,
    UnknownWorkType,
    UnreadablePayload,
)
from txqueue.model.assignment import JobKey, SettledJob, framed
from txqueue.model.directives import Discard, Fail, Snooze, Throttled, snooze_delay
from txqueue.model.foreign import class_name, is_a, looked, path_of, text_of
from txqueue.model.job_policy import Retry
from txqueue.model.work_item import NotRead
from txqueue.policy.endings.tracebacks import (
    LONGEST_TRACEBACK,
    exception_parts,
    shortened,
    syntax_error,
)

# So many errors may wrap it.
_DEEPEST = 10


def is_suspension(error: Any) -> bool:
    """Tell whether an error is `Suspended`, or stands for nothing else."""
    return looked(lambda: _is_suspension(error, 0), False)


def _is_suspension(error: Any, depth: int) -> bool:
    if is_a(error, Suspended):
        return True
    inner = _wrapped(error) if depth < _DEEPEST else ()
    return bool(inner) and all(_is_suspension(each, depth + 1) for each in inner)


def _is_kept(error: Any, depth: int = 0) -> bool:
    """Tell whether an error is that of a call which has kept it, or comes from such a one."""
    if is_a(error, JobFailed) and error.is_kept:
        return True
    inner = (*_wrapped(error), error.__cause__) if depth < _DEEPEST else ()
    return any(_is_kept(each, depth + 1) for each in inner if each is not None)


def _wrapped(error: Any) -> Sequence[Any]:
    """Return what an error stands for.

    Groups of tasks put theirs into a `BaseExceptionGroup`, Twisted's ``race`` into a
    ``FailureGroup``, and its ``gatherResults`` wraps the first error in a ``FirstError``.
    """
    if is_a(error, BaseExceptionGroup):
        return cast("Sequence[Any]", error.exceptions)
    if failures := getattr(error, "failures", ()):
        return [each.value for each in failures]
    inner = getattr(error, "subFailure", None)
    return () if inner is None else (inner.value,)


# AMP and readers need short texts.
LONGEST_SUMMARY = 1000
# Characters of an error of any kind; a handler's own reason may have any length.
LONGEST_TEXT = 10_000
# Seconds until the retry of a job whose payload could not be decrypted.
KEYLESS_PAUSE = 60.0
# The class of its error, by which the database notes that the node has no key for it.
KEYLESS = "txqueue.errors.KeyUnavailable"
# Seconds, on average, until the next run of a job that got no connection to the database.
CONNECTIONLESS_PAUSE = 5.0
# So many runs in a row may end by Throttled before the job fails.
MOST_THROTTLED = 1000
# What precedes the error, in the text stored with a done job, of a handler that failed after that.
LATE = "after its transaction had committed, the handler failed: "
# Errors that decide the outcome by themselves.
DECISIVE = (Snooze, Discard, Fail, KeyUnavailable, InvalidWork, UnknownWorkType)


@define
class Verdict:
    """How an attempt ended. Not frozen, as `AssignedJob` is not.

    Attributes:
        outcome: ``retry``, ``snooze``, ``next``, ``unread``, ``failed`` or ``cancelled``, as
            `settle` takes it.
        delay: Seconds until the next run, if there is one.
        error: The text to store with the job.
        stage: The next stage, if the outcome is ``next``.
        error_class: The class of the error that failed the attempt; None if there was none.
        version: The version of the work type that could not read the payload.
        frames: The part of the error that failures at the same place share, if it has one.
        throttled: Whether other jobs of the same key wait for the delay, too; True or None.
    """

    outcome: str
    delay: float | None = None
    error: str | None = None
    stage: Mapping[str, Any] | None = None
    error_class: str | None = None
    version: str | None = None
    frames: str | None = field(default=None, eq=False)
    throttled: bool | None = None

    def of(self, job: JobKey) -> SettledJob:
        """Return this outcome as the outcome of a given job."""
        settled = SettledJob(job.job_id, job.assignment, self.outcome, self.delay)
        # Not by keywords, which take twice as long.
        settled.error = None if self.error is None else self.error[:LONGEST_TEXT]
        settled.error_class, settled.frames = self.error_class, self.frames
        settled.stage, settled.version = self.stage, self.version
        settled.throttled = self.throttled
        return settled


EXPIRED = Verdict("cancelled", error="expired: its not_after passed before it could start")
"""The outcome of a job whose `not_after` passed before it could start."""

RUN_AGAIN = Verdict("snooze", delay=0.0)
"""The outcome of a run that the node's lease or an operator ended: run again, spend no attempt."""


def judge(error: object, retry: Retry, failures: int, chance: float, throttled: int = 0) -> Verdict:
    """Decide the outcome of an attempt from the error of its handler.

    Args:
        error: The exception that the handler raised; it may be one that raises in all its methods.
        retry: The retry policy of the work type.
        failures: The number of attempts spent before this one.
        chance: A random number in [0, 1) that decides the jitter.
        throttled: How many runs before this one ended by `Throttled`, in a row.

    Returns:
        The outcome.
    """
    # The payload of another job may be read by a retry, or by a newer node.
    unread = ""
    if is_a(error, NotRead) or (is_a(error, *DECISIVE) and not is_a(error, UnreadablePayload)):
        try:
            return _verdict_of_class(error, throttled)
        except BaseException as broken:
            unread = f"its {class_name(error)} cannot be read: {summary_of(broken)}\n\n"
    text, frames = _error_parts(error)
    if unread:
        text, frames = unread + text, None
    path = error_class(error)
    if retry.is_spent(failures + 1) or _is_fatal(error, retry):
        return Verdict("failed", None, text, None, path, None, frames)
    delay = retry.delay(failures + 1, chance)
    return Verdict("retry", delay, text, None, path, None, frames)


def _is_fatal(error: object, retry: Retry) -> bool:
    # A class may define what isinstance() says.
    return looked(lambda: _is_kept(error) or isinstance(error, retry.fatal), False)


def _verdict_of_class(error: Any, throttled: int) -> Verdict:
    """Return the outcome that the error's class decides by itself."""
    if is_a(error, NotRead):
        return Verdict("unread", error=storable(text_of(error)), version=error.version)
    if is_a(error, Snooze):
        return _snoozed(error, throttled + 1)
    if is_a(error, Discard):
        return Verdict("cancelled", error=storable(text_of(error.reason)) or None)
    if is_a(error, Fail):
        return Verdict("failed", error=storable(text_of(error.reason)) or "failed by its handler")
    if is_a(error, KeyUnavailable):
        # Perhaps only this process lacks the key, so no attempt is spent.
        text = storable(text_of(error))
        return Verdict("snooze", delay=KEYLESS_PAUSE, error=text, error_class=KEYLESS)
    return Verdict("failed", error=storable(text_of(error)), error_class=error_class(error))


def _snoozed(error: Any, times: int) -> Verdict:
    delay, is_throttled = snooze_delay(error.delay), is_a(error, Throttled)
    if not is_throttled or times < MOST_THROTTLED:
        return Verdict("snooze", delay=delay, throttled=is_throttled or None)
    return Verdict("failed", error=f"throttled {times:,} times in a row, last for {delay:g} s")


def judge_cancelled(error: object, who: str) -> Verdict:
    """Decide the outcome of a cancelled job that did not return normally.

    Args:
        error: The exception that the handler raised; None if the job had not started.
        who: The operator that cancelled the job.
    """
    # CancelledError and the like add nothing to the operator's name.
    more = ""
    if is_a(error, Discard):
        reason = looked(lambda: text_of(cast("Discard", error).reason), "")
        more = f": {reason}" if reason else ""
    elif error is not None and class_name(error) != "CancelledError":
        more = f"; as it ended: {error_text(error)}"
    return Verdict("cancelled", error=storable(f"cancelled by {who}{more}"))


def judge_unavailable(error: object, chance: float) -> Verdict:
    """Decide the outcome of a job whose own transaction got no connection: no attempt is spent.

    Args:
        error: The error of the transaction.
        chance: A random number in [0, 1) that spreads the next runs over time.
    """
    delay = CONNECTIONLESS_PAUSE * (0.5 + chance)
    return Verdict("snooze", delay=delay, error=storable(summary_of(error)))


def error_class(error: object) -> str:
    """Return the module and name of an exception's class, as it is stored."""
    return storable(path_of(error))


def summary_of(error: object) -> str:
    """Return an exception's type and message, which its text begins with."""
    return error_text(error).partition("\n\n")[0]


def _own_summary(error: Any) -> str | None:
    """Return the summary of an error whose line does not say enough at its beginning."""
    if class_name(error) == "TimeoutError":
        match looked(lambda: tuple(error.args), ()):
            case (float() | int() as seconds, "Deferred"):
                # Deferred.addTimeout() raises an error without a message.
                return f"TimeoutError: a Deferred took longer than {seconds:g} s"
    return syntax_error(error)


def error_text(error: object) -> str:
    """Return an exception's type, message and traceback, without the middle of a long message."""
    return _error_parts(error)[0]


def _error_parts(error: object) -> tuple[str, str | None]:
    """Return the same text; and of one with frames between twice the same line, those frames."""
    line, frames, whole = exception_parts(error)
    summary = _own_summary(error) or line.strip()
    is_short = len(summary) <= LONGEST_SUMMARY and len(frames) + len(line) <= LONGEST_TRACEBACK
    if frames and is_short and line == f"{summary}\n" and frames == storable(frames):
        # As most errors; the rest would come to the same text.
        return framed(storable(summary), frames), frames
    whole = shortened(whole or frames + line, line).strip()
    text = storable(f"{summary[:LONGEST_SUMMARY]}\n\n{whole}")
    return text, frames if frames and text == framed(summary, frames) else None


def name_in(path: str) -> str:
    """Return the name in the path of a class."""
    return path.rpartition(".")[2]


def storable(text: str) -> str:
    """Return text that PostgreSQL can store: without NUL and lone surrogates."""
    if text.isascii() and "\x00" not in text:
        return text
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()

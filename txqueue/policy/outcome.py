"""Decides, without I/O, the outcome of an attempt whose handler failed or returned a directive."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import frozen

from txqueue.errors import InvalidWork, KeyUnavailable, UnknownWorkType, UnreadablePayload
from txqueue.model.assignment import JobKey, SettledJob
from txqueue.model.directives import Discard, Fail, Snooze
from txqueue.model.retry import Retry
from txqueue.model.type_version import NotRead
from txqueue.policy.tracebacks import exception_line, exception_text

__all__ = [
    "EXPIRED",
    "LEASE_OUT",
    "Verdict",
    "class_path",
    "error_text",
    "judge",
    "judge_cancelled",
    "storable",
    "summary_of",
]

# AMP and readers need short texts; the end of a traceback says most.
LONGEST_ERROR = 8000
LONGEST_CLASS = 200
# Characters of an error of any kind; a handler's own reason may have any length.
LONGEST_TEXT = 10_000
# Seconds until the retry of a job whose payload could not be decrypted.
KEYLESS_PAUSE = 60.0


@frozen
class Verdict:
    """How an attempt ended.

    Attributes:
        outcome: ``retry``, ``snooze``, ``next``, ``unread``, ``failed`` or ``cancelled``, as
            `settle` takes it.
        delay: Seconds until the next run, if there is one.
        error: The text to store with the job.
        stage: The next stage, if the outcome is ``next``.
        error_class: The class of the error that failed the attempt; None if there was none.
        version: The version of the work type that could not read the payload.
    """

    outcome: str
    delay: float | None = None
    error: str | None = None
    stage: Mapping[str, Any] | None = None
    error_class: str | None = None
    version: str | None = None

    def of(self, job: JobKey) -> SettledJob:
        """Return this outcome as the outcome of a given job."""
        return SettledJob(
            job.job_id,
            job.assignment,
            self.outcome,
            delay=self.delay,
            error=None if self.error is None else self.error[:LONGEST_TEXT],
            stage=self.stage,
            error_class=self.error_class,
            version=self.version,
        )


EXPIRED = Verdict("cancelled", error="expired: its not_after passed before it could start")
"""The outcome of a job whose `not_after` passed before it could start."""

LEASE_OUT = Verdict("snooze", delay=0.0)
"""The outcome of a run during which the node's lease expired: run again, spend no attempt."""


def judge(error: BaseException, retry: Retry, failures: int, chance: float) -> Verdict:
    """Decide the outcome of an attempt from the error of its handler.

    Args:
        error: The exception that the handler raised.
        retry: The retry policy of the work type.
        failures: The number of attempts spent before this one.
        chance: A random number in [0, 1) that decides the jitter.

    Returns:
        The outcome.
    """
    if isinstance(error, NotRead):
        return Verdict("unread", error=storable(str(error)), version=error.version)
    if (verdict := _said_by(error)) is not None:
        return verdict
    said, name = error_text(error), class_path(error)
    if isinstance(error, retry.fatal) or retry.is_spent(failures + 1):
        return Verdict("failed", error=said, error_class=name)
    delay = retry.delay(failures + 1, chance)
    return Verdict("retry", delay=delay, error=said, error_class=name)


def _said_by(error: BaseException) -> Verdict | None:
    """Return the outcome that the error's class decides by itself; None for other errors."""
    match error:
        case Snooze():
            return Verdict("snooze", delay=max(0.0, error.delay))
        case Discard():
            return Verdict("cancelled", error=storable(error.reason) or None)
        case Fail():
            return Verdict("failed", error=storable(error.reason) or "failed by its handler")
        case KeyUnavailable():
            # Perhaps only this process lacks the key, so no attempt is spent.
            return Verdict("snooze", delay=KEYLESS_PAUSE, error=storable(str(error)))
        # The payload of another job, which a retry, or a newer node, may read.
        case InvalidWork() | UnknownWorkType() if not isinstance(error, UnreadablePayload):
            return Verdict("failed", error=storable(str(error)), error_class=class_path(error))
    return None


def judge_cancelled(error: BaseException | None, who: str) -> Verdict:
    """Decide the outcome of a cancelled job that did not return normally.

    Args:
        error: The exception that the handler raised; None if the job had not started.
        who: The operator that cancelled the job.
    """
    # CancelledError and the like add nothing to the operator's name.
    more = ""
    if isinstance(error, Discard):
        more = f": {error.reason}" if error.reason else ""
    elif error is not None and type(error).__name__ != "CancelledError":
        more = f"; as it ended: {error_text(error)}"
    return Verdict("cancelled", error=storable(f"cancelled by {who}{more}"))


def class_path(error: BaseException) -> str:
    """Return the module and name of an exception's class, such as ``builtins.ValueError``."""
    cls = type(error)
    return storable(f"{cls.__module__}.{cls.__qualname__}"[:LONGEST_CLASS])


def summary_of(error: BaseException) -> str:
    """Return an exception's type and message in one line."""
    return _deferred_timeout(error) or exception_line(error).strip()


def _deferred_timeout(error: BaseException) -> str | None:
    match type(error).__name__, error.args:
        case "TimeoutError", (float() | int() as seconds, "Deferred"):
            # Deferred.addTimeout() raises an error without a message.
            return f"TimeoutError: a Deferred took longer than {seconds:g} s"
    return None


def error_text(error: BaseException) -> str:
    """Return an exception's type, message and traceback; only the end of a long traceback."""
    line = exception_line(error)
    summary = _deferred_timeout(error) or line.strip()
    whole = exception_text(error, line).strip()
    kept = whole if len(whole) <= LONGEST_ERROR else "[...] " + whole[-LONGEST_ERROR:]
    return storable(f"{summary[:1000]}\n\n{kept}")


def storable(text: str) -> str:
    """Return text that PostgreSQL can store: without NUL and lone surrogates."""
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()

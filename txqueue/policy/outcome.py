"""What becomes of a job whose handler raised: a pure decision."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from typing import Any

from attrs import frozen

from txqueue.errors import InvalidWork, KeyUnavailable, UnknownWorkType
from txqueue.model.directives import Discard, Fail, Snooze
from txqueue.model.retry import Retry

__all__ = ["EXPIRED", "LEASE_OUT", "Verdict", "described", "judge", "judge_cancelled", "summary_of"]

# AMP and people both want short ones; the end of a traceback says most.
LONGEST_ERROR = 8000
# Seconds until a job is tried again whose payload could not be decrypted.
KEYLESS_PAUSE = 60.0


@frozen
class Verdict:
    """How an attempt ended.

    Attributes:
        outcome: ``retry``, ``snooze``, ``next``, ``failed`` or ``cancelled``: as `settle` takes it.
        delay: Seconds until the next run, where there is one.
        error: What is kept with the job.
        stage: What it goes on as, if ``next``.
    """

    outcome: str
    delay: float | None = None
    error: str | None = None
    stage: Mapping[str, Any] | None = None

    def as_json(self, job_id: int, assignment: int) -> dict[str, Any]:
        """Return what ``settle()`` takes."""
        told = {"delay": self.delay, "error": self.error, "stage": self.stage}
        return {
            "job_id": job_id,
            "assignment": assignment,
            "outcome": self.outcome,
            **{key: value for key, value in told.items() if value is not None},
        }


EXPIRED = Verdict("cancelled", error="expired: its not_after passed before it could start")
"""Of a job that must not start any more."""

LEASE_OUT = Verdict("snooze", delay=0.0)
"""Of a job that ended because its node's lease expired: it runs again, no attempt is spent."""


def judge(error: BaseException, retry: Retry, failures: int, chance: float) -> Verdict:
    """Decide what becomes of a job.

    Args:
        error: What its handler raised.
        retry: The policy of its type.
        failures: Attempts spent before this one.
        chance: A random number in [0, 1) for the jitter.

    Returns:
        The verdict.
    """
    if (verdict := _said_by(error)) is not None:
        return verdict
    said = described(error)
    if isinstance(error, retry.fatal) or retry.is_spent(failures + 1):
        return Verdict("failed", error=said)
    return Verdict("retry", delay=retry.delay(failures + 1, chance), error=said)


def _said_by(error: BaseException) -> Verdict | None:
    """What an error says by its kind, whatever the policy."""
    match error:
        case Snooze():
            return Verdict("snooze", delay=max(0.0, error.delay))
        case Discard():
            return Verdict("cancelled", error=_stored(error.reason) or None)
        case Fail():
            return Verdict("failed", error=_stored(error.reason) or "failed by its handler")
        case KeyUnavailable():
            # It may be this process only that lacks the key: no attempt is spent.
            return Verdict("snooze", delay=KEYLESS_PAUSE, error=_stored(str(error)))
        case InvalidWork() | UnknownWorkType():
            return Verdict("failed", error=_stored(str(error)))
    return None


def judge_cancelled(error: BaseException | None, who: str) -> Verdict:
    """Say what becomes of a job that was cancelled, and did not return all the same.

    Args:
        error: What its handler raised; None if it had not started.
        who: The operator that cancelled it.
    """
    # What a coroutine raises because it was cancelled says nothing that is not known.
    more = ""
    if isinstance(error, Discard):
        more = f": {error.reason}" if error.reason else ""
    elif error is not None and type(error).__name__ != "CancelledError":
        more = f"; as it ended: {described(error)}"
    return Verdict("cancelled", error=_stored(f"cancelled by {who}{more}"))


def summary_of(error: BaseException) -> str:
    """Return the line of an exception, with its type."""
    match type(error).__name__, error.args:
        case "TimeoutError", (float() | int() as seconds, "Deferred"):
            # What Deferred.addTimeout() raises says nothing else.
            return f"TimeoutError: a Deferred took longer than {seconds:g} s"
    return "".join(traceback.format_exception_only(error)).strip()


def described(error: BaseException) -> str:
    """Return an exception's line followed by its traceback, shortened from the front."""
    summary = summary_of(error)
    whole = "".join(traceback.format_exception(error)).strip()
    kept = whole if len(whole) <= LONGEST_ERROR else "[...] " + whole[-LONGEST_ERROR:]
    return _stored(f"{summary[:1000]}\n\n{kept}")


def _stored(text: str) -> str:
    """Make text that PostgreSQL can store: no NUL, no lone surrogate."""
    return text.replace("\x00", "�").encode("utf-8", "replace").decode()

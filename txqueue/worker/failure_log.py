"""Writes failed attempts to the node's log: a line for each, and a job's last traceback."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from attrs import define

from txqueue.model.failed_attempt import FailedAttempt, FailureHook
from txqueue.model.humanize import amount, duration, plain
from txqueue.model.retry import Retry
from txqueue.policy.log_lines import last_entries
from txqueue.policy.outcome import Verdict, summary_of
from txqueue.worker.running_job import RunningJob
from txqueue.worker.runtimes import Kind

__all__ = ["MOST_LINES", "WINDOW", "FailureLog", "failed_attempt_of", "kept_log", "line_of"]

# The most failures of one kind that are written in this many seconds; others are only counted.
MOST_LINES, WINDOW = 5, 10.0
# The most kinds remembered at a time, as an application may create exception classes at run time.
MOST_KINDS = 200
LONGEST_LINE, LONGEST_TRACEBACK = 500, 8000

FailureKind: TypeAlias = tuple[str, str]


@define
class _Window:
    """How many failures of one kind were written since a time, and how many were left out."""

    since: float
    written: int = 0
    left_out: int = 0


class FailureLog:
    """Logs the failures of one worker process.

    Args:
        seconds: Returns the time in seconds.
        write: Called with whether the job has failed for good, the text, and the fields of the run
            that it is about, or None.
        hooks: Returns the application's hooks.
    """

    def __init__(
        self,
        seconds: Callable[[], float],
        write: Callable[[bool, str, Mapping[str, Any] | None], None],
        hooks: Callable[[], Iterable[FailureHook]],
    ) -> None:
        self._seconds = seconds
        self._write = write
        self._hooks = hooks
        self._windows: dict[FailureKind, _Window] = {}

    def note(self, failed: FailedAttempt, run: Mapping[str, Any] | None = None) -> None:
        """Log a failure, unless many of its kind were just logged, and call the hooks.

        Args:
            failed: The failed attempt.
            run: The fields by which a JSON line names it.
        """
        try:
            self._put(failed, run)
        except Exception:
            # The outcome of the job counts more than its line in the log.
            traceback.print_exc()
        for hook in self._hooks():
            try:
                hook(failed)
            except Exception:
                name = getattr(hook, "__qualname__", repr(hook))
                text = f"the failure hook {name} failed:\n{traceback.format_exc()}"
                self._write(True, text, run)

    def look(self) -> None:
        """Log how many failures were left out, for each kind whose time window is over."""
        now = self._seconds()
        for kind, window in list(self._windows.items()):
            if now - window.since >= WINDOW:
                del self._windows[kind]
                self._say_left_out(kind, window)

    def _put(self, failed: FailedAttempt, run: Mapping[str, Any] | None) -> None:
        kind = failed.work_type, type(failed.error).__name__
        window = self._windows.get(kind)
        if window is None:
            self._forget_one()
            window = self._windows[kind] = _Window(self._seconds())
        if window.written < MOST_LINES:
            window.written += 1
            self._write(failed.is_final, line_of(failed), run)
        else:
            window.left_out += 1

    def _forget_one(self) -> None:
        if len(self._windows) >= MOST_KINDS:
            kind = next(iter(self._windows))
            self._say_left_out(kind, self._windows.pop(kind))

    def _say_left_out(self, kind: FailureKind, window: _Window) -> None:
        if window.left_out:
            work_type, error = kind
            text = f"{amount(window.left_out)} more failures of {work_type} with {error}"
            self._write(False, text, None)


def failed_attempt_of(
    job: RunningJob, kind: Kind | None, retry: Retry, verdict: Verdict, error: BaseException
) -> FailedAttempt:
    """Return a run that has failed as hooks see it; without a kind, its work type is unknown."""
    redacted = isinstance(job.terms, dict) and bool(job.terms.get("redacted"))
    return FailedAttempt(
        job.id,
        kind.cls.work_type if kind is not None else "of an unknown work type",
        job.attempt,
        retry.attempts if verdict.outcome == "retry" or job.attempt >= retry.attempts else None,
        verdict.delay,
        error,
        redacted=redacted or (kind is not None and kind.cls.redacted),
    )


def kept_log(job: RunningJob, failed: FailedAttempt) -> str | None:
    """Return the last entries of a failed run's log; None for redacted work: they may quote it."""
    if job.log is None or failed.redacted:
        return None
    return last_entries(job.log.entries)


def line_of(failed: FailedAttempt) -> str:
    """Return the log's text for a failure: one line, and the traceback after the last attempt.

    For a redacted work type, the error's own text is left out.
    """
    name = type(failed.error).__name__
    said = name if failed.redacted else _first_line(failed.error)
    of = f" of {failed.attempts}" if failed.attempts else ""
    what = f"job {failed.job_id} ({failed.work_type})"
    if failed.delay is not None:
        again = duration(failed.delay)
        return plain(f"{what} failed in attempt {failed.attempt}{of}, again in {again}: {said}")
    line = plain(f"{what} failed for good in attempt {failed.attempt}{of}: {said}")
    return line if failed.redacted else f"{line}\n{_traceback(failed.error)}"


def _first_line(error: BaseException) -> str:
    try:
        whole = summary_of(error)
    except Exception:
        # An exception's __str__ may fail too.
        return type(error).__name__
    return whole.split("\n", 1)[0][:LONGEST_LINE]


def _traceback(error: BaseException) -> str:
    try:
        whole = "".join(traceback.format_exception(error)).rstrip()
    except Exception:
        whole = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    kept = whole if len(whole) <= LONGEST_TRACEBACK else "[...] " + whole[-LONGEST_TRACEBACK:]
    return "\n".join(plain(line) for line in kept.split("\n"))

"""What is recorded of runs: failed attempts in the node's log, counts, and spans of a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Final, TypeAlias, cast

from attrs import define, evolve

from txqueue.model.directives import FailedAttempt, FailureHook
from txqueue.model.foreign import looked, text_of
from txqueue.model.humanize import amount, duration, plain
from txqueue.model.job_policy import Retry
from txqueue.model.run_log import LoggedRun, RunTally, counted, log_fields, log_of
from txqueue.model.work_item import WorkItem
from txqueue.policy.endings.log_lines import last_entries
from txqueue.policy.endings.outcome import KEYLESS, KEYLESS_PAUSE, Verdict, error_text, storable
from txqueue.tracing.choice import begin_run, is_tracing
from txqueue.worker.handlers.running_job import RunningJob, change
from txqueue.worker.handlers.runtimes import Kind


def traced(kind: Kind) -> Kind:
    """Return a work type whose runs have spans; unchanged if the application has no tracer."""
    return evolve(kind, begin=partial(_begin_traced, kind.begin)) if is_tracing() else kind


def _begin_traced(begin: Callable[[WorkItem, Any], Any], work: WorkItem, job: RunningJob) -> Any:
    change(job, span=begin_run(job.work_type, job.id, job.attempt, job.terms))
    if job.span is None:
        return begin(work, job)
    log_of(job).fields.update(job.span.ids)
    with job.span.current():
        return begin(work, job)


def end_records(job: RunningJob, outcome: str) -> None:
    """End the log and the span of a run, if it has them: most runs have none."""
    if job.log is not None:
        # What a run has printed is written by the application's logging.
        looked(job.log.end, None)
    if job.span is not None:
        job.span.end(outcome)


def within_span(job: RunningJob) -> AbstractContextManager[None]:
    """Make the run's span, if it has one, the parent of what is enqueued inside the block."""
    return nullcontext() if job.span is None else job.span.current()


# Seconds: runs of bursts that took less are counted together.
_QUICK: Final = 0.001


class RunCounts:
    """Counts runs of jobs until they are reported.

    Attributes:
        started: The work types of the runs that started in this burst, one entry each.
        going_on: Those of them that go on after it.
        done: The work types of done jobs, one entry each.
        ended: The work types and outcomes of other ended jobs, one entry each.
        tally: The counts so far, without those lists.
    """

    def __init__(self) -> None:
        self.started: list[str] = []
        self.going_on: list[str] = []
        self.done: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.tally = RunTally()
        self._quick: list[str] = []
        self._quick_seconds = 0.0

    def burst_over(self, seconds: float) -> None:
        """Count the runs of a burst that took some seconds."""
        if seconds < _QUICK and not self.going_on:
            self._quick += self.started
            self._quick_seconds += seconds
        else:
            self.tally.burst(self.started, self.going_on, seconds)
            self.going_on.clear()
        self.started.clear()

    def sum_up(self) -> None:
        """Add the lists to the counts; once for many jobs."""
        for work_type, times in counted(self.done).items():
            self.tally.ended[work_type, "done"] += times
        self.done.clear()
        for kind, times in counted(self.ended).items():
            self.tally.ended[kind] += times
        self.ended.clear()
        if self._quick:
            self.tally.burst(self._quick, (), self._quick_seconds)
            self._quick.clear()
            self._quick_seconds = 0.0


# The most failures of one kind that are written in this many seconds; others are only counted.
MOST_LINES, WINDOW = 5, 10.0
# The most kinds remembered at a time, as an application may create exception classes at run time.
MOST_KINDS = 200
LONGEST_LINE = 500

FailureKind: TypeAlias = tuple[str, str]


@define
class _Window:
    """How many failures of one kind were written since a time, and how many were left out."""

    since: float
    written: int = 0
    left_out: int = 0


@define(eq=False, slots=False)
class FailureLog:
    """Logs the failures of one worker process.

    Args:
        seconds: Returns the time in seconds.
        write: Called with whether the job has failed for good, the text, and the fields of the run
            that it is about, or None.
        hooks: Returns the application's hooks.
    """

    _seconds: Callable[[], float]
    _write: Callable[[bool, str, Mapping[str, Any] | None], None]
    _hooks: Callable[[], Iterable[FailureHook]]

    def __attrs_post_init__(self) -> None:
        self._windows: dict[FailureKind, _Window] = {}

    def leaves_out(self, kind: FailureKind) -> bool:
        """Count a failure if that is all to do: many of its kind were logged, and there is no hook.

        Returns:
            Whether it is.
        """
        window = self._windows.get(kind)
        if window is None or window.written < MOST_LINES or self._hooks():
            return False
        window.left_out += 1
        return True

    def note(
        self, failed: FailedAttempt, name: str, text: str, run: LoggedRun | None = None
    ) -> None:
        """Log a failure, unless many of its kind were just logged, and call the hooks.

        Args:
            failed: The failed attempt.
            name: The name of the error's class.
            text: The text of the error, as it is stored.
            run: The run, whose fields a JSON line has.
        """
        kind = failed.work_type, name
        self._put(kind, failed.is_final, lambda: line_of(failed, name, text), run)
        for hook in self._hooks():
            try:
                hook(failed)
            except BaseException as error:
                # A hook that exits does not end the worker and its other jobs either.
                why = _trace_in(error_text(error))
                self._log(True, f"the failure hook {_name_of(hook)} failed:{why}", run)

    def look(self) -> None:
        """Log how many failures were left out, for each kind whose time window is over."""
        now = self._seconds()
        for kind, window in list(self._windows.items()):
            if now - window.since >= WINDOW:
                del self._windows[kind]
                self._say_left_out(kind, window)

    def note_late(self, job: RunningJob, name: str, text: str, *, is_hidden: bool) -> None:
        """Log an error of a handler whose transaction has completed its job before.

        Args:
            job: The job, which is done.
            name: The name of the error's class.
            text: The text of the error, as it is stored.
            is_hidden: Whether that is left out.
        """
        head = (
            f"job {job.id} ({job.work_type}) is done, but after its transaction had committed its"
            " handler failed"
        )
        kind, shown = (job.work_type, name), name if is_hidden else text
        self._put(kind, True, lambda: _headed(head, shown) + _trace_in(shown), job)

    def note_keyless(self, job: RunningJob) -> None:
        """Log a job that needs a key which this process does not have."""
        self._put((job.work_type, KEYLESS), False, lambda: _keyless_text(job), job)

    def _put(
        self,
        kind: FailureKind,
        is_grave: bool,
        text: Callable[[], str],
        run: LoggedRun | None,
    ) -> None:
        window = self._windows.get(kind)
        if window is None:
            self._forget_one()
            window = self._windows[kind] = _Window(self._seconds())
        if window.written < MOST_LINES:
            window.written += 1
            self._log(is_grave, text(), run)
        else:
            window.left_out += 1

    def _log(self, is_grave: bool, text: str, run: LoggedRun | None) -> None:
        fields = None if run is None else log_fields(run)
        # The outcome of the job counts more than its line in the log.
        looked(lambda: self._write(is_grave, storable(text), fields), None)

    def _forget_one(self) -> None:
        if len(self._windows) >= MOST_KINDS:
            kind = next(iter(self._windows))
            self._say_left_out(kind, self._windows.pop(kind))

    def _say_left_out(self, kind: FailureKind, window: _Window) -> None:
        if window.left_out:
            work_type, error = kind
            text = f"{amount(window.left_out)} more failures of {work_type} with {error}"
            self._log(False, text, None)


def _keyless_text(job: RunningJob) -> str:
    return (
        f"job {job.id} ({job.work_type}) needs a key that this node does not have, and is tried"
        f" again in {KEYLESS_PAUSE:g} s; see: txqueue explain {job.id}"
    )


def failed_attempt_of(
    job: RunningJob, kind: Kind | None, retry: Retry, verdict: Verdict, error: BaseException
) -> FailedAttempt:
    """Return a run that has failed as hooks see it; without a kind, its work type is unknown."""
    return FailedAttempt(
        job_id=job.id,
        work_type=work_type_of(kind),
        attempt=job.attempt,
        attempts=retry.attempts
        if verdict.outcome == "retry" or job.attempt >= retry.attempts
        else None,
        delay=verdict.delay,
        error=error,
        redacted=is_redacted(job, kind),
        text=verdict.error or "",
    )


def work_type_of(kind: Kind | None) -> str:
    """Return the name of a work type, as the log has it."""
    return kind.cls.work_type if kind is not None else "of an unknown work type"


def is_redacted(job: RunningJob, kind: Kind | None) -> bool:
    """Tell whether a job's data must not be shown."""
    by_terms = isinstance(job.terms, dict) and bool(job.terms.get("redacted"))
    return by_terms or (kind is not None and kind.cls.redacted)


def kept_log(job: RunningJob, kind: Kind | None) -> str | None:
    """Return the last entries of a failed run's log; None for redacted work: they may quote it."""
    if job.log is None or is_redacted(job, kind):
        return None
    return last_entries(job.log.entries)


def line_of(failed: FailedAttempt, name: str, text: str) -> str:
    """Return the log's text for a failure: one line, and the traceback after the last attempt.

    Args:
        failed: The failed attempt.
        name: The name of the error's class; all that is shown of that of redacted work.
        text: The text of the error, as it is stored.
    """
    shown = name if failed.redacted else text
    of = f" of {failed.attempts}" if failed.attempts else ""
    job_text, attempt = f"job {failed.job_id} ({failed.work_type})", f"{failed.attempt}{of}"
    if failed.delay is None:
        return _headed(f"{job_text} failed for good in attempt {attempt}", shown) + _trace_in(shown)
    again = f"again in {duration(failed.delay)}"
    return _headed(f"{job_text} failed in attempt {attempt}, {again}", shown)


def _headed(head: str, text: str) -> str:
    first, _, _ = text.partition("\n")
    return plain(f"{head}: {first[:LONGEST_LINE]}")


def _trace_in(text: str) -> str:
    """Return the lines of a stored text below its summary."""
    _, _, trace = text.partition("\n\n")
    return "".join(f"\n{plain(line)}" for line in trace.rstrip().split("\n") if trace)


def _name_of(hook: FailureHook) -> str:
    name = looked(lambda: cast("Any", hook).__qualname__, None)
    return text_of(name if name is not None else hook)

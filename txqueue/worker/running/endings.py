"""Ends runs by what their handlers have returned or raised, and reports many ends together."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, cast

from attrs import define, evolve
from twisted.internet.defer import CancelledError

from txqueue.errors import InvalidWork, KeyUnavailable
from txqueue.model.assignment import Assignment, SettledJob, StartedJob
from txqueue.model.directives import DIRECTIVES, Next
from txqueue.model.foreign import is_a, looked, text_of
from txqueue.model.job_policy import Retry
from txqueue.model.results import LONGEST_SMALL, check_length, encode_result, small_result
from txqueue.model.run_log import counted
from txqueue.policy.endings.outcome import (
    DECISIVE,
    KEYLESS,
    LATE,
    RUN_AGAIN,
    Verdict,
    error_class,
    error_text,
    is_suspension,
    judge,
    judge_cancelled,
    judge_unavailable,
    name_in,
    storable,
    summary_of,
)
from txqueue.store.enqueueing.calls import job_object, json_text
from txqueue.system.inflight import InFlight
from txqueue.tracing.choice import sending
from txqueue.worker.handlers.job_transaction import result_text
from txqueue.worker.handlers.running_job import HeldAssignment, RunningJob, change
from txqueue.worker.handlers.runtimes import Kind
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.running.backlog import is_grouped
from txqueue.worker.running.run_records import (
    FailureLog,
    RunCounts,
    end_records,
    failed_attempt_of,
    is_redacted,
    kept_log,
    within_span,
    work_type_of,
)

LONGEST_TOGETHER = 1 << 15
"""Characters of a result that is reported with those of other jobs."""
NO_RETRY = Retry(attempts=1)
_OTHER_VALUE = InvalidWork(
    "the handler returned another value than it had set as txn.result, which is the job's result",
    "return nothing after job.transaction(), or the same",
)
# The report of completed jobs waits for an eighth of the jobs that wait, of so many at most: the
# master claims jobs a tenth of a second before workers need them.
_PART, _MOST = 8, 512
# Classes of results that are no directive, as most results have.
_PLAIN = frozenset({dict, list, str, int, float, bool})


class Report(Protocol):
    """Receives the worker's reports."""

    @property
    def is_sent(self) -> bool:
        """Whether the master can read all reports so far, even if a handler now blocks."""

    def complete(self, assignments: Iterable[HeldAssignment]) -> None:
        """Report the done jobs of assignments, at least one."""

    def settle(self, weight: int, counts: Mapping[int, int], jobs: Sequence[SettledJob]) -> None:
        """Report jobs that ended otherwise than done, or with progress to store."""

    def refuse(self, assignment: Assignment, reason: str) -> None:
        """Report an assignment whose jobs do not start, as its chunk does not have them."""

    def start(self, jobs: list[StartedJob]) -> None:
        """Report running jobs: those that run for longer than a second, or have new progress."""

    def occupy(self, weight: int, jobs: Iterable[int], *, is_stuck: bool) -> None:
        """Report the weight and the numbers of ended jobs whose threads go on.

        Args:
            weight: Their weight together, which no other job can take.
            jobs: Their numbers.
            is_stuck: Whether the worker can start no job until one of the threads ends.
        """

    def log_text(self, is_grave: bool, text: str, run: Mapping[str, Any] | None) -> None:
        """Write a text to the node's log, with the fields of the run that it is about, if any."""

    def late(self, job: RunningJob, what: str, text: str) -> None:
        """Store what came of a handler whose transaction had completed its job before.

        Args:
            job: The job.
            what: ``error`` or ``result``.
            text: The error; or the result, as JSON text.
        """

    def count(self, tally: str) -> None:
        """Report what jobs did since the last report, as `RunTally.take` writes it."""


@define(eq=False, slots=False)
class Endings:
    """Ends the runs of a worker, and reports their ends to the master at the end of each turn.

    Args:
        report: Receives the ends.
        runs: Counts them.
        failures: Logs the failed ones.
        in_flight: Records which jobs have run, in case this process dies.
        complete: Completes a job together with its follow-up work.
        longest_result: The longest result or next stage of a job, in bytes of JSON text.
    """

    _report: Report
    _runs: RunCounts
    _failures: FailureLog
    _in_flight: InFlight
    _complete: Callable[[RunningJob, Kind], None]
    _longest_result: int

    def __attrs_post_init__(self) -> None:
        self._may_be_small = self._longest_result >= LONGEST_SMALL
        self._touched: dict[int, HeldAssignment] = {}
        # How many of the jobs to report are completed, and whether there is anything else.
        self._completed, self._is_due = 0, False
        self._settled: list[SettledJob] = []
        self._settled_weight = 0

    def touch(self, held: HeldAssignment) -> None:
        """Report an assignment of which the worker no longer holds some jobs."""
        self._touched[held.token.assignment] = held
        self._is_due = True

    def committed(self, job: RunningJob) -> None:
        """Note that a job's own transaction has completed it, while its handler may go on."""
        held = job.assignment
        if job.id not in held.committed:
            held.committed.add(job.id)
            self._completed += 1
        # Its report is not due: see `can_wait`.
        self._touched[held.token.assignment] = held

    def returned(self, job: RunningJob, kind: Kind, value: Any) -> None:
        """End the run of a job whose handler has returned a value, which may be any object."""
        try:
            self._take(job, kind, value)
        except InvalidWork as error:
            self.judged(job, NO_RETRY, error, kind)
        except BaseException as error:
            self.undecided(job, error)

    def _take(self, job: RunningJob, kind: Kind, value: Any) -> None:
        if job.last_progress is not None and not job.is_completed:
            if job.end_waits():
                # The handler has swallowed what ends a run that waits.
                self._suspend(job, kind)
                return
            job.check_awaited()
        if job.is_completed or (value is None and not job.follow_ups):
            if job.is_completed and value is not None:
                self._note_returned(job, kind, value)
            self.done(job)
        elif type(value) not in _PLAIN and is_a(value, *DIRECTIVES):
            self.judged(job, NO_RETRY, value, kind)
        elif not self._note_small(job, kind, value):
            self._store(job, kind, value)

    def _note_returned(self, job: RunningJob, kind: Kind, value: Any) -> None:
        """Keep a value that came after the transaction that completed the job, or note its loss."""
        if is_a(value, *DIRECTIVES):
            self.note_late(job, kind, value)
        elif job.result is None:
            self._keep_late(job, kind, value)
        elif not kind.cls.encrypted and encode_result(value) != job.result:
            self.note_late(job, kind, _OTHER_VALUE)

    def _keep_late(self, job: RunningJob, kind: Kind, value: Any) -> None:
        try:
            text = result_text(job.work_type, value, self._longest_result)
        except InvalidWork as error:
            self.note_late(job, kind, error)
        else:
            self._report.late(job, "result", cast("str", text))

    def _note_small(self, job: RunningJob, kind: Kind, value: Any) -> bool:
        """Note a small result, to be encoded with others; return whether it is one."""
        is_usual = job.last_progress is None and not job.follow_ups and not kind.cls.encrypted
        if not (is_usual and self._may_be_small) or (small := small_result(value)) is None:
            return False
        job.assignment.values[str(job.id)] = small
        self.done(job)
        return True

    def _store(self, job: RunningJob, kind: Kind, value: Any) -> None:
        """Store the value as the job's result."""
        result = result_text(job.work_type, value, self._longest_result)
        if job.follow_ups:
            change(job, result=result)
            self._complete(job, kind)
        elif job.last_progress is not None or len(result or "") > LONGEST_TOGETHER:
            number, stored = job.token.assignment, json.loads(result or "")
            self.settle(job, SettledJob(job.id, number, "done", result=stored))
        else:
            job.assignment.results.append(f'"{job.id}":{result}')
            self.done(job)

    def done(self, job: RunningJob) -> None:
        """Note that a handler has returned None, or that a transaction has completed its job."""
        if job.last_progress is not None and not job.is_completed:
            self.settle(job, SettledJob(job.id, job.token.assignment, "done"))
            return
        self._runs.done.append(job.work_type)
        if job.log is not None or job.span is not None:
            end_records(job, "done")
        held = job.assignment
        if job.is_completed:
            self.committed(job)
        else:
            held.done.append(job.id)
            self._completed += 1
            # The next job of its group waits for the report.
            self._is_due |= job.terms is not None and is_grouped(job.terms)
        held.let_go(job.weight)
        self._touched[held.token.assignment] = held

    def failed(self, job: RunningJob, kind: Kind | None, terms: Any, error: Any) -> None:
        """Decide the outcome of a run whose handler raised.

        Args:
            job: The job.
            kind: Its work type; None if the worker does not have it.
            terms: Its terms.
            error: What the handler raised.
        """
        try:
            self._judge(job, kind, terms, error)
        except BaseException as broken:
            self.undecided(job, broken)

    def undecided(self, job: RunningJob, error: BaseException) -> None:
        """Fail a job whose outcome cannot be decided, so that at least its end is not lost."""
        verdict = Verdict("failed", error=error_text(error), error_class=error_class(error))
        self.settle(job, verdict.of(job.key))

    def _judge(self, job: RunningJob, kind: Kind | None, terms: Any, error: Any) -> None:
        who = job.cancelled_by
        waits = job.last_progress is not None and job.end_waits()
        if job.is_completed:
            if not (job.is_cancelled and is_a(error, CancelledError)):
                self.note_late(job, kind, error)
            self.done(job)
        elif job.is_cancelled:
            verdict = RUN_AGAIN if who is None else judge_cancelled(error, who)
            self.settle(job, verdict.of(job.key))
        elif job.last_progress is not None and job.waits and is_suspension(error):
            self._suspend(job, kind)
        elif error is job.unavailable:
            self.settle(job, judge_unavailable(error, random.random()).of(job.key))
        else:
            if waits:
                _note_lost_wait(job, error)
            self.judged(job, _retry_of(kind, terms), error, kind)

    def _suspend(self, job: RunningJob, kind: Kind | None) -> None:
        """End the run of a job that waits, unless it has forgotten a call before."""
        if (forgotten := job.forgotten) is not None:
            self.judged(job, NO_RETRY, forgotten, kind)
            return
        key = job.key
        self.settle(job, SettledJob(key.job_id, key.assignment, "suspended", waits=job.waits))

    def note_late(self, job: RunningJob, kind: Kind | None, error: Any) -> None:
        """Log and store an error of a handler whose transaction has completed the job before."""
        name, text = name_in(error_class(error)), error_text(error)
        self._failures.note_late(job, name, text, is_hidden=is_redacted(job, kind))
        self._report.late(job, "error", f"{LATE}{text}")

    def judged(self, job: RunningJob, retry: Retry, error: Any, kind: Kind | None = None) -> None:
        """Decide the outcome of a run by an error or a directive, and log it if it has failed."""
        if is_a(error, Next):
            with within_span(job):
                verdict = _judge_next(error, job, self._longest_result)
        else:
            chance = random.random()
            verdict = judge(error, retry, job.attempt - 1, chance, job.times_throttled)
        settled = verdict.of(job.key)
        if verdict.outcome not in ("retry", "failed"):
            self.settle(job, settled)
            if verdict.error_class == KEYLESS:
                self._failures.note_keyless(job)
            return
        if job.span is not None:
            job.span.failed(error, is_hidden=is_redacted(job, kind))
        # First, so that an error in the log, or in a hook, does not lose the outcome.
        log = kept_log(job, kind)
        self.settle(job, settled if log is None else evolve(settled, log=log))
        # What decides the outcome by itself is stored without its traceback.
        is_decisive = is_a(error, *DECISIVE)
        name = name_in(error_class(error) if is_decisive else verdict.error_class or "")
        if not self._failures.leaves_out((work_type_of(kind), name)):
            failed = failed_attempt_of(job, kind, retry, verdict, error)
            text = error_text(error) if is_decisive else verdict.error or ""
            self._failures.note(failed, name, text, job)

    def settle(self, job: RunningJob, settled: SettledJob) -> None:
        """Note the outcome of a job that did not just return."""
        if job.last_progress is not None:
            progress = json.loads(job.last_progress)
            settled = evolve(settled, progress=progress, cost=job.settled_cost)
        if job.log is not None or job.span is not None:
            end_records(job, settled.outcome)
        self._settled.append(settled)
        self._runs.ended.append((job.work_type, settled.outcome))
        self._settled_weight += job.weight
        self._is_due = True

    def can_wait(self, waiting: int) -> bool:
        """Tell whether the report of what has ended can wait for more.

        A report costs as much as a short job. The master, which claims others for it, needs none
        while many wait; it collects what is done for longer than the report waits.

        Args:
            waiting: How many jobs the worker has not started.
        """
        return not self._is_due and 0 < self._completed * _PART <= min(waiting, _MOST)

    def flush(self) -> None:
        """Report what has ended since the last report; each turn ends with it."""
        self._runs.sum_up()
        self._completed, self._is_due = 0, False
        touched, self._touched = self._touched, {}
        if touched:
            self._report.complete(touched.values())
        for held in touched.values():
            held.clear()
        if self._settled:
            counts = counted([settled.assignment for settled in self._settled])
            settlement = self._settled_weight, counts, self._settled
            self._settled, self._settled_weight = [], 0
            self._report.settle(*settlement)
        self._in_flight.reported()


def _retry_of(kind: Kind | None, terms: Any) -> Retry:
    retry = kind.cls.retry if kind else NO_RETRY
    return evolve(retry, attempts=terms["attempts"]) if terms and "attempts" in terms else retry


def _judge_next(directive: Next, job: RunningJob, longest: int) -> Verdict:
    """Return the outcome of an attempt whose handler returned or raised `Next`.

    Args:
        directive: The next stage.
        job: The job.
        longest: The longest stage, in bytes of JSON text.
    """
    if job.cancelled_by is not None:
        return judge_cancelled(None, job.cancelled_by)
    if job.follow_ups:
        # Otherwise follow-up work would be lost silently.
        return Verdict("failed", error="a job cannot use both Next and job.then(): use one of them")
    try:
        with sending(directive.work, directive.options) as call:
            stage = job_object(directive.work, call.options)
        # This is the only check before the report to the master.
        json_text(stage)
        text = json.dumps(stage, allow_nan=False, ensure_ascii=False)
        check_length("next stage", text, longest)
        stage = json.loads(text)
    except BaseException as error:
        why = text_of(error) if is_a(error, InvalidWork, KeyUnavailable) else summary_of(error)
        return Verdict("failed", error=storable(f"its next stage is not valid: {why}"))
    return Verdict("next", stage=stage)


def _note_lost_wait(job: RunningJob, error: Any) -> None:
    """Add to an error that it has taken the place of what ends a run that waits."""
    looked(
        lambda: error.add_note(
            f"This took the place of Suspended, by which the run ends to wait for"
            f" {job.waits[0]['name']!r}: the job has failed instead, and does not wait. Raise"
            " nothing in `finally`, and let Suspended through."
        ),
        None,
    )


@define(eq=False, slots=False)
class Outlived:
    """Ended jobs whose threads go on, and so keep their weight.

    Args:
        threads: Have the threads.
        capacity: The weight that the worker runs at a time.
        report: Receives what is taken, and whether that leaves no room for any job.
        over: Called when the last thread of such a job has ended.
    """

    _threads: HandlerThreads
    _capacity: int
    _report: Report
    _over: Callable[[RunningJob], None]

    def __attrs_post_init__(self) -> None:
        self._jobs: set[RunningJob] = set()

    def keeps(self, job: RunningJob) -> bool:
        """Tell whether a thread of an ended job goes on."""
        leaving = self._threads.left_by(job)
        if leaving is None:
            return False
        self._jobs.add(job)
        self._tell()
        leaving.addCallback(lambda _: self._left(job))
        return True

    def _left(self, job: RunningJob) -> None:
        self._jobs.remove(job)
        self._tell()
        self._over(job)

    def _tell(self) -> None:
        weight = sum(job.weight for job in self._jobs)
        is_stuck = weight >= self._capacity or len(self._jobs) >= self._threads.most
        self._report.occupy(weight, (job.id for job in self._jobs), is_stuck=is_stuck)

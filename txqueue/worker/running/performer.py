"""Runs jobs: starts them within the worker's capacity, and waits for those that go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Set
from contextlib import AbstractContextManager
from itertools import chain, repeat

from attrs import Factory, define, evolve
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall

from txqueue.errors import InvalidWork
from txqueue.model.assignment import AssignedJob, Assignment, MalformedChunk, read_chunk
from txqueue.model.directives import FailureHook, failure_hooks
from txqueue.model.run_log import RUNNING, log_fields
from txqueue.policy.endings.outcome import EXPIRED, RUN_AGAIN, Verdict, judge_cancelled
from txqueue.policy.endings.reports import RESULT_LIMIT
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.system.inflight import InFlight
from txqueue.worker.handlers.job_transaction import StepStore, complete, one_at_most
from txqueue.worker.handlers.running_job import (
    HeldAssignment,
    OpenTransaction,
    RunningJob,
    begun,
    change,
)
from txqueue.worker.handlers.runtimes import Kind, WorkThrough, class_of, kind_of
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.handlers.waiting import Ended, Waiting, waiting_for
from txqueue.worker.running.backlog import Backlog, Turns, check_terms, is_expired, is_grouped
from txqueue.worker.running.endings import NO_RETRY, Endings, Outlived, Report
from txqueue.worker.running.run_records import FailureLog, RunCounts, traced, within_span
from txqueue.worker.running.waiting_run import BEAT, LONGEST_END, WaitingRun

# Seconds for which jobs are started before the reactor gets its turn. The clock is read after each
# burst of jobs; a burst has more jobs if the last one took less than QUICK.
SLICE, QUICK = 0.005, 0.001
LONGEST_BURST = 64
# Seconds after which a burst ends, so that messages of the master are read.
LONGEST_SILENCE = 1.0
# While fewer jobs go on, seldom several end in one turn of the reactor; of more, to start those
# that follow in another turn costs less. Ends of transactions come one by one.
FEW = 16
# Seconds in which completed jobs are reported whose report can wait.
SOON = 0.005
# Seconds between two turns while the master must read reports before more jobs can be noted.
STUCK = 0.01
# Why a handler may go on although its job was cancelled.
_COROUTINE = "Does it swallow CancelledError? That is an Exception: raise it again"
_THREAD = "A function in a thread must check job.is_cancelled, and goes on until it returns"


@define(eq=False, repr=False, slots=False)
class Performer:
    """Runs the jobs of one worker process.

    Args:
        reactor: The worker's reactor.
        threads: Run threaded handlers.
        capacity: The weight that may run at a time.
        report: Receives the worker's reports.
        open_transaction: Opens a job's own transaction.
        work_through: Runs the jobs of worksets.
        steps: Reads and writes the steps of jobs.
        in_flight: Records the running jobs, in case this process dies.
        longest_result: The longest result or next stage of a job, in bytes of JSON text.
        hooks: Returns what is called for each failed attempt.
    """

    _reactor: IStoreReactor
    _threads: HandlerThreads
    _capacity: int
    _report: Report
    _open_transaction: OpenTransaction
    _work_through: WorkThrough | None = None
    _steps: StepStore | None = None
    _in_flight: InFlight = Factory(lambda self: InFlight(self._capacity), takes_self=True)
    _longest_result: int = RESULT_LIMIT
    _hooks: Callable[[], Iterable[FailureHook]] = failure_hooks

    def __attrs_post_init__(self) -> None:
        self._open_transaction = one_at_most(self._open_transaction, self._committed)
        self._waiting = Backlog()
        self._running: dict[RunningJob, WaitingRun] = {}
        self._running_weight = 0
        self._outlived = Outlived(self._threads, self._capacity, self._report, self._outlived_over)
        self._kinds: dict[str, Kind] = {}
        self._burst = 1
        self._lease_until = float("inf")
        self._incarnation = 0
        self._runs = RunCounts()
        self._failures = FailureLog(self._reactor.seconds, self._report.log_text, self._hooks)
        self._ends = Endings(
            self._report,
            self._runs,
            self._failures,
            self._in_flight,
            self._complete,
            self._longest_result,
        )
        self._turns = Turns(self._reactor, self._start_jobs, self._report_ends)
        self._is_reporting = False
        self._beat = LoopingCall(self._look)
        self._beat.clock = self._reactor

    def start(self) -> None:
        """Start reporting long runs and detecting hung ones."""
        self._beat.start(BEAT, now=False)

    def _look(self) -> None:
        """Report long runs and new progress, end silent runs, and insist that runs end."""
        now, runs = self._reactor.seconds(), list(self._running.values())
        if reports := [report for run in runs if (report := run.report(now)) is not None]:
            self._report.start(reports)
        for run in runs:
            if run.insist(now):
                self._abandon(run)
            else:
                run.look_for_beat(now)
        self._failures.look()
        self._report_tally()

    def _report_ends(self) -> None:
        # A job that starts next may block this process for long.
        if self._may_start() or not self._postpones_report():
            self._ends.flush()

    def _postpones_report(self) -> bool:
        """Report what has ended soon, but not now, if that can wait; return whether it can."""
        if not self._ends.can_wait(len(self._waiting)):
            return False
        if not self._is_reporting:
            self._is_reporting = True
            self._reactor.callLater(SOON, self._report_now)
        return True

    def _report_now(self) -> None:
        self._is_reporting = False
        self._ends.flush()

    def _report_tally(self) -> None:
        if self._runs.tally:
            self._report.count(self._runs.tally.take())

    def stop(self) -> None:
        """Start no more jobs, and cancel running ones."""
        self._waiting.clear()
        if self._beat.running:
            self._beat.stop()
        for running in list(self._running.values()):
            running.cancel(self._reactor.seconds())

    def perform(self, assignment: Assignment) -> None:
        """Accept the jobs of an assignment, and start them as the capacity allows.

        An assignment is refused as a whole if its chunk does not have its jobs: others than the
        database can have sent it, and it must not harm other jobs.
        """
        try:
            jobs = _jobs_of(assignment)
        except MalformedChunk as error:
            self._report.refuse(assignment, str(error))
            return
        held = HeldAssignment(assignment, self._steps)
        is_idle = not self._waiting and not self._turns.is_due
        self._waiting.extend(zip(repeat(held), jobs, strict=False))
        if self._incarnation not in (0, assignment.incarnation):
            self._forget_former()
        if is_idle and self._may_start() and not self._in_flight.is_full:
            self._begin_some()
        self._turns.request()

    def renew(self, until: float, incarnation: int = 0) -> None:
        """Allow jobs of run `incarnation` to start until `until`, by the monotonic clock."""
        self._lease_until = until
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self._forget_former()
        self._turns.request()

    def _forget_former(self) -> None:
        """Drop jobs assigned to a former run of the node, which other nodes may have now."""
        for held, job in self._waiting.take_former(self._incarnation):
            held.let_go(job.weight)
            self._ends.touch(held)

    def give_up_waiting(self, most: int | None = None) -> tuple[dict[int, list[int]], int]:
        """Give up unstarted jobs: all, or the last ones until their weight reaches `most`.

        Returns:
            The numbers of the given-up jobs by assignment, and their weight.
        """
        return self._waiting.give_up(most)

    def held(self, assignments: Set[int]) -> dict[int, list[int]]:
        """Report ended jobs, then return the numbers of the other jobs of the given assignments."""
        self._ends.flush()
        self._report_tally()
        job_ids: dict[int, list[int]] = {}
        waiting = ((held.token.assignment, job.job_id) for held, job in self._waiting.all())
        running = ((job.token.assignment, job.id) for job in self._running)
        for assignment, job_id in chain(waiting, running):
            if assignment in assignments:
                job_ids.setdefault(assignment, []).append(job_id)
        return job_ids

    def cancel(self, assignment: int, job_id: int, who: str) -> None:
        """End a cancelled job: drop it if unstarted, else interrupt it if possible."""
        if self._drop(assignment, job_id, judge_cancelled(None, who)):
            return
        for running in self._unended(assignment, job_id):
            change(running.job, cancelled_by=who)
            # A job whose handler has returned is done, once that can be written.
            if not running.is_completing:
                self._interrupt(running)

    def restart(self, assignment: int, job_id: int) -> None:
        """End the run of a job that runs again: drop it if unstarted, else leave its thread."""
        if self._drop(assignment, job_id, RUN_AGAIN):
            return
        for running in self._unended(assignment, job_id):
            change(running.job, is_ended=True)
            if not running.is_completing:
                running.cancel(self._reactor.seconds())

    def _unended(self, assignment: int, job_id: int) -> list[WaitingRun]:
        """Return the run of a job, unless it is being ended."""
        return [
            running
            for job, running in self._running.items()
            if job.id == job_id and job.token.assignment == assignment and not job.is_cancelled
        ]

    def end_groups(self, run: int | None = None) -> bool:
        """Interrupt running jobs of groups at the end of the lease; return whether some continue.

        Args:
            run: Only jobs of other runs of the node than this incarnation; None for all.
        """
        for running in self._grouped(run):
            change(running.job, is_ended=True)
            self._interrupt(running)
        return bool(self._grouped(run))

    def _interrupt(self, running: WaitingRun) -> None:
        running.interrupt(self._reactor.seconds())
        self._threads.interrupt(running.job)

    def _grouped(self, run: int | None) -> list[WaitingRun]:
        return [
            running
            for running in self._running.values()
            if is_grouped(running.terms) and (run is None or running.job.token.incarnation != run)
        ]

    def _drop(self, assignment: int, job_id: int, verdict: Verdict) -> bool:
        """End a job that has not started; return whether there is one."""
        if (waiting := self._waiting.take(assignment, job_id)) is None:
            return False
        held, assigned = waiting
        self._never_began(begun(assigned, held, self._open_transaction), verdict)
        self._turns.request()
        return True

    def _never_began(self, job: RunningJob, verdict: Verdict) -> None:
        self._ends.settle(job, evolve(verdict.of(job.key), unstarted=True))

    def reading(self) -> AbstractContextManager[None]:
        """Return a context for messages that are read together; what ended is reported after."""
        return self._turns.reading()

    def _start_jobs(self) -> None:
        """Start jobs while there is room, for a slice of time."""
        if self._report.is_sent:
            self._in_flight.forget_reported()
        if self._waiting.aside:
            self._waiting.bring_back(self._threads.free)
        began = self._reactor.seconds()
        until = began + SLICE
        while began < until and self._may_start() and not self._in_flight.is_full:
            self._begin_some()
            now = self._reactor.seconds()
            self._burst = min(2 * self._burst, LONGEST_BURST) if now - began < QUICK else 1
            began = now
        # The master replaces a worker that has started all it may, or lets it go on.
        is_spent = bool(self._waiting) and not self._in_flight.left
        if is_spent or self._may_start():
            is_stuck = is_spent or (self._in_flight.is_full and not self._report.is_sent)
            self._turns.request(after=STUCK if is_stuck else 0)

    def _begin_some(self) -> None:
        waiting = self._waiting
        # A worker that was suspended or blocked between two jobs may have lost the lease, or been
        # stopped by the master.
        began = time.monotonic()
        until = began + LONGEST_SILENCE
        note_begin, begin, monotonic = self._in_flight.begin, self._begin, time.monotonic
        held_before = len(waiting) + len(waiting.aside)
        for _ in range(min(self._burst, len(waiting), self._in_flight.left)):
            held, job = waiting.popleft()
            note_begin(job.job_id)
            begin(held, job)
            if self._running_weight and waiting and not self._has_room(waiting[0][1].weight):
                break
            if (now := monotonic()) >= self._lease_until or now >= until:
                break
        # What follows belongs to none of these jobs.
        RUNNING.set(None)
        self._in_flight.note_started(held_before - len(waiting) - len(waiting.aside))
        self._in_flight.pause()
        self._runs.burst_over(time.monotonic() - began)

    def _may_start(self) -> bool:
        if not self._waiting or not self._has_room(self._waiting[0][1].weight):
            return False
        return time.monotonic() < self._lease_until and not self._in_flight.is_stopped

    def _has_room(self, weight: int) -> bool:
        return self._running_weight == 0 or self._running_weight + weight <= self._capacity

    def _begin(self, held: HeldAssignment, assigned: AssignedJob) -> None:
        """Start one job. This code runs for every job, so rare cases are elsewhere."""
        terms = assigned.terms
        job = begun(assigned, held, self._open_transaction)
        RUNNING.set(job)
        kind = self._kinds.get(assigned.work_type)
        try:
            if terms is not None:
                check_terms(terms)
                if "steps" in terms:
                    job.write_end_apart()
            if kind is None:
                kind = self._learn(assigned.work_type)
            if kind.takes_thread and not self._threads.free:
                self._waiting.aside.append((held, assigned))
                return
            if terms is not None and is_expired(terms, kind.cls.expires, held.asked_at):
                self._never_began(job, EXPIRED)
                return
            self._runs.started.append(job.work_type)
            value = kind.begin(kind.work(assigned.payload), job)
        except InvalidWork as error:
            self._ends.judged(job, NO_RETRY, error, kind)
            return
        except BaseException as error:
            # A handler that calls sys.exit() has failed; the process and its other jobs continue.
            self._ends.failed(job, kind, terms, error)
            return
        if value is None and not job.follow_ups and job.last_progress is None:
            self._ends.done(job)
        elif type(value) is Waiting:
            self._runs.going_on.append(job.work_type)
            self._wait_for(job, kind, value)
        else:
            self._ends.returned(job, kind, value)

    def _learn(self, work_type: str) -> Kind:
        cls = class_of(work_type)
        self._kinds[work_type] = traced(kind_of(cls, self._threads, self._work_through))
        return self._kinds[work_type]

    def _wait_for(
        self, job: RunningJob, kind: Kind, handler: Waiting, *, is_completing: bool = False
    ) -> None:
        running = WaitingRun(job, kind, job.terms or {}, self._reactor.seconds(), handler)
        running.is_completing = is_completing
        self._running[job] = running
        change(job, _handler=handler)
        self._in_flight.keep(job.id)
        self._running_weight += job.weight
        timeout = running.terms.get("timeout", running.kind.cls.timeout)
        # Once a handler has returned, the time to write its completion does not count.
        if timeout is not None and not is_completing:
            running.timer = self._reactor.callLater(timeout, self._overran, running, timeout)
        handler.ending.addErrback(Ended.by).addCallback(self._waited, running)

    def _overran(self, running: WaitingRun, timeout: float) -> None:
        why = f"it ran for longer than its timeout of {timeout:g} s"
        running.end(TimeoutError, why, self._reactor.seconds())

    def _waited(self, ended: Ended, running: WaitingRun) -> None:
        if self._running.get(running.job) is not running:
            # The worker has not waited for it.
            return
        self._ended(running)
        error = running.error_of(ended.error)
        if error is None:
            self._ends.returned(running.job, running.kind, ended.value)
        else:
            self._ends.failed(running.job, running.kind, running.terms, error)
            # A thread that goes on can see that it should end.
            change(running.job, is_ended=True)
        is_alone = running.job.is_completed or len(self._running) < FEW
        if is_alone and self._postpones_report():
            self._turns.start_now()
        else:
            self._turns.request()

    def _abandon(self, running: WaitingRun) -> None:
        """End the run of a handler that goes on although it was cancelled, as if it had ended."""
        if self._running.get(running.job) is running:
            self._report.log_text(True, _abandoned_text(running), log_fields(running.job))
            running.close()
            self._waited(Ended(error=CancelledError()), running)

    def _ended(self, running: WaitingRun) -> None:
        del self._running[running.job]
        self._in_flight.drop(running.job.id)
        if not (running.kind.takes_thread and self._outlived.keeps(running.job)):
            self._running_weight -= running.job.weight
        if running.timer is not None and running.timer.active():
            running.timer.cancel()
        if not running.is_completing:
            self._runs.tally.ran(running.job.work_type, self._reactor.seconds() - running.began)

    def _committed(self, job: RunningJob) -> None:
        self._ends.committed(job)
        if not self._postpones_report():
            self._turns.request()

    def _outlived_over(self, job: RunningJob) -> None:
        self._running_weight -= job.weight
        self._turns.request()

    def _complete(self, job: RunningJob, kind: Kind) -> None:
        """Complete a job together with its follow-up work."""
        change(job, has_returned=True)
        with within_span(job):
            completing = Deferred.fromCoroutine(
                complete(job, self._open_transaction, self._reactor)
            )
        self._wait_for(job, kind, waiting_for(completing), is_completing=True)


def _jobs_of(assignment: Assignment) -> list[AssignedJob]:
    """Return the jobs of an assignment.

    Raises:
        MalformedChunk: When its chunk does not have them.
    """
    jobs = read_chunk(assignment.chunk)
    if len(jobs) != assignment.jobs or sum([job.weight for job in jobs]) != assignment.weight:
        raise MalformedChunk("it has other jobs than its message says")
    return jobs


def _abandoned_text(running: WaitingRun) -> str:
    job = running.job
    return (
        f"job {job.id} ({job.work_type}): its handler goes on although it was cancelled"
        f" {LONGEST_END:g} s ago; the worker waits no longer for it."
        f" {_THREAD if running.kind.takes_thread else _COROUTINE}"
    )

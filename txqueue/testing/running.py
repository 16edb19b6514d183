"""Runs one assigned job after the other here, by the rules of a worker."""

from __future__ import annotations

import asyncio
import json
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, cast

from attrs import Factory, define, field, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock as ManualClock

from txqueue.model.assignment import AssignedJob, Assignment, SettledJob, StartedJob, read_chunk
from txqueue.model.directives import FailedAttempt, FailureHook, failure_hooks
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.job_policy import Runtime
from txqueue.model.work_item import WorkItem, find_work_type, known_work_types
from txqueue.store.enqueueing.encryption import decrypted, decrypted_result
from txqueue.system.clock import Clock, Timer, in_asyncio
from txqueue.testing.connections import in_loop, loop_of_project
from txqueue.testing.steps import StepsInMemory, StepsOfRows, results_of
from txqueue.worker.handlers.job_transaction import StepStore
from txqueue.worker.handlers.running_job import HeldAssignment, OpenTransaction, RunningJob, change
from txqueue.worker.handlers.runtimes import work_of
from txqueue.worker.handlers.threads import HandlerThreads, ReactorCalls
from txqueue.worker.handlers.waiting import Ended, called
from txqueue.worker.running.performer import Performer

if TYPE_CHECKING:
    from twisted.python.threadpool import ThreadPool


@frozen
class Outcome:
    """How a run has ended.

    Attributes:
        kind: ``done``, ``retry``, ``snooze``, ``next``, ``suspended`` if the job waits, ``failed``,
            ``cancelled``, or ``unread`` if the payload does not fit the class.
        result: What the handler returned, as it is stored.
        error: What the handler raised, or `Fail`; None if the attempt did not fail.
        reason: The text that is stored with the job: of the error, of `Fail` or of `Discard`.
        delay: Seconds until the next run, if there is one.
        stage: The work item of the next stage, if the handler returned `Next`.
        follow_ups: What the handler has added with ``job.then()``, with the options.
        progress: The handler's last report: ``[done, total, note]``.
        job_id: The job's number; 0 for one that only `perform` has run.
        work_type: The name of its work type.
        attempt: The number of the run.
        steps: What this run has done, by the names of the steps: what each has returned.
        waits: What the job waits for, by the names of the steps: ``signal``, ``sleep`` or ``call``.
        calls: The work that this run has enqueued by ``job.call()``, by the names of the steps.
    """

    kind: str
    result: Any = None
    error: BaseException | None = None
    reason: str | None = field(default=None, repr=False)
    delay: float | None = None
    stage: WorkItem | None = None
    follow_ups: Sequence[tuple[WorkItem, EnqueueOptions]] = Factory(tuple)
    progress: Any = None
    job_id: int = 0
    work_type: str = ""
    attempt: int = 1
    steps: Mapping[str, Any] = Factory(dict)
    waits: Mapping[str, str] = Factory(dict)
    calls: Mapping[str, WorkItem] = Factory(dict)

    def get(self) -> Any:
        """Return the result of a job that is done.

        Raises:
            BaseException: What the handler raised, with its traceback.
            AssertionError: When the job has ended otherwise.
        """
        if self.error is not None:
            raise self.error
        if self.kind != "done":
            raise AssertionError(f"the job is not done: {self}")
        return self.result


# pytest and unittest leave this module out of tracebacks.
__tracebackhide__ = __unittest = True


class Report:
    """Takes what a `Performer` reports of one job.

    Attributes:
        ended: Fires when the job has ended.
        results: The result of a job that is done as a JSON object by job number; empty for none.
        settled: The outcome of a job that did not just end as done; None for one that did.
        late_error: The error of a handler that failed after its own transaction.
        late_result: What a handler returned after its own transaction, as JSON.
    """

    is_sent = True

    def __init__(self) -> None:
        self.ended: Deferred[None] = Deferred()
        self.results = ""
        self.settled: SettledJob | None = None
        self.late_error: str | None = None
        self.late_result: str | None = None

    def complete(self, assignments: Iterable[HeldAssignment]) -> None:
        """Take a job that is done, or whose own transaction has completed it."""
        (held,) = assignments
        # The handler may go on after its transaction.
        if held.jobs:
            self.results = held.results_text
            self._end()

    def settle(
        self,
        weight: int,  # noqa: ARG002
        counts: Mapping[int, int],  # noqa: ARG002
        jobs: Sequence[SettledJob],
    ) -> None:
        """Take another outcome."""
        (self.settled,) = jobs
        self._end()

    def refuse(self, assignment: Assignment, reason: str) -> None:  # noqa: ARG002
        """Fail: the database has written the job."""
        raise AssertionError(reason)

    def late(self, job: RunningJob, what: str, text: str) -> None:
        """Take what came of a handler whose transaction had completed its job."""
        if what == "result":
            change(job, result=text)
            self.late_result = text
        else:
            self.late_error = text

    def start(self, jobs: list[StartedJob]) -> None:
        """Report nothing of a run that goes on."""

    def occupy(self, weight: int, jobs: Iterable[int], *, is_stuck: bool) -> None:
        """Report no thread: none outlives its job."""

    def log_text(self, is_grave: bool, text: str, run: Mapping[str, Any] | None) -> None:
        """Write nothing: the test gets the error itself."""

    def count(self, tally: str) -> None:
        """Count nothing."""

    def _end(self) -> None:
        if not self.ended.called:
            self.ended.callback(None)


class _CallersThread:
    """Runs the functions of threaded handlers in the caller's own thread."""

    free = most = 1

    def run(self, job: Any, function: Callable[[ReactorCalls], Any]) -> Deferred[Ended]:
        """Call a function."""
        calls = ReactorCalls(job, operator.call, is_apart=False)
        try:
            return succeed(copy_context().run(called, function, calls))
        finally:
            calls.close()

    def interrupt(self, job: Any) -> None:
        """Interrupt nothing: while a function runs here, nothing else does."""

    def left_by(self, job: Any) -> None:
        """No function goes on."""


class _NewThread:
    """Has a thread for the function of one job."""

    def callInThreadWithCallback(
        self, over: Callable[[bool, Ended], object], function: Callable[..., Ended], *args: Any
    ) -> None:
        """Call a function."""
        Thread(target=lambda: over(True, function(*args)), daemon=True).start()


class _LoopClock:
    """The clock of asyncio's running loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.callFromThread = self._loop.call_soon_threadsafe

    def seconds(self) -> float:
        """Return the loop's time."""
        return self._loop.time()

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> Timer:
        """Schedule a call."""
        return _LoopTimer(self._loop.call_later(delay, callable, *args), self._loop)


@define
class _LoopTimer:
    handle: asyncio.TimerHandle
    loop: asyncio.AbstractEventLoop

    def active(self) -> bool:
        """Tell whether the call is still pending."""
        return not self.handle.cancelled() and self.handle.when() > self.loop.time()

    def cancel(self) -> None:
        """Cancel the call."""
        self.handle.cancel()


@define
class RunInTest:
    """One run of one job.

    Args:
        assignment: The job's assignment.
        opener: Opens the job's own transaction.
        steps: Reads and writes its steps.
        is_apart: Whether a function runs in a thread, as what it waits for needs this one.
    """

    assignment: Assignment
    opener: OpenTransaction
    steps: StepsInMemory | StepsOfRows
    is_apart: bool = False
    report: Report = field(factory=Report, init=False)
    failures: list[FailedAttempt] = field(factory=list, init=False)
    jobs: list[RunningJob] = field(factory=list, init=False)

    @property
    def assigned(self) -> AssignedJob:
        """The job."""
        return read_chunk(self.assignment.chunk)[0]

    @property
    def is_written(self) -> bool:
        """Whether the job's own transaction has completed it."""
        return any(job.is_completed for job in self.jobs)

    def here(self, asynchronous: str) -> Outcome:
        """Run the job to its end, in this thread; a handler of asyncio's gets a loop of its own.

        Args:
            asynchronous: The function to call in place of the caller's if the handler waits.

        Raises:
            TypeError: When the handler waits for Twisted's reactor, which does not run; or a
                handler of asyncio's is called inside of a loop.
        """
        work_type = self.assigned.work_type
        if has_runtime(work_type, Runtime.ASYNCIO):
            if in_loop():
                raise TypeError(
                    f"the handler of {work_type} needs a loop of asyncio, and one runs here"
                    f" already: await {asynchronous}()"
                )
            return loop_of_project()(self.waiting())
        clock = ManualClock()
        # What the handler has begun goes on while no time passes.
        self.steps.longest_pause = 0
        performer = self.begin(clock)
        while not self.report.ended.called and _is_due(clock):
            clock.advance(0)
        if not self.report.ended.called:
            performer.stop()
            raise TypeError(
                f"the handler of {work_type} waits, and no reactor runs here: await"
                f" {asynchronous}() in a test of trial or pytest-twisted, which run one"
            )
        return self.outcome()

    async def waiting(self) -> Outcome:
        """Run the job to its end, in a coroutine of asyncio's or Twisted's."""
        timers = _idle_timers()
        performer = self.begin(_running_clock())
        try:
            if _idle_timers() > timers:
                raise TypeError(
                    f"the handler of {self.assigned.work_type} waits for a timer of Twisted's"
                    " reactor, which does not run here; test it with trial or pytest-twisted"
                )
            if not self.report.ended.called:
                await _awaitable(self.report.ended)
        finally:
            performer.stop()
        return self.outcome()

    def begin(self, clock: Clock) -> Performer:
        """Start the handler; it has ended if it does not wait."""
        self.steps.clock = clock
        performer = Performer(
            cast("Any", clock),
            self._threads(clock),
            1,
            self.report,
            self._open,
            steps=cast("StepStore", self.steps),
            hooks=self._hooks,
        )
        with performer.reading():
            performer.perform(self.assignment)
        return performer

    def _threads(self, clock: Any) -> HandlerThreads:
        if self.is_apart:
            return HandlerThreads(clock, cast("ThreadPool", _NewThread()), 1)
        return cast("HandlerThreads", _CallersThread())

    def _hooks(self) -> Iterable[FailureHook]:
        return self.failures.append, *failure_hooks()

    def _open(self, job: RunningJob) -> Any:
        self.jobs.append(job)
        return self.opener(job)

    @property
    def settled(self) -> SettledJob:
        """What is to be written of the job."""
        if self.report.settled is not None:
            return self.report.settled
        job = self.assigned
        own = next((each.result for each in self.jobs if each.result is not None), None)
        results = json.loads(self.report.results or "{}")
        result = json.loads(own) if own else results.get(str(job.job_id))
        return SettledJob(job.job_id, self.assignment.number, "done", result=result)

    def outcome(self) -> Outcome:
        """Return how it has ended."""
        job, settled = self.assigned, self.settled
        return Outcome(
            kind=settled.outcome,
            result=decrypted_result(job.work_type, settled.result),
            error=self.failures[0].error if self.failures else None,
            reason=settled.error,
            delay=settled.delay,
            stage=_stage(settled),
            follow_ups=tuple(each for run in self.jobs for each in run.follow_ups),
            progress=settled.progress,
            steps=results_of(self.steps, partial(_revealed, job.work_type)),
            waits={wait["name"]: wait["kind"] for wait in settled.waits or ()},
            calls=self.steps.calls,
            job_id=job.job_id,
            work_type=job.work_type,
            attempt=job.attempt,
        )


def _revealed(work_type: str, value: Any) -> Any:
    is_hidden = isinstance(value, dict) and find_work_type(work_type).encrypted
    return decrypted(work_type, "step", value) if is_hidden else value


def _stage(settled: SettledJob) -> WorkItem | None:
    if settled.stage is None:
        return None
    return work_of(settled.stage["work_type"], settled.stage["payload"])


def _is_due(clock: ManualClock) -> bool:
    return any(call.getTime() <= clock.seconds() for call in clock.getDelayedCalls())


def has_runtime(work_type: str, runtime: Runtime) -> bool:
    """Return whether the class of a work type is known here and has a runtime."""
    return any(cls.runtime is runtime for cls in known_work_types() if cls.work_type == work_type)


def _idle_timers() -> int:
    """Return how many timers a reactor has that does not run, as under asyncio.run()."""
    reactor: Any = sys.modules.get("twisted.internet.reactor")
    is_idle = reactor is not None and in_asyncio() and not reactor.running
    return len(reactor.getDelayedCalls()) if is_idle else 0


def _running_clock() -> Clock:
    if in_asyncio():
        return _LoopClock()
    from twisted.internet import reactor

    return cast("Clock", reactor)


def _awaitable(deferred: Deferred[None]) -> Any:
    return deferred.asFuture(asyncio.get_running_loop()) if in_asyncio() else deferred

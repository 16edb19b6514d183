"""A running job, as its handler uses it, with durable steps."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, Unpack, overload

from attrs import define, field, frozen

from txqueue.errors import InvalidWork, TransactionMisused, TxqueueError
from txqueue.model.assignment import AssignedJob, Assignment, JobKey
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.foreign import class_name, is_a, looked
from txqueue.model.humanize import brief
from txqueue.model.job import Token
from txqueue.model.job_filters import tags_of
from txqueue.model.results import encode_result, encode_results, result_type
from txqueue.model.run_log import RunLog
from txqueue.model.schedule import zoned
from txqueue.model.storable import is_number
from txqueue.model.work_item import WorkItem
from txqueue.policy.endings.outcome import storable
from txqueue.store.enqueueing.awaited_calls import AwaitedCalls, awaited
from txqueue.store.enqueueing.calls import job_object, json_text

if TYPE_CHECKING:
    from txqueue.store.enqueueing.transaction import Transaction
    from txqueue.tracing.choice import Run
    from txqueue.worker.handlers.job_transaction import StepStore
    from txqueue.worker.handlers.step_scopes import StepCursor, StepTransaction
    from txqueue.worker.handlers.steps import JobSteps
    from txqueue.worker.handlers.waiting import Waiting


R = TypeVar("R")

NO_PROGRESS: Final = "null"
"""The last progress of a job that has steps and has reported none: its end is then written by
itself, with its steps, as that of a job with progress.
"""


LONGEST_NOTE = 200
MOST_COST: Final = 1_000_000_000
"""The most that a run may cost of its group's rate."""
OpenTransaction = Callable[["RunningJob"], "AbstractAsyncContextManager[Transaction]"]


class HeldAssignment:
    """An assignment that the worker holds, and which of its jobs are to be reported as done.

    Attributes:
        token: The fencing token of every write about the jobs.
        asked_at: When the claim of the jobs was sent, by the monotonic clock.
        lane: The lane that has the rows of the jobs.
        done: The numbers of the jobs that are done, since the last report.
        committed: The numbers of those that their own transactions have completed.
        results: The results of done jobs, as members of a JSON object by job number.
        values: The small results of others, by job number; see `small_result`.
        jobs: How many jobs the worker no longer holds, since the last report: done, completed by
            their own transaction, or dropped.
        weight: The weight of the jobs that the worker no longer holds.
        steps: Reads and writes the steps of the jobs; None where no steps are kept.
    """

    __slots__ = (
        *("asked_at", "committed", "done", "jobs", "lane", "results", "steps", "token"),
        *("values", "weight"),
    )

    def __init__(self, assignment: Assignment, steps: StepStore | None = None) -> None:
        self.steps = steps
        self.token = assignment.token
        self.asked_at = assignment.asked_at
        self.lane = assignment.lane
        self.clear()

    def clear(self) -> None:
        """Begin a new report, as the last one was sent."""
        self.done: list[int] = []
        self.committed: set[int] = set()
        self.results: list[str] = []
        self.values: dict[str, Any] = {}
        self.jobs = 0
        self.weight = 0

    @property
    def results_text(self) -> str:
        """All results, as the text of a JSON object; empty if there are none."""
        if not self.values and not self.results:
            return ""
        small = [encode_results(self.values)] if self.values else []
        return f"{{{','.join(small + self.results)}}}"

    def let_go(self, weight: int) -> None:
        """Note that the worker no longer holds a job of a given weight."""
        self.jobs += 1
        self.weight += weight


class _OfCoroutine(AbstractAsyncContextManager[R]):
    """A transaction of a job, which ``with`` cannot open."""

    __slots__ = ("_begin", "_is_entered", "_job", "_opened")

    def __init__(
        self, opened: AbstractAsyncContextManager[R], job: RunningJob, begin: partial[Any]
    ) -> None:
        self._opened, self._job, self._begin = opened, job, begin
        self._is_entered = False

    def __del__(self) -> None:
        if not self._is_entered:
            self._job.unawaited.on_dropped(self._begin)

    # No coroutines of their own, which would be one more for each step.
    def __aenter__(self) -> Coroutine[Any, Any, R]:
        self._is_entered = True
        return self._opened.__aenter__()

    def __aexit__(self, *error: Any) -> Coroutine[Any, Any, bool | None]:
        return self._opened.__aexit__(*error)

    def __enter__(self) -> NoReturn:
        raise TransactionMisused(
            f"job.{self._begin.func.__name__}() is entered by with, as no coroutine does",
            "write async with; with runtime = Runtime.THREAD, a plain function writes with",
        )

    def __exit__(self, *error: object) -> None:
        """Do nothing, as nothing was opened."""


class TransactionPhase(Enum):
    """What a job's own transaction does, from its first call to its end."""

    WAITING = "waits for a connection"
    OPEN = "is open"


@frozen
class Parents:
    """How many of the jobs that a job waited for are done, failed and cancelled.

    ``ids`` has their numbers, by which `WorkQueue.job` and SQL find their results; it is None for
    more than a thousand, and for a job that is a copy.
    """

    done: int
    failed: int
    cancelled: int
    ids: Sequence[int] | None = None


@define(eq=False, repr=False, weakref_slot=False)
class _JobState:
    """What a `RunningJob` is made of; its attributes can be set until the class is changed."""

    id: int
    assignment: HeldAssignment
    attempt: int
    weight: int
    work_type: str
    terms: Any
    _open: OpenTransaction
    has_returned: bool = field(default=False, init=False)
    is_completed: bool = field(default=False, init=False)
    cancelled_by: str | None = field(default=None, init=False)
    is_ended: bool = field(default=False, init=False)
    follow_ups: Sequence[tuple[WorkItem, EnqueueOptions]] = field(default=(), init=False)
    result: str | None = field(default=None, init=False)
    within: Transaction | None = field(default=None, init=False)
    phase: TransactionPhase | None = field(default=None, init=False)
    last_progress: str | None = field(default=None, init=False)
    log: RunLog | None = field(default=None, init=False)
    span: Run | None = field(default=None, init=False)
    unavailable: Exception | None = field(default=None, init=False)
    _has_beaten: bool = field(default=False, init=False)
    _progress: str | None = field(default=None, init=False)
    # Absent until they are needed.
    _handler: Waiting = field(init=False)
    _its_steps: JobSteps = field(init=False)
    _calls: AwaitedCalls = field(init=False)
    _cost: float = field(init=False)


class RunningJob(_JobState):
    """A job while its handler runs; the argument of `perform`. A handler can set only its cost.

    Attributes:
        id: The job's number.
        assignment: The assignment to which the job belongs.
        attempt: The number of this run, from 1.
        weight: The share of the worker's capacity that the job takes.
        work_type: The name of its work type.
        has_returned: Whether the handler has returned and the job's completion is being written.
        is_completed: Whether the job's own transaction has completed it.
        cancelled_by: The operator that cancelled the job; None if it was not cancelled.
        is_ended: Whether the worker ends the run because the node's lease has expired or the job
            was restarted, or has ended it while its thread goes on.
        terms: The job's options, with whether the job counts for a limit and the seconds left
            until its ``not_after``; None for none.
        follow_ups: The work that the handler adds with `then`, enqueued when the job completes.
        result: The result that the job's own transaction stores, as JSON text; None for no result.
        within: The job's own transaction while it is open.
        phase: What the job's own transaction does; None if there is none now.
        last_progress: The last progress that the handler reported, as JSON text; stored when the
            job ends.
        log: What is kept of the run's log; None if it has logged nothing.
        span: The run in a trace; None if the application does not trace.
        unavailable: The error of a run whose own transaction got no connection.
    """

    __slots__ = ()

    @property
    def cost(self) -> float:
        """What the run costs of the ``group_rate``: its weight, unless the handler sets this.

        Raises:
            InvalidWork: When it is set after the job's own transaction.
            ValueError: When it is set to no number from 0 to 1,000,000,000.
        """
        return getattr(self, "_cost", float(self.weight))

    @cost.setter
    def cost(self, cost: float) -> None:
        if self.is_completed:
            what = f"job {self.id} is completed, and its cost can no longer be set"
            raise InvalidWork(what, "set job.cost inside of job.transaction()")
        if not is_number(cost) or not 0 <= cost <= MOST_COST:
            raise ValueError(
                f"the cost of job {self.id} is {brief(cost)}, not a number from 0 to {MOST_COST:,};"
                " set what the run has cost, in the unit of its group_rate"
            )
        change(self, _cost=float(cost))
        self.write_end_apart()

    @property
    def settled_cost(self) -> float | None:
        """What the handler has set as the cost; None if it has set none."""
        return getattr(self, "_cost", None)

    @property
    def times_throttled(self) -> int:
        """How many runs before this one ended by `Throttled`, in a row."""
        times = self.terms.get("throttled") if isinstance(self.terms, dict) else 0
        return times if isinstance(times, int) else 0

    def __setattr__(self, name: str, value: object) -> None:
        if name == "cost":
            object.__setattr__(self, name, value)
            return
        raise AttributeError(
            f"a handler cannot set job.{name}: the job's attributes are read-only;"
            " what the handler returns is the job's result"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a handler cannot delete job.{name}: it is read-only")

    @property
    def due(self) -> datetime | None:
        """The schedule's moment for which the job was enqueued; None without a schedule.

        In the time zone of a cron schedule, and in UTC for other schedules.
        """
        terms = self.terms or {}
        due = terms.get("due")
        return None if due is None else zoned(datetime.fromisoformat(due), terms.get("zone"))

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags that the job was enqueued with; they cannot be changed."""
        return tags_of(self.terms)

    @property
    def is_cancelled(self) -> bool:
        """Whether the job should end; a function in a thread can check it."""
        return self.cancelled_by is not None or self.is_ended

    @property
    def waits_for_connection(self) -> bool:
        """Whether the job's own transaction, or that of a step, waits for a connection."""
        is_of_step = hasattr(self, "_its_steps") and self._its_steps.waits_for_connection
        return self.phase is TransactionPhase.WAITING or is_of_step

    @property
    def token(self) -> Token:
        """The fencing token that every write about this run names."""
        return self.assignment.token

    @property
    def key(self) -> JobKey:
        """The number of the job's assignment and the job's own number."""
        return JobKey(self.assignment.token.assignment, self.id)

    def beat(self) -> None:
        """Report that the handler is alive; required within each ``heartbeat`` if the class has
        one.
        """
        change(self, _has_beaten=True)

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """Report progress, stored about once a second at most; it also counts as a beat.

        Args:
            done: How much is done.
            total: How much there is to do, if known.
            note: A line for people.

        Returns:
            An awaitable that is already done; awaiting it is optional.

        Raises:
            InvalidWork: When ``done`` or ``total`` is no number that JSON can carry, or ``note`` is
                no text.
        """
        self._check("done", done, "pass numbers: int or float", int, float)
        if total is not None:
            self._check("total", total, "pass numbers: int or float", int, float)
        self._check("note", note, "pass text: str", str)
        given = [done, total, storable(note[:LONGEST_NOTE])]
        progress = encode_result(given, f"the progress of job {self.id}", "pass finite numbers")
        change(self, _progress=progress, last_progress=progress)
        self.beat()
        return _done()

    def _check(self, name: str, value: object, remedy: str, *kinds: type) -> None:
        if not is_a(value, *kinds):
            value_text = looked(lambda: repr(value), class_name(value))
            raise InvalidWork(f"the progress of job {self.id} has {name}={value_text:.50}", remedy)

    @property
    def has_progress(self) -> bool:
        """Whether the handler has reported progress that was not yet sent to the master."""
        return self._progress is not None

    def take_progress(self) -> str | None:
        """Return the progress not yet sent to the master, as JSON text; None for none."""
        progress = self._progress
        change(self, _progress=None)
        return progress

    def take_beat(self) -> bool:
        """Return whether the handler has called `beat` or `progress` since the last call."""
        has_beaten = self._has_beaten
        if has_beaten:
            change(self, _has_beaten=False)
        return has_beaten

    @property
    def waits(self) -> Sequence[Mapping[str, Any]]:
        """What the run waits for, as far as it was not withdrawn."""
        return self._its_steps.waits.given if hasattr(self, "_its_steps") else ()

    def check_awaited(self) -> None:
        """Check that all calls were awaited.

        Raises:
            InvalidWork: When one was not.
        """
        if hasattr(self, "_calls"):
            self._calls.check()

    @property
    def forgotten(self) -> TxqueueError | None:
        """The error for a call that was dropped before the run had to wait; None for none."""
        begin = self._calls.forgotten if hasattr(self, "_calls") else None
        return None if begin is None else self._calls.refusal(begin)

    @property
    def unawaited(self) -> AwaitedCalls:
        """The calls that were not awaited, at which the end of the run looks."""
        if not hasattr(self, "_calls"):
            calls = AwaitedCalls("job", InvalidWork, shows=1, lets_go=self._has_told)
            change(self, _calls=calls)
        if self.within is None:
            # Otherwise the end of that transaction looks at them.
            self.write_end_apart()
        return self._calls

    def _has_told(self) -> bool:
        return hasattr(self, "_its_steps") and self._its_steps.waits.has_told

    def end_waits(self) -> bool:
        """Withdraw what the handler does not await as it ends; return whether the job waits."""
        if not hasattr(self, "_its_steps"):
            return False
        self._its_steps.waits.close()
        return self._its_steps.waits.is_over

    def write_end_apart(self) -> None:
        """Have the job's end written by itself: the job has steps, or a cost of its own."""
        if self.last_progress is None:
            change(self, last_progress=NO_PROGRESS)

    def its_steps(self) -> JobSteps:
        """Return the steps of this run."""
        if not hasattr(self, "_its_steps"):
            # Imported late: few jobs have steps.
            from txqueue.worker.handlers.steps import JobSteps

            if self.assignment.steps is None:
                raise InvalidWork(
                    f"job {self.id} runs where no steps are kept",
                    "run it by a node; jobs of worksets have no steps",
                )
            is_first = not (self.terms or {}).get("steps")
            change(self, _its_steps=JobSteps(self, self.assignment.steps, is_first=is_first))
            self.write_end_apart()
        return self._its_steps

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction whose commit also completes this job, atomically.

        A run has one such transaction; after one that was rolled back it may open another.

        Returns:
            An asynchronous context manager whose value is a `Transaction`; a function in a thread
            enters it by ``with``.

        Raises:
            DatabaseUnavailable: When no connection can be made; if the handler lets the error
                propagate, the job runs again soon and no attempt is spent. The same if the run's
                timeout or heartbeat is over before it has a connection.
            TokenLost: At its end, when the job has been assigned elsewhere since; the transaction
                is rolled back.
            TransactionMisused: When one is open, or one has completed the job.
        """
        return _OfCoroutine(self._open(self), self, partial(RunningJob.transaction, self))

    @property
    def parents(self) -> Parents | None:
        """The jobs that this job waited for, in a batch or by ``after``, and how they ended.

        None for other jobs.
        """
        terms = self.terms or {}
        if (ends := terms.get("parents")) is None:
            return None
        ids = terms.get("after")
        return Parents(**ends, ids=tuple(ids) if isinstance(ids, list) else None)

    def then(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> Awaitable[int | None]:
        """Enqueue work when this job completes; if it does not complete, nothing is enqueued.

        Args:
            work: The work item to enqueue.
            options: As for `WorkQueue.enqueue`.

        Returns:
            An awaitable of the new job's number, inside the job's own `transaction`; otherwise an
            awaitable of None, as the work is enqueued after the handler returns. A function in a
            thread does not await it.

        Raises:
            InvalidWork: When the work or an option is not valid, or the job is already completed.
        """
        if self.within is not None:
            return self.within.enqueue(work, **options)
        if self.is_completed:
            raise InvalidWork(
                f"job {self.id} is completed and can enqueue nothing more",
                "call it inside of job.transaction(), or before",
            )
        json_text(job_object(work, options))
        change(self, follow_ups=[*self.follow_ups, (work, options)])
        return _done()

    @awaited
    async def coalesce(self, limit: int = 1000, *, later: bool = False) -> list[WorkItem]:
        """Do the work of similar pending jobs as well: the job's own transaction ends them as done.

        Jobs are similar if they have the same work type, queue, tenant and group, have no unique
        key, and no other job waits for them.

        Args:
            limit: The largest number of jobs, at most 10,000.
            later: Whether to include jobs that are not due yet or wait for a retry.

        Returns:
            The work items of those jobs, the oldest first; jobs locked by other transactions are
            left out.

        Raises:
            InvalidWork: When the job's own transaction is not open, or a payload does not fit its
                class.
        """
        if self.within is None:
            raise InvalidWork(
                "a job coalesces others in its own transaction only",
                "call it inside: async with job.transaction()",
            )
        ended = await self.within.coalesce_into(self.token, self.id, limit, later=later)
        # Imported late, as below.
        from txqueue.worker.handlers.runtimes import work_of

        return [work_of(work_type, json.loads(payload)) for work_type, payload in ended]

    # A handler runs from its top again when it goes on: a step that is done is not done again, but
    # returns what it returned. The name of a step is its identity: no order is checked.

    @overload
    async def step(
        self, name: str, function: Callable[..., Awaitable[R]], *args: Any, **options: Any
    ) -> R: ...

    @overload
    async def step(
        self, name: str, function: Callable[..., R], *args: Any, **options: Any
    ) -> R: ...

    @awaited  # type: ignore[misc]  # of a decorated method mypy compares self by position
    async def step(
        self, name: str, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """Call a function once, also if the handler runs again, and return its result.

        The result is kept once the function has returned: a function whose process dies before that
        is called again, so its effects outside of the database must be idempotent.

        Args:
            name: The name of the step, used once in a run; in a loop, ``f"page {number}"``.
            function: A function, or one that returns a coroutine or a Deferred. Later runs decode
                its result by the annotation of what it returns.
            args: Its arguments.
            options: Its named arguments; and ``retry``, a `Retry` for short waits between several
                calls of it. Without one an error is the job's.

        Returns:
            What the function returns, as a later run would read it.

        Raises:
            InvalidWork: When the name is used twice in a run, or the result does not fit JSON or
                its annotation.
            TokenLost: When the job has been assigned elsewhere since.
        """
        return await self.its_steps().step(name, function, args, options, result_type(function))

    def step_transaction(self, name: str) -> AbstractAsyncContextManager[StepTransaction]:
        """Open a transaction that is a step: its writes and its result are committed once.

        Args:
            name: The name of the step.

        Returns:
            An asynchronous context manager whose value is a `StepTransaction`. If its ``is_done``
            is true, an earlier run has committed it: skip what the block does. Otherwise use its
            ``txn``, and set its ``result``.

        Raises:
            DatabaseUnavailable: When no connection can be made; if the handler lets the error
                propagate, the job runs again soon and no attempt is spent.
            TokenLost: At its end, when the job has been assigned elsewhere since; the transaction
                is rolled back.
        """
        begin = partial(RunningJob.step_transaction, self, name)
        return _OfCoroutine(self.its_steps().transaction(name), self, begin)

    @awaited
    async def wait_for(
        self,
        name: str,
        annotation: Any = Any,
        *,
        timeout: float | timedelta | None = None,
        signal: str | None = None,
        hold_group: bool = False,
    ) -> Any:
        """Return the value of a signal; until it comes, the job takes no worker.

        If the signal is not there, this raises `Suspended`, which ends the run and which the
        handler must let through. The handler runs again once `WorkQueue.signal` has sent the
        signal. A signal that came before this call is kept. A wait spends no attempt.

        Args:
            name: The name of the step.
            annotation: The type as which the value is read, such as ``bool``; `explain` and the
                dashboard name it.
            timeout: How long to wait, from the first call on; None for no limit.
            signal: The name of the signal, if several steps wait for signals of one name; else it
                is the name of the step.
            hold_group: Whether the job meanwhile keeps its place in its group, so that no other
                job of the group starts in its place.

        Returns:
            The value that was sent with the signal.

        Raises:
            TimedOut: When the time is over. Later runs raise it, too.
        """
        steps = self.its_steps()
        return await steps.wait_for(name, timeout, signal, annotation, hold_group=hold_group)

    @awaited
    async def sleep(
        self, name: str, length: float | timedelta, *, hold_group: bool = False
    ) -> None:
        """Wait for a time; meanwhile the job takes no worker.

        Args:
            name: The name of the step.
            length: How long, from the first call on.
            hold_group: As for `wait_for`.
        """
        await self.its_steps().sleep(name, length, hold_group=hold_group)

    @awaited
    async def call(
        self,
        name: str,
        work: WorkItem,
        *,
        hold_group: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> Any:
        """Enqueue a job once and return its result; until it ends, this job takes no worker.

        Args:
            name: The name of the step.
            work: The work of the other job.
            hold_group: As for `wait_for`; a job that calls one of its own group frees its place all
                the same, as the other one could not start.
            options: As for `WorkQueue.enqueue`.

        Returns:
            The result of the other job.

        Raises:
            DatabaseUnavailable: When no connection can be made, as by `step_transaction`.
            JobFailed: When it has failed or was cancelled.
            Refused: When it would wait for the end of this job, whose unique key it has.
        """
        return await self.its_steps().call(name, work, dict(options), hold_group=hold_group)

    def cursor(self, name: str, start: Any = 0) -> StepCursor:
        """Return an asynchronous iterator over positions, of which the last survives a restart.

        Each turn of the loop is a step: the position is kept after it. A number's next position is
        one more; set ``following`` for another one, such as a key, or None to end the loop.

        Args:
            name: The name of the step.
            start: The first position.
        """
        from txqueue.worker.handlers.step_scopes import StepCursor

        return StepCursor(self, name, start)


def _done() -> Awaitable[None]:
    # Imported late: annotations name this module's classes where nothing else needs Twisted.
    from twisted.internet.defer import succeed

    return succeed(None)


def begun(assigned: AssignedJob, held: HeldAssignment, opener: OpenTransaction) -> RunningJob:
    """Return a job whose handler is about to run.

    Args:
        assigned: The job as it was assigned.
        held: Its assignment.
        opener: Opens the job's own transaction.
    """
    job: Any = _JobState(
        assigned.job_id,
        held,
        assigned.attempt,
        assigned.weight,
        assigned.work_type,
        assigned.terms,
        opener,
    )
    # Cheaper than to set each attribute of a class that forbids it.
    job.__class__ = RunningJob
    running: RunningJob = job
    return running


def handler_of(job: RunningJob) -> Waiting | None:
    """Return the handler of a job, if it waits."""
    return getattr(job, "_handler", None)


def change(job: RunningJob, **values: object) -> None:
    """Set attributes of a job, which its handler cannot do."""
    for name, value in values.items():
        object.__setattr__(job, name, value)

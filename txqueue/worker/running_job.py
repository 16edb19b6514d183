"""A running job, as its handler uses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from attrs import Factory, define, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from txqueue.errors import InvalidWork
from txqueue.model.assignment import AssignedJob, Assignment, JobKey
from txqueue.model.job import Token
from txqueue.model.payload import encode_result
from txqueue.model.run_log import RunLog
from txqueue.model.tags import tags_of
from txqueue.model.work_item import Runtime, WorkItem
from txqueue.store.enqueueing import EnqueueOptions, job_object
from txqueue.worker.next_stages import coalesced
from txqueue.worker.runtimes import Kind

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction
    from txqueue.tracing.spans import RunSpan

__all__ = ["Execution", "HeldAssignment", "OpenTransaction", "Parents", "RunningJob"]

LONGEST_NOTE = 200
OpenTransaction = Callable[["RunningJob"], "AbstractAsyncContextManager[Transaction]"]


class HeldAssignment:
    """An assignment that the worker holds, and which of its jobs are to be reported as done.

    Attributes:
        token: The fencing token of every write about the jobs.
        asked_at: When the claim of the jobs was sent, by the monotonic clock.
        lane: The lane that has the rows of the jobs.
        done: The numbers of the jobs that are done, since the last report.
        results: The results of done jobs, as members of a JSON object by job number.
        jobs: How many jobs the worker no longer holds, since the last report: done, completed by
            their own transaction, or dropped.
        weight: The weight of the jobs that the worker no longer holds.
    """

    __slots__ = ("asked_at", "done", "jobs", "lane", "results", "token", "weight")

    def __init__(self, assignment: Assignment) -> None:
        self.token = assignment.token
        self.asked_at = assignment.asked_at
        self.lane = assignment.lane
        self.clear()

    def clear(self) -> None:
        """Begin a new report, as the last one was sent."""
        self.done: list[int] = []
        self.results: list[str] = []
        self.jobs = 0
        self.weight = 0

    def let_go(self, weight: int) -> None:
        """Note that the worker no longer holds a job of a given weight."""
        self.jobs += 1
        self.weight += weight


@frozen
class Parents:
    """How many of the jobs that a job waited for are done, failed and cancelled."""

    done: int
    failed: int
    cancelled: int


class RunningJob:
    """A job while its handler runs; the argument of `perform`.

    Attributes:
        id: The job's number.
        assignment: The assignment to which the job belongs.
        attempt: The number of this run, from 1.
        weight: The share of the worker's capacity that the job takes.
        work_type: The name of its work type.
        is_completed: Whether the job's own transaction has completed it.
        cancelled_by: The operator that cancelled the job; None if it was not cancelled.
        is_ended: Whether the worker ends the job because the node's lease has expired.
        terms: The job's options, with whether the job counts for a limit and the seconds left
            until its ``not_after``; None for none.
        follow_ups: The work that the handler adds with `then`, enqueued when the job completes.
        result: The result that the job's own transaction stores, as JSON text; None for no result.
        within: The job's own transaction while it is open.
        last_progress: The last progress that the handler reported, as JSON text; stored when the
            job ends.
        log: What is kept of the run's log; None if it has logged nothing.
        span: The run in a trace; None if the application does not trace.
    """

    __slots__ = (
        "_has_beaten",
        "_open",
        "_progress",
        "assignment",
        "attempt",
        "cancelled_by",
        "follow_ups",
        "id",
        "is_completed",
        "is_ended",
        "last_progress",
        "log",
        "result",
        "span",
        "terms",
        "weight",
        "within",
        "work_type",
    )

    def __init__(
        self, assigned: AssignedJob, held: HeldAssignment, opener: OpenTransaction
    ) -> None:
        self.id = assigned.job_id
        self.attempt = assigned.attempt
        self.weight = assigned.weight
        self.work_type = assigned.work_type
        self.is_completed = False
        self.cancelled_by: str | None = None
        self.is_ended = False
        self.terms = assigned.terms
        self.follow_ups: Sequence[tuple[WorkItem, EnqueueOptions]] = ()
        self.result: str | None = None
        self.within: Transaction | None = None
        self.assignment = held
        self._open = opener
        self._has_beaten = False
        self._progress: str | None = None
        self.last_progress: str | None = None
        self.log: RunLog | None = None
        self.span: RunSpan | None = None

    @property
    def due(self) -> datetime | None:
        """The schedule's moment for which the job was enqueued; None without a schedule."""
        said = (self.terms or {}).get("due")
        return None if said is None else datetime.fromisoformat(said)

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags that the job was enqueued with; they cannot be changed."""
        return tags_of(self.terms)

    @property
    def is_cancelled(self) -> bool:
        """Whether the job should end; a function in a thread can check it."""
        return self.cancelled_by is not None or self.is_ended

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
        self._has_beaten = True

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """Report progress, stored about once a second at most; it also counts as a beat.

        Args:
            done: How much is done.
            total: How much there is to do, if known.
            note: A line for people.

        Returns:
            An awaitable that is already done; awaiting it is optional.

        Raises:
            InvalidWork: When JSON cannot carry the numbers.
        """
        self._progress = self.last_progress = encode_result([done, total, note[:LONGEST_NOTE]])
        self.beat()
        return succeed(None)

    @property
    def has_progress(self) -> bool:
        """Whether the handler has reported progress that was not yet sent to the master."""
        return self._progress is not None

    def take_progress(self) -> str | None:
        """Return the progress not yet sent to the master, as JSON text; None for none."""
        said, self._progress = self._progress, None
        return said

    def take_beat(self) -> bool:
        """Return whether the handler has called `beat` or `progress` since the last call."""
        heard, self._has_beaten = self._has_beaten, False
        return heard

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction whose commit also completes this job, atomically.

        Returns:
            An asynchronous context manager whose value is a `Transaction`.

        Raises:
            TokenLost: At its end, when the job has been assigned elsewhere since; the transaction
                is rolled back.
        """
        return self._open(self)

    @property
    def parents(self) -> Parents | None:
        """The outcomes of the jobs that this job waited for, in a batch or by ``after_any_end``.

        None for other jobs.
        """
        ends = (self.terms or {}).get("parents")
        return None if ends is None else Parents(**ends)

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
        job_object(work, options)
        self.follow_ups = [*self.follow_ups, (work, options)]
        return succeed(None)

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
        return await coalesced(self, limit, later=later)


@define(eq=False)
class Execution:
    """A job whose handler is waiting for a Deferred, future or thread.

    Attributes:
        job: The job.
        kind: The job's work type.
        terms: The job's terms.
        began: When it started, by the reactor's clock.
        ending: Fires when the handler ends.
        heard_at: When the handler last called `beat` or `progress`, or else when it started.
        is_reported: Whether the run was reported to the master.
        is_hung: Whether the worker has interrupted the handler because it was silent for too long.
        is_completing: Whether the handler has returned and the job's completion is being written.
    """

    job: RunningJob
    kind: Kind
    terms: dict[str, Any]
    began: float
    ending: Deferred[Any]
    heard_at: float = Factory(lambda run: run.began, takes_self=True)
    is_reported: bool = False
    is_hung: bool = False
    is_completing: bool = False

    log = Logger()

    def interrupt(self) -> None:
        """Interrupt the handler; a function in a thread must check `is_cancelled` itself."""
        if self.kind.cls.runtime is not Runtime.THREAD:
            self.cancel()

    def cancel(self) -> None:
        """Stop waiting for the handler, and cancel it if possible."""
        try:
            self.ending.cancel()
        except Exception as error:
            # A handler's own Deferred may refuse, as txpostgres's do; then it simply runs on.
            self.log.warn("a handler refuses to be cancelled: {error}", error=type(error).__name__)

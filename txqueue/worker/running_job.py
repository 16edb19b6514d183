"""The job as its handler sees it, and the batch it came in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from attrs import Factory, define, frozen
from twisted.internet.defer import Deferred, succeed
from twisted.logger import Logger

from txqueue.errors import InvalidWork
from txqueue.model.job import Token
from txqueue.model.payload import encode_result
from txqueue.model.work_item import Runtime, WorkItem
from txqueue.store.enqueueing import EnqueueOptions, job_object
from txqueue.worker.next_stages import coalesced
from txqueue.worker.runtimes import Kind

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction

__all__ = ["Batch", "Execution", "OpenTransaction", "Parents", "RunningJob"]

LONGEST_NOTE = 200
OpenTransaction = Callable[["RunningJob"], "AbstractAsyncContextManager[Transaction]"]


class Batch:
    """A chunk of jobs assigned together, and what of it is done and not yet reported.

    Attributes:
        token: What every write about its jobs names.
        asked_at: When they were asked for, by the monotonic clock.
        lane: Where the database keeps them.
        done: Numbers of jobs that returned nothing.
        jobs: How many jobs are held no more: done, completed by themselves, or dropped.
        weight: Their weight.
    """

    __slots__ = ("asked_at", "done", "jobs", "lane", "token", "weight")

    def __init__(self, token: Token, lane: int, asked_at: float = float("-inf")) -> None:
        self.token = token
        self.asked_at = asked_at
        self.lane = lane
        self.clear()

    def clear(self) -> None:
        """Begin a new report."""
        self.done: list[int] = []
        self.jobs = 0
        self.weight = 0

    def let_go(self, weight: int) -> None:
        """Note that a job of a weight is held no more."""
        self.jobs += 1
        self.weight += weight


@frozen
class Parents:
    """How the jobs ended that a job waited for: the members of its batch, for one."""

    done: int
    failed: int
    cancelled: int


class RunningJob:
    """A job while its handler runs.

    Attributes:
        id: The job's number.
        attempt: Which run this is, from 1.
        weight: What it takes of the worker's capacity.
        is_completed: Whether its own transaction has completed it.
        cancelled_by: The operator that cancelled it while it ran; None if it was not cancelled.
        is_ended: Whether it was told to end because the lease of its node is out.
        options: What is told of it besides its payload.
        stages: What its handler said comes then, to be enqueued as it is completed.
        result: What its own transaction keeps as its result, as JSON text; None for nothing.
        within: Its own transaction while that is open.
        last_progress: What it last said of how far it is, as JSON text; it is kept with its end.
    """

    __slots__ = (
        "_batch",
        "_has_beaten",
        "_open",
        "_progress",
        "attempt",
        "cancelled_by",
        "id",
        "is_completed",
        "is_ended",
        "last_progress",
        "options",
        "result",
        "stages",
        "weight",
        "within",
    )

    def __init__(
        self,
        job_id: int,
        attempt: int,
        weight: int,
        batch: Batch,
        opener: OpenTransaction,
        *,
        options: Any = None,
    ) -> None:
        self.id = job_id
        self.attempt = attempt
        self.weight = weight
        self.is_completed = False
        self.cancelled_by: str | None = None
        self.is_ended = False
        self.options = options
        self.stages: Sequence[tuple[WorkItem, EnqueueOptions]] = ()
        self.result: str | None = None
        self.within: Transaction | None = None
        self._batch = batch
        self._open = opener
        self._has_beaten = False
        self._progress: str | None = None
        self.last_progress: str | None = None

    @property
    def due(self) -> datetime | None:
        """The moment of its schedule that it is for; None if it is of none."""
        said = (self.options or {}).get("due")
        return None if said is None else datetime.fromisoformat(said)

    @property
    def is_cancelled(self) -> bool:
        """Whether it is to end: a function in a thread can look."""
        return self.cancelled_by is not None or self.is_ended

    @property
    def token(self) -> Token:
        """What every write about this run names."""
        return self._batch.token

    @property
    def batch(self) -> Batch:
        """The batch it came in."""
        return self._batch

    def beat(self) -> None:
        """Say that the handler is alive: one that declares a ``heartbeat`` must, so often."""
        self._has_beaten = True

    def progress(self, done: float, total: float | None = None, note: str = "") -> Awaitable[None]:
        """Say how far the handler is; it counts as a beat. Written about once a second at most.

        Args:
            done: How much is done.
            total: Of how much, if that is known.
            note: A line for people.

        Returns:
            To be awaited, or not: it is heard at once.

        Raises:
            InvalidWork: When JSON cannot carry it.
        """
        self._progress = self.last_progress = encode_result([done, total, note[:LONGEST_NOTE]])
        self.beat()
        return succeed(None)

    @property
    def has_progress(self) -> bool:
        """Whether it has said something that was not reported yet."""
        return self._progress is not None

    def take_progress(self) -> str | None:
        """Return what was said of how far it is and was not reported yet, as JSON text."""
        said, self._progress = self._progress, None
        return said

    def take_beat(self) -> bool:
        """Return whether the handler has said since the last call that it is alive."""
        heard, self._has_beaten = self._has_beaten, False
        return heard

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction whose commit also completes this job; either both or neither.

        Returns:
            An asynchronous context manager that gives a `Transaction`.

        Raises:
            TokenLost: At its end, when the job has been assigned elsewhere since; nothing is kept.
        """
        return self._open(self)

    @property
    def parents(self) -> Parents | None:
        """How those ended that it waited for in whatever way they end; None if it did not."""
        ends = (self.options or {}).get("parents")
        return None if ends is None else Parents(**ends)

    def then(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> Awaitable[int | None]:
        """Enqueue work as this job is completed, or not at all if it is not.

        Args:
            work: What comes then.
            options: As for `WorkQueue.enqueue`.

        Returns:
            To be awaited: the new job's number within the job's own `transaction`; otherwise None,
            it is enqueued once the handler has returned. A function in a thread just calls it.

        Raises:
            InvalidWork: When the work or an option is not valid, or the job is completed by now.
        """
        if self.within is not None:
            return self.within.enqueue(work, **options)
        if self.is_completed:
            raise InvalidWork(
                f"job {self.id} is completed: nothing more can come with it",
                "call it inside of job.transaction(), or before",
            )
        job_object(work, options)
        self.stages = [*self.stages, (work, options)]
        return succeed(None)

    async def coalesce(self, limit: int = 1000, *, later: bool = False) -> list[WorkItem]:
        """Take pending jobs like this one along: they end with its own transaction, as done.

        Those of its work type, queue, tenant and group, if it has one; not those with a unique key
        or that others wait for.

        Args:
            limit: At most so many; 10,000 is the most.
            later: Also those that are not due yet, or wait for their next attempt.

        Returns:
            Their work items, the oldest first; not those that another transaction has locked.

        Raises:
            InvalidWork: When the job's own transaction is not open, or a payload does not fit.
        """
        return await coalesced(self, limit, later=later)


@define(eq=False)
class Execution:
    """A job whose handler waits for something.

    Attributes:
        job: The job.
        kind: Its type.
        options: What is told of it.
        began: When it began, by the reactor's clock.
        ending: Fires when its handler ends.
        heard_at: When its handler last said that it is alive, or when it began.
        is_reported: Whether it was told that it runs.
        is_hung: Whether it was interrupted because it did not say so.
        is_completing: Whether the handler has returned, and its end is being written.
    """

    job: RunningJob
    kind: Kind
    options: dict[str, Any]
    began: float
    ending: Deferred[Any]
    heard_at: float = Factory(lambda run: run.began, takes_self=True)
    is_reported: bool = False
    is_hung: bool = False
    is_completing: bool = False

    log = Logger()

    def interrupt(self) -> None:
        """Have the handler end, unless it is a thread, which cannot be: its function can look."""
        if self.kind.cls.runtime is not Runtime.THREAD:
            self.cancel()

    def cancel(self) -> None:
        """Wait no longer for the handler, which is told if it can be."""
        try:
            self.ending.cancel()
        except Exception as error:
            # A handler's own Deferred may refuse, as those of txpostgres do: it ends when it ends.
            self.log.warn("a handler refuses to be cancelled: {error}", error=type(error).__name__)

"""The job as its handler sees it, and the batch it came in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from attrs import define
from twisted.internet.defer import Deferred

from txqueue.job import Token
from txqueue.worker.runtimes import Kind

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction

__all__ = ["Batch", "OpenTransaction", "Run", "RunningJob"]

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


class RunningJob:
    """A job while its handler runs.

    Attributes:
        id: The job's number.
        attempt: Which run this is, from 1.
        weight: What it takes of the worker's capacity.
        is_completed: Whether its own transaction has completed it.
        cancelled_by: Who has cancelled it while it ran; None if nobody has.
        is_ended: Whether it was told to end because the lease of its node is out.
    """

    __slots__ = (
        "_batch",
        "_open",
        "attempt",
        "cancelled_by",
        "id",
        "is_completed",
        "is_ended",
        "weight",
    )

    def __init__(
        self, job_id: int, attempt: int, weight: int, batch: Batch, opener: OpenTransaction
    ) -> None:
        self.id = job_id
        self.attempt = attempt
        self.weight = weight
        self.is_completed = False
        self.cancelled_by: str | None = None
        self.is_ended = False
        self._batch = batch
        self._open = opener

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

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction whose commit also completes this job; either both or neither.

        Returns:
            An asynchronous context manager that gives a `Transaction`.

        Raises:
            TokenLost: At its end, when the job has been assigned elsewhere since; nothing is kept.
        """
        return self._open(self)


@define(eq=False)
class Run:
    """A job whose handler waits for something.

    Attributes:
        job: The job.
        kind: Its type.
        options: What is told of it.
        began: When it began, by the reactor's clock.
        ending: Fires when its handler ends.
        is_reported: Whether it was told that it runs.
    """

    job: RunningJob
    kind: Kind
    options: dict[str, Any]
    began: float
    ending: Deferred[Any]
    is_reported: bool = False

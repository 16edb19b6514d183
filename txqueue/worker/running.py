"""The job as its handler sees it, and the batch it came in."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING

from txqueue.job import Token

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction

__all__ = ["Batch", "OpenTransaction", "RunningJob"]

OpenTransaction = Callable[["RunningJob"], "AbstractAsyncContextManager[Transaction]"]


class Batch:
    """A chunk of jobs assigned together, and what of it is done and not yet reported.

    Attributes:
        token: What every write about its jobs names.
        lane: Where the database keeps them.
        done: Numbers of jobs that returned nothing.
        jobs: How many jobs are done, those that completed themselves included.
        weight: Their weight.
    """

    __slots__ = ("done", "jobs", "lane", "token", "weight")

    def __init__(self, token: Token, lane: int) -> None:
        self.token = token
        self.lane = lane
        self.clear()

    def clear(self) -> None:
        """Begin a new report."""
        self.done: list[int] = []
        self.jobs = 0
        self.weight = 0


class RunningJob:
    """A job while its handler runs.

    Attributes:
        id: The job's number.
        attempt: Which run this is, from 1.
        weight: What it takes of the worker's capacity.
        is_completed: Whether its own transaction has completed it.
        cancelled_by: Who has cancelled it while it ran; None if nobody has.
    """

    __slots__ = ("_batch", "_open", "attempt", "cancelled_by", "id", "is_completed", "weight")

    def __init__(
        self, job_id: int, attempt: int, weight: int, batch: Batch, opener: OpenTransaction
    ) -> None:
        self.id = job_id
        self.attempt = attempt
        self.weight = weight
        self.is_completed = False
        self.cancelled_by: str | None = None
        self._batch = batch
        self._open = opener

    @property
    def is_cancelled(self) -> bool:
        """Whether somebody has cancelled it: a function in a thread can look, and end."""
        return self.cancelled_by is not None

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

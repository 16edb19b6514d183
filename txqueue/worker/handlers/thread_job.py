"""A running job, as a function in a thread uses it: the same names, and calls that block."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Unpack

from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.model.workset_item import WorksetItem
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.worker.handlers.blocking import Blocking, blocking, direct, entering, pieces
from txqueue.worker.handlers.running_job import Parents, RunningJob

__all__ = ["ThreadBatch", "ThreadJob", "ThreadTransaction"]


class ThreadBatch(Blocking[Batch]):
    """A batch whose jobs a function in a thread enqueues; see `Batch`.

    Attributes:
        ids: The numbers of the jobs enqueued so far.
        callback_id: The callback's job number, which identifies the batch; read it after the block.
    """

    ids: list[int]
    callback_id: int

    __slots__ = ()

    enqueue = blocking(Batch.enqueue)

    def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many jobs of the batch; see `Transaction.enqueue_many`."""
        wait, enqueue_many = self._calls.wait, self._target.enqueue_many
        return [
            number for piece in pieces(works) for number in wait(enqueue_many(piece, **options))
        ]


class ThreadTransaction(Blocking[Transaction]):
    """A job's own transaction, as a function in a thread uses it; see `Transaction`."""

    __slots__ = ()

    execute = blocking(Transaction.execute)
    enqueue = blocking(Transaction.enqueue)
    batch = entering(Transaction.batch, ThreadBatch)

    def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many work items, a thousand per round trip; return the job numbers in order."""
        wait, enqueue_many = self._calls.wait, self._target.enqueue_many
        return [
            number for piece in pieces(works) for number in wait(enqueue_many(piece, **options))
        ]

    def fill(self, cls: type[WorksetItem], items: Iterable[WorksetItem]) -> int:
        """Put items into a workset as part of this transaction; return how many were added."""
        return sum(self._calls.wait(self._target.fill(cls, piece)) for piece in pieces(items))


class ThreadJob(Blocking[RunningJob]):
    """A job while its function runs in a thread; the argument of `perform` with `Runtime.THREAD`.

    It has the methods of `RunningJob`. Those that a coroutine awaits block the thread; a worker
    that waits no longer for the function, or a cancelled job, ends them with a `CancelledError` of
    Twisted's.

    Attributes:
        id: The job's number.
        attempt: The number of this run, from 1.
        weight: The share of the worker's capacity that the job takes.
        work_type: The name of its work type.
        due: The schedule's moment for which the job was enqueued; None without a schedule.
        tags: The tags that the job was enqueued with; they cannot be changed.
        parents: The jobs that this job waited for, and how they ended; None for other jobs.
        cancelled_by: The operator that cancelled the job; None if it was not cancelled.
        is_cancelled: Whether the job should end.
    """

    id: int
    attempt: int
    weight: int
    work_type: str
    due: datetime | None
    tags: Mapping[str, str]
    parents: Parents | None
    cancelled_by: str | None
    is_cancelled: bool
    follow_ups: Sequence[tuple[WorkItem, EnqueueOptions]]

    __slots__ = ()

    beat = direct(RunningJob.beat)
    progress = blocking(RunningJob.progress)
    transaction = entering(RunningJob.transaction, ThreadTransaction)
    then = blocking(RunningJob.then)
    coalesce = blocking(RunningJob.coalesce)

"""Batches: jobs enqueued together, with a callback that runs once all have ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Unpack

from txqueue.errors import TransactionMisused
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.awaited_calls import AwaitedCalls, awaited


class Enqueuing(Protocol):
    """The transaction, as a batch uses it."""

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue a job."""

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many jobs."""


class BatchNumbers:
    """The numbers of a batch's jobs, which every kind of batch collects.

    Attributes:
        ids: The numbers of the jobs enqueued so far.
    """

    def __init__(self) -> None:
        self.ids: list[int] = []
        self._callback_id: int | None = None
        self._is_open = True

    @property
    def callback_id(self) -> int:
        """The callback's job number, which identifies the batch.

        Raises:
            TransactionMisused: Before the end of the block, where the callback is enqueued.
        """
        if self._callback_id is None:
            raise TransactionMisused(
                "the batch has no callback yet: it is enqueued at the end of the block",
                "read callback_id after the block",
            )
        return self._callback_id

    @callback_id.setter
    def callback_id(self, job_id: int) -> None:
        self._callback_id = job_id

    def end(self) -> None:
        """Refuse further jobs, as the callback is enqueued next."""
        self._is_open = False

    def _check(self) -> None:
        if not self._is_open:
            raise TransactionMisused(
                "the batch is complete: its callback would not wait for another job",
                "enqueue its jobs inside its block",
            )


class Batch(BatchNumbers):
    """A batch whose jobs are being enqueued, made by `WorkQueue.batch`.

    Args:
        txn: The transaction in which the jobs are enqueued.

    Attributes:
        ids: The numbers of the jobs enqueued so far.
        callback_id: The callback's job number, which identifies the batch; read it after the block.
    """

    def __init__(self, txn: Enqueuing) -> None:
        super().__init__()
        self._txn = txn
        self.unawaited = AwaitedCalls("batch", TransactionMisused)

    def end(self) -> None:
        """Refuse further jobs, as the callback is enqueued next.

        Raises:
            TransactionMisused: When a call was not awaited.
        """
        super().end()
        self.unawaited.check()

    @awaited
    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue a job of the batch; see `Transaction.enqueue`."""
        self._check()
        job_id = await self._txn.enqueue(work, **options)
        self.ids.append(job_id)
        return job_id

    @awaited
    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many jobs of the batch; see `Transaction.enqueue_many`."""
        self._check()
        ids = await self._txn.enqueue_many(works, **options)
        self.ids += ids
        return ids

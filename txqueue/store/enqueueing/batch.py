"""Batches: jobs enqueued together, with a callback that runs once all have ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, Unpack

from txqueue.errors import TransactionMisused
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem

__all__ = ["Batch"]


class Enqueuing(Protocol):
    """The transaction, as a batch uses it."""

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue a job."""

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many jobs."""


class Batch:
    """A batch whose jobs are being enqueued, made by `WorkQueue.batch`.

    Args:
        txn: The transaction in which the jobs are enqueued.

    Attributes:
        ids: The numbers of the jobs enqueued so far.
        callback_id: The callback's job number, set at the end of the block; it identifies the
            batch.
    """

    def __init__(self, txn: Enqueuing) -> None:
        self._txn = txn
        self.ids: list[int] = []
        self.callback_id: int | None = None
        self._is_open = True

    def end(self) -> None:
        """Refuse further jobs, as the callback is enqueued next."""
        self._is_open = False

    def _check(self) -> None:
        if not self._is_open:
            raise TransactionMisused(
                "the batch is complete: its callback would not wait for another job",
                "enqueue its jobs inside its async with block",
            )

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue a job of the batch; see `Transaction.enqueue`."""
        self._check()
        job_id = await self._txn.enqueue(work, **options)
        self.ids.append(job_id)
        return job_id

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many jobs of the batch; see `Transaction.enqueue_many`."""
        self._check()
        ids = await self._txn.enqueue_many(works, **options)
        self.ids += ids
        return ids

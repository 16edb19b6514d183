"""Batches: jobs enqueued together, and one that runs when all of them have ended."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Unpack

from txqueue.store.enqueuing import EnqueueOptions
from txqueue.work import WorkItem

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction

__all__ = ["Batch"]


class Batch:
    """The jobs of a batch while it is put together; `WorkQueue.batch` makes it.

    Args:
        txn: The transaction that they are part of.

    Attributes:
        ids: The numbers of its jobs.
        callback_id: The number of the job that runs when they have ended, once it is known: by this
            the batch is asked after.
    """

    def __init__(self, txn: Transaction) -> None:
        self._txn = txn
        self.ids: list[int] = []
        self.callback_id: int | None = None

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue a job of the batch; see `Transaction.enqueue`."""
        job_id = await self._txn.enqueue(work, **options)
        self.ids.append(job_id)
        return job_id

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many of them; see `Transaction.enqueue_many`."""
        ids = await self._txn.enqueue_many(works, **options)
        self.ids += ids
        return ids

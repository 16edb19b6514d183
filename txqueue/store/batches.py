"""Batches: jobs enqueued together, one that runs when all have ended, and how far they are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Unpack

from txqueue.errors import JobNotFound, TransactionMisused
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing import EnqueueOptions
from txqueue.store.queries import Inquiry, Question

if TYPE_CHECKING:
    from txqueue.store.transaction import Transaction

__all__ = ["Batch", "about_batch"]

ENDS = ("done", "failed", "cancelled")


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
        self._is_open = True

    def end(self) -> None:
        """Take no more jobs: the callback is about to be enqueued."""
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
        """Enqueue many of them; see `Transaction.enqueue_many`."""
        self._check()
        ids = await self._txn.enqueue_many(works, **options)
        self.ids += ids
        return ids


def about_batch(schema: str, job_id: int) -> Inquiry[dict[str, Any]]:
    """How far a batch is, counted from its jobs.

    Args:
        schema: The name of the schema.
        job_id: The number of its callback.

    Raises:
        JobNotFound: When there is no such job, or it does not wait for others.
    """
    rows = yield Question(
        "select job_id, work_type, state::text as state, waiting_for, options -> 'parents' as ends,"
        " options -> 'after' as after"
        f" from {schema}.job where job_id = %s",
        (job_id,),
    )
    counted = yield Question(
        f"select coalesce(ended, 'left') as ended, count(*) as jobs from {schema}.job_parent"
        " where child = %s group by 1",
        (job_id,),
    )
    ends = {row["ended"]: row["jobs"] for row in counted} or (rows and rows[0]["ends"])
    if ends and not counted and isinstance(rows[0]["after"], list):
        # The callback has run; some of the jobs may have been run again since.
        ends = yield from _ends_now(schema, rows[0]["after"])
    if not rows or not ends:
        raise JobNotFound(
            f"no batch calls job {job_id} back", "pass the callback's number: batch.callback_id"
        )
    counts = {name: ends.get(name, 0) for name in (*ENDS, "left")}
    told = {"batch": job_id, "work_type": rows[0]["work_type"], "state": rows[0]["state"]}
    return {**told, "jobs": sum(counts.values()), **counts}


def _ends_now(schema: str, ids: list[int]) -> Inquiry[dict[str, int]]:
    """Count jobs by how they have ended as of now."""
    rows = yield Question(
        "select case when state in ('done', 'failed', 'cancelled') then state::text else 'left' end"
        f" as ended, count(*) as jobs from {schema}.job where job_id = any(%s::bigint[])"
        " group by 1",
        (ids,),
    )
    return {row["ended"]: row["jobs"] for row in rows}

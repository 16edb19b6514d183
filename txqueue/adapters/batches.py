"""Batches over a caller's own connection: jobs, and a callback that runs once all have ended."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Unpack

from attrs import frozen

from txqueue.errors import TransactionMisused
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.batch import Batch, BatchNumbers

__all__ = ["BlockingBatch", "Calls", "abatch", "batch"]


@frozen
class Calls:
    """The functions of an adapter, for one connection.

    Attributes:
        enqueue: Enqueues a work item.
        enqueue_many: Enqueues many.
        is_alone: Tells whether each statement is a transaction of its own.
    """

    enqueue: Callable[..., Any]
    enqueue_many: Callable[..., Any]
    is_alone: Callable[[], bool]

    def check(self) -> None:
        """Check that there is a transaction for a batch.

        Raises:
            TransactionMisused: When there is none.
        """
        if self.is_alone():
            raise TransactionMisused(
                "a batch needs a transaction, and this connection commits each statement",
                "begin one: the jobs of the batch and its callback are committed together",
            )


class BlockingBatch(BatchNumbers):
    """A batch whose jobs are being enqueued, made by the function `batch` of an adapter.

    Args:
        calls: The functions that enqueue.

    Attributes:
        ids: The numbers of the jobs enqueued so far.
        callback_id: The callback's job number, which identifies the batch; read it after the block.
    """

    def __init__(self, calls: Calls) -> None:
        super().__init__()
        self._calls = calls

    def enqueue(
        self, work: WorkItem, *, savepoint: bool = False, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Enqueue a job of the batch; see the adapter's `enqueue`."""
        self._check()
        job_id: int = self._calls.enqueue(work, savepoint=savepoint, **options)
        self.ids.append(job_id)
        return job_id

    def enqueue_many(
        self,
        works: Iterable[WorkItem],
        *,
        savepoint: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> list[int]:
        """Enqueue many jobs of the batch; see the adapter's `enqueue_many`."""
        self._check()
        ids: list[int] = self._calls.enqueue_many(works, savepoint=savepoint, **options)
        self.ids += ids
        return ids


@contextmanager
def batch(calls: Calls, callback: WorkItem, options: Mapping[str, Any]) -> Iterator[BlockingBatch]:
    """Collect a batch over a connection that blocks; its callback is enqueued at the end."""
    calls.check()
    collected = BlockingBatch(calls)
    yield collected
    collected.end()
    collected.callback_id = calls.enqueue(callback, **_waiting(options, collected.ids))


@asynccontextmanager
async def abatch(
    calls: Calls, callback: WorkItem, options: Mapping[str, Any]
) -> AsyncIterator[Batch]:
    """Collect a batch over a connection that does not block."""
    calls.check()
    collected = Batch(calls)
    yield collected
    collected.end()
    collected.callback_id = await calls.enqueue(callback, **_waiting(options, collected.ids))


def _waiting(options: Mapping[str, Any], ids: list[int]) -> dict[str, Any]:
    return {**options, "after": ids, "after_any_end": True}

"""A running job, as a function in a thread uses it: the same names, and calls that block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from inspect import iscoroutinefunction
from typing import Any, Self, TypeVar, Unpack

from txqueue.errors import InvalidWork
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.results import result_type
from txqueue.model.work_item import WorkItem
from txqueue.model.workset_item import WorksetItem
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.worker.handlers.running_job import Parents, RunningJob
from txqueue.worker.handlers.step_scopes import StepCursor, StepTransaction
from txqueue.worker.handlers.threads import Blocking, blocking, direct, entering, pieces

R = TypeVar("R")


def _enqueue_many(
    self: Blocking[Any], works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
) -> list[int]:
    """Enqueue many work items, a thousand per round trip; return the job numbers in order."""
    wait, enqueue_many = self._calls.wait, self._target.enqueue_many
    return [number for piece in pieces(works) for number in wait(enqueue_many(piece, **options))]


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

    enqueue_many = _enqueue_many


class ThreadTransaction(Blocking[Transaction]):
    """A job's own transaction, as a function in a thread uses it; see `Transaction`.

    Attributes:
        result: What the job returns: set it before the end.
    """

    result: Any

    __slots__ = ()

    execute = blocking(Transaction.execute)
    enqueue = blocking(Transaction.enqueue)
    signal = blocking(Transaction.signal)
    batch = entering(Transaction.batch, ThreadBatch)

    enqueue_many = _enqueue_many

    def fill(self, cls: type[WorksetItem], items: Iterable[WorksetItem]) -> int:
        """Put items into a workset as part of this transaction; return how many were added."""
        return sum(self._calls.wait(self._target.fill(cls, piece)) for piece in pieces(items))


class ThreadStep(Blocking[StepTransaction]):
    """A step that is a transaction, as a function in a thread uses it; see `StepTransaction`.

    Attributes:
        is_done: Whether an earlier run has committed it: nothing is to be done then.
        result: What the step returns: set it before the end; later runs get it.
    """

    is_done: bool
    result: Any

    __slots__ = ()

    @property
    def txn(self) -> ThreadTransaction:
        """The transaction."""
        return ThreadTransaction(self._target.txn, self._calls)


class ThreadCursor(Blocking[StepCursor]):
    """A position in a loop, as a function in a thread uses it; see `StepCursor`.

    Attributes:
        following: The position after this one; an integer's is the next one by itself.
    """

    following: Any

    __slots__ = ()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        try:
            return self._calls.wait(self._target.__anext__())
        except StopAsyncIteration:
            raise StopIteration from None


class ThreadJob(Blocking[RunningJob]):
    """A job while its function runs in a thread; the argument of `perform` with `Runtime.THREAD`.

    It has the attributes and methods of `RunningJob`. Those that a coroutine awaits block the
    thread; a worker that waits no longer for the function, or a cancelled job, ends them with a
    `CancelledError` of Twisted's.

    Attributes:
        id: The job's number.
        attempt: The number of this run, from 1.
        weight: The share of the worker's capacity that the job takes.
        cost: What the run costs of the ``group_rate``; a function may set it.
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
    cost: float
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
    step_transaction = entering(RunningJob.step_transaction, ThreadStep)
    wait_for = blocking(RunningJob.wait_for)
    sleep = blocking(RunningJob.sleep)
    call = blocking(RunningJob.call)

    def step(self, name: str, function: Callable[..., R], *args: Any, **options: Any) -> R:
        """Call a function in this thread, once also if the handler runs again; return its result.

        See `RunningJob.step`. Several threads of one function may call steps at a time; each calls
        the function of its step itself.

        Args:
            name: The name of the step, used once in a run; in a loop, ``f"page {number}"``.
            function: A plain function.
            args: Its arguments.
            options: Its named arguments; and ``retry``, a `Retry`.

        Raises:
            InvalidWork: As by `RunningJob.step`, and when the function is a coroutine.
        """
        if iscoroutinefunction(function):
            raise InvalidWork(
                f"step {name!r} of job {self.id} would call a coroutine in a thread",
                "pass a plain function, or make the handler a coroutine",
            )

        async def begun(here: Callable[..., Any]) -> R:
            steps, kind = self._target.its_steps(), result_type(function)
            result: R = await steps.step(name, here, args, options, kind)
            return result

        return self._calls.wait_calling(function, begun)

    def cursor(self, name: str, start: Any = 0) -> ThreadCursor:
        """Return an iterator over positions, of which the last survives a restart.

        See `RunningJob.cursor`.

        Args:
            name: The name of the step.
            start: The first position.
        """
        return ThreadCursor(self._target.cursor(name, start), self._calls)

"""What a handler holds while a step goes on: its transaction, or its position in a loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from txqueue.errors import InvalidWork
from txqueue.model.results import step_text

if TYPE_CHECKING:
    from txqueue.store.enqueueing.transaction import Transaction
    from txqueue.worker.handlers.running_job import RunningJob


class StepTransaction:
    """A step that is a transaction: its writes and its result are kept together.

    Args:
        name: The name of the step.
        is_done: Whether an earlier run has committed it.
        result: What that has returned.

    Attributes:
        is_done: Whether an earlier run has committed it: nothing is to be done then.
        result: What the step returns: set it before the end; later runs get it.
    """

    def __init__(self, name: str, *, is_done: bool = False, result: Any = None) -> None:
        self._name = name
        self._txn: Transaction | None = None
        self.is_done = is_done
        self.result = result

    @property
    def txn(self) -> Transaction:
        """The transaction.

        Raises:
            InvalidWork: When an earlier run has committed the step, or the block has ended.
        """
        if self._txn is None:
            raise InvalidWork(
                f"step {self._name!r} is done and has no transaction",
                "use it only inside of the block, and only if not step.is_done",
            )
        return self._txn

    @txn.setter
    def txn(self, txn: Transaction) -> None:
        self._txn = txn

    def end(self) -> None:
        """Refuse further use."""
        self._txn = None


class StepCursor:
    """A position in a loop that survives a restart; see `RunningJob.cursor`.

    Args:
        job: The job.
        name: The name of the step.
        start: The first position.

    Attributes:
        following: The position after this one; an integer's is the next one by itself.
    """

    def __init__(self, job: RunningJob, name: str, start: Any) -> None:
        self._job = job
        self._name = name
        self._start = start
        self._has_begun = False
        self.following: Any = None

    def __aiter__(self) -> StepCursor:
        return self

    async def __anext__(self) -> Any:
        """Keep the position after the turn that has ended, and return it."""
        steps = self._job.its_steps()
        if not self._has_begun:
            self._has_begun = True
            memo = await steps.begin(self._name, "cursor")
            position = self._start
            if memo is not None:
                position = steps.read(self._name, Any, memo.result)
        else:
            position = self.following
            await steps.write(self._name, "cursor", result=step_text(self._name, position))
        if position is None:
            raise StopAsyncIteration
        self.following = position + 1 if type(position) is int else None
        return position

"""Durable steps, as a handler sees them: methods of its job."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

from txqueue.errors import InvalidWork
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.step import result_type
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.awaited_calls import AwaitedCalls, awaited

if TYPE_CHECKING:
    from txqueue.worker.handlers.step_scopes import StepCursor, StepTransaction
    from txqueue.worker.handlers.steps import JobSteps

__all__ = ["NO_PROGRESS", "DurableJob", "no_store"]

R = TypeVar("R")

NO_PROGRESS: Final = "null"
"""The last progress of a job that has steps and has reported none: its end is then written by
itself, with its steps, as that of a job with progress.
"""


class DurableJob:
    """The part of a `RunningJob` that is about steps, waits and calls.

    A handler runs from its top again when it goes on. A step that is done is not done again, but
    returns what it returned. The name of a step is its identity: no order is checked.
    """

    __slots__ = ()

    @overload
    async def step(
        self, name: str, function: Callable[..., Awaitable[R]], *args: Any, **options: Any
    ) -> R: ...

    @overload
    async def step(
        self, name: str, function: Callable[..., R], *args: Any, **options: Any
    ) -> R: ...

    @awaited  # type: ignore[misc]  # of a decorated method mypy compares self by position
    async def step(
        self, name: str, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """Call a function once, also if the handler runs again, and return its result.

        The result is kept once the function has returned: a function whose process dies before that
        is called again, so its effects outside of the database must be idempotent.

        Args:
            name: The name of the step, used once in a run; in a loop, ``f"page {number}"``.
            function: A function, or one that returns a coroutine or a Deferred. Later runs decode
                its result by the annotation of what it returns.
            args: Its arguments.
            options: Its named arguments; and ``retry``, a `Retry` for short waits between several
                calls of it. Without one an error is the job's.

        Returns:
            What the function returns, as a later run would read it.

        Raises:
            InvalidWork: When the name is used twice in a run, or the result does not fit JSON or
                its annotation.
            TokenLost: When the job has been assigned elsewhere since.
        """
        return await self.its_steps().step(name, function, args, options, result_type(function))

    def step_transaction(self, name: str) -> AbstractAsyncContextManager[StepTransaction]:
        """Open a transaction that is a step: its writes and its result are committed once.

        Args:
            name: The name of the step.

        Returns:
            An asynchronous context manager whose value is a `StepTransaction`. If its ``is_done``
            is true, an earlier run has committed it: skip what the block does. Otherwise use its
            ``txn``, and set its ``result``.

        Raises:
            DatabaseUnavailable: When no connection can be made; if the handler lets the error
                propagate, the job runs again soon and no attempt is spent.
            TokenLost: At its end, when the job has been assigned elsewhere since; the transaction
                is rolled back.
        """
        return self.its_steps().transaction(name)

    @awaited
    async def wait_for(
        self,
        name: str,
        annotation: Any = Any,
        *,
        timeout: float | timedelta | None = None,
        signal: str | None = None,
        hold_group: bool = False,
    ) -> Any:
        """Return the value of a signal; until it comes, the job takes no worker.

        If the signal is not there, this raises `Suspended`, which ends the run and which the
        handler must let through. The handler runs again once `WorkQueue.signal` has sent the
        signal. A signal that came before this call is kept. A wait spends no attempt.

        Args:
            name: The name of the step.
            annotation: The type as which the value is read, such as ``bool``; `explain` and the
                dashboard name it.
            timeout: How long to wait, from the first call on; None for no limit.
            signal: The name of the signal, if several steps wait for signals of one name; else it
                is the name of the step.
            hold_group: Whether the job meanwhile keeps its place in its group, so that no other
                job of the group starts in its place.

        Returns:
            The value that was sent with the signal.

        Raises:
            TimedOut: When the time is over. Later runs raise it, too.
        """
        steps = self.its_steps()
        return await steps.wait_for(name, timeout, signal, annotation, hold_group=hold_group)

    @awaited
    async def sleep(
        self, name: str, length: float | timedelta, *, hold_group: bool = False
    ) -> None:
        """Wait for a time; meanwhile the job takes no worker.

        Args:
            name: The name of the step.
            length: How long, from the first call on.
            hold_group: As for `wait_for`.
        """
        await self.its_steps().sleep(name, length, hold_group=hold_group)

    @awaited
    async def call(
        self,
        name: str,
        work: WorkItem,
        *,
        hold_group: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> Any:
        """Enqueue a job once and return its result; until it ends, this job takes no worker.

        Args:
            name: The name of the step.
            work: The work of the other job.
            hold_group: As for `wait_for`; a job that calls one of its own group frees its place all
                the same, as the other one could not start.
            options: As for `WorkQueue.enqueue`.

        Returns:
            The result of the other job.

        Raises:
            DatabaseUnavailable: When no connection can be made, as by `step_transaction`.
            JobFailed: When it has failed or was cancelled.
            Refused: When it would wait for the end of this job, whose unique key it has.
        """
        return await self.its_steps().call(name, work, dict(options), hold_group=hold_group)

    def cursor(self, name: str, start: Any = 0) -> StepCursor:
        """Return an asynchronous iterator over positions, of which the last survives a restart.

        Each turn of the loop is a step: the position is kept after it. A number's next position is
        one more; set ``following`` for another one, such as a key, or None to end the loop.

        Args:
            name: The name of the step.
            start: The first position.
        """
        from txqueue.worker.handlers.step_scopes import StepCursor

        return StepCursor(self, name, start)

    def its_steps(self) -> JobSteps:
        """Return the steps of this run."""
        raise NotImplementedError

    @property
    def unawaited(self) -> AwaitedCalls:
        """The calls that were not awaited."""
        return self.its_steps().unawaited


def no_store(job_id: int) -> InvalidWork:
    """Return the error for a job that runs where no steps can be kept."""
    return InvalidWork(
        f"job {job_id} runs where no steps are kept",
        "run it by a node; jobs of worksets have no steps",
    )

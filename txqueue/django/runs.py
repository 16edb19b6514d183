"""Runs of tasks in workers: their arguments, results and errors, and the signals around them."""

from __future__ import annotations

import socket
from asyncio import CancelledError
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import dataclass
from inspect import iscoroutinefunction
from traceback import format_exception
from typing import TYPE_CHECKING, Any, cast

from asgiref.sync import async_to_sync, sync_to_async
from attrs import evolve
from django.utils import timezone

from txqueue.django.framework import (
    UNKNOWN_WORKER,
    TaskCancelled,
    TaskContext,
    TaskError,
    TaskResultStatus,
    meant_task,
    normalize_json,
    signals,
    task_result,
)
from txqueue.model.directives import DIRECTIVES, Discard
from txqueue.policy.endings.outcome import error_class, is_suspension, judge

if TYPE_CHECKING:
    from txqueue.django.items import TaskWork
    from txqueue.worker.handlers.running_job import RunningJob


class _Awaited:
    """An object whose blocking methods are coroutines here.

    Args:
        target: The object.
    """

    _BLOCKING: tuple[str, ...] = ()
    _target: Any

    def __init__(self, target: Any) -> None:
        vars(self)["_target"] = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        # In the thread of the caller, which has Django's connection.
        return sync_to_async(found) if name in self._BLOCKING else found

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._target, name, value)


class _AwaitedTransaction(_Awaited):
    _BLOCKING = ("execute", "enqueue", "enqueue_many", "signal", "fill")


class _AwaitedStep(_Awaited):
    @property
    def txn(self) -> _AwaitedTransaction:
        """The transaction."""
        return _AwaitedTransaction(self._target.txn)


class _AwaitedCursor(_Awaited):
    _END = object()

    def __aiter__(self) -> _AwaitedCursor:
        return self

    async def __anext__(self) -> Any:
        position = await sync_to_async(self._next)()
        if position is self._END:
            raise StopAsyncIteration
        return position

    def _next(self) -> Any:
        return next(self._target, self._END)


class AwaitedJob(_Awaited):
    """A `ThreadJob` whose calls a coroutine of asyncio's awaits, as it does those of a node's."""

    _BLOCKING = ("progress", "then", "coalesce", "wait_for", "sleep", "call")

    async def step(
        self, name: str, function: Callable[..., Any], *args: Any, **options: Any
    ) -> Any:
        """Call a function or a coroutine unless an earlier run has; return what it returned."""
        plain = async_to_sync(function) if iscoroutinefunction(function) else function
        return await sync_to_async(self._target.step)(name, plain, *args, **options)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[_AwaitedTransaction]:
        """Open the job's own transaction."""
        async with _awaited(self._target.transaction()) as txn:
            yield _AwaitedTransaction(txn)

    @asynccontextmanager
    async def step_transaction(self, name: str) -> AsyncIterator[_AwaitedStep]:
        """Open a transaction that is a step."""
        async with _awaited(self._target.step_transaction(name)) as step:
            yield _AwaitedStep(step)

    def cursor(self, name: str, start: Any = 0) -> _AwaitedCursor:
        """Return a position in a loop."""
        return _AwaitedCursor(self._target.cursor(name, start))


@asynccontextmanager
async def _awaited(manager: Any) -> AsyncIterator[Any]:
    """Enter a context manager that blocks."""
    value = await sync_to_async(manager.__enter__)()
    try:
        yield value
    except BaseException as error:
        leave = sync_to_async(manager.__exit__)
        if not await leave(type(error), error, error.__traceback__):
            raise
    else:
        await sync_to_async(manager.__exit__)(None, None, None)


_running: dict[int, Run] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningContext(TaskContext):  # type: ignore[misc]  # Django has no types.
    """What a task gets that takes a context: Django's own, and the job.

    Attributes:
        job: The `RunningJob`, with its progress, whether it is cancelled, and its steps.
    """

    job: Any


class Run:
    """A run of a task.

    Args:
        item: The work item.
        job: The job.
    """

    def __init__(self, item: TaskWork, job: RunningJob) -> None:
        self._item, self._job = item, job
        self._task = meant_task(item.work_type, item.using)
        now = timezone.now()
        self.result = task_result(
            self._task,
            job.id,
            TaskResultStatus.RUNNING,
            (item.args, item.kwargs),
            started_at=now if job.attempt == 1 else None,
            last_attempted_at=now,
            worker_ids=[*[UNKNOWN_WORKER] * (job.attempt - 1), socket.gethostname()],
        )
        _running[job.id] = self

    def call(self) -> Any:
        """Call the task's function."""
        context = RunningContext(task_result=self.result, job=self._job)
        leading = (context,) if self._task.takes_context else ()
        return self._task.func(*leading, *self._item.args, **self._item.kwargs)

    def send(self, signal: Any) -> None:
        """Send a signal of Django's tasks; an error of a receiver is logged."""
        signal.send_robust(type(self._task.get_backend()), task_result=self.result)

    async def asend(self, signal: Any, error: BaseException | None = None) -> None:
        """Send one from a coroutine, which may be handling an error."""
        traceback = error.__traceback__ if error is not None else None
        # Not by `asend_robust`, whose receivers cannot see the error: Django's log lacks it then.
        await sync_to_async(self.send)(signal)
        if error is not None:
            # Without the frames that asgiref has added.
            error.__traceback__ = traceback

    def succeeds(self, value: Any) -> bool:
        """Take what the function has returned; tell whether the task is finished."""
        if isinstance(value, DIRECTIVES):
            return self.fails(value)
        _running.pop(self._job.id, None)
        if self._job.is_cancelled:
            return False
        self._set(TaskResultStatus.SUCCESSFUL, _return_value=value)
        return True

    def fails(self, error: BaseException) -> bool:
        """Take what the function has raised; tell whether the task is finished."""
        if isinstance(error, CancelledError) and not self._job.is_cancelled:
            # Of a timeout, after which there may be another attempt: see `taken`.
            return False
        _running.pop(self._job.id, None)
        if is_suspension(error) and not self._job.is_cancelled:
            return False
        if self._is_last(error):
            self.fail(error)
            return True
        return False

    def fail(self, error: BaseException) -> None:
        """Note the error that has ended the task."""
        is_cancelled = self._job.cancelled_by is not None or isinstance(error, Discard)
        path = f"{TaskCancelled.__module__}.TaskCancelled" if is_cancelled else error_class(error)
        text = "".join(format_exception(error))
        self.result.errors.append(TaskError(exception_class_path=path, traceback=text))
        self._set(TaskResultStatus.FAILED)

    def _is_last(self, error: BaseException) -> bool:
        if self._job.is_cancelled:
            return self._job.cancelled_by is not None
        retry, terms = type(self._item).retry, self._job.terms or {}
        retry = evolve(retry, attempts=terms.get("attempts", retry.attempts))
        return judge(error, retry, self._job.attempt - 1, 0.5).outcome in ("failed", "cancelled")

    def _set(self, status: Any, **values: Any) -> None:
        # As Django's own backends do: a result is frozen for all others.
        for name, value in {"status": status, "finished_at": timezone.now(), **values}.items():
            object.__setattr__(self.result, name, value)


def taken(job_id: int) -> Run | None:
    """Return the run of a job that has failed while its function goes on, or was cancelled."""
    return _running.pop(job_id, None)


def perform(item: TaskWork, job: RunningJob) -> Any:
    """Run a task in a thread."""
    run = Run(item, job)
    run.send(signals.task_started)
    try:
        value = _storable(run.call())
    except BaseException as error:
        if run.fails(error):
            run.send(signals.task_finished)
        raise
    if run.succeeds(value):
        run.send(signals.task_finished)
    return value


def perform_elsewhere(item: TaskWork, job: RunningJob) -> Any:
    """Run a task that is a coroutine where no node runs it: in a test.

    What it does by `sync_to_async` then uses the connection of the caller.
    """
    return async_to_sync(perform_async)(item, cast("RunningJob", AwaitedJob(job)))


async def perform_async(item: TaskWork, job: RunningJob) -> Any:
    """Run a task that is a coroutine."""
    async with _isolation[0]():
        run = Run(item, job)
        await run.asend(signals.task_started)
        try:
            value = _storable(await run.call())
        except BaseException as error:
            if run.fails(error):
                await run.asend(signals.task_finished, error)
            raise
        if run.succeeds(value):
            await run.asend(signals.task_finished)
        return value


_isolation: list[Callable[[], AbstractAsyncContextManager[Any]]] = [nullcontext]


def isolate(around: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
    """Have each coroutine of a task run inside of a context manager, in the loop of a worker."""
    _isolation[:] = [around]


def is_isolated() -> bool:
    """Tell whether this is a process of a node."""
    return _isolation[0] is not nullcontext


def _storable(value: Any) -> Any:
    return value if isinstance(value, DIRECTIVES) else normalize_json(value)

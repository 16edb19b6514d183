"""Runs of tasks in workers: their arguments, results and errors, and the signals around them."""

from __future__ import annotations

import socket
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from traceback import format_exception
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from attrs import evolve
from django.utils import timezone

from txqueue.django import framework
from txqueue.django.framework import TaskContext
from txqueue.model.directives import DIRECTIVES, Discard
from txqueue.policy.endings.outcome import error_class, is_suspension, judge

if TYPE_CHECKING:
    from txqueue.django.items import TaskWork
    from txqueue.worker.handlers.running_job import RunningJob


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
        self._task = framework.meant_task(item.work_type, item.using)
        now = timezone.now()
        self.result = framework.task_result(
            self._task,
            job.id,
            framework.TaskResultStatus.RUNNING,
            (item.args, item.kwargs),
            started_at=now if job.attempt == 1 else None,
            last_attempted_at=now,
            worker_ids=[*[framework.UNKNOWN_WORKER] * (job.attempt - 1), socket.gethostname()],
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
        self._set(framework.TaskResultStatus.SUCCESSFUL, _return_value=value)
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
        path = (
            f"{framework.TaskCancelled.__module__}.TaskCancelled"
            if is_cancelled
            else error_class(error)
        )
        text = "".join(format_exception(error))
        self.result.errors.append(framework.TaskError(exception_class_path=path, traceback=text))
        self._set(framework.TaskResultStatus.FAILED)

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
    run.send(framework.signals.task_started)
    try:
        value = _storable(run.call())
    except BaseException as error:
        if run.fails(error):
            run.send(framework.signals.task_finished)
        raise
    if run.succeeds(value):
        run.send(framework.signals.task_finished)
    return value


async def perform_async(item: TaskWork, job: RunningJob) -> Any:
    """Run a task that is a coroutine."""
    async with _isolation[0]():
        run = Run(item, job)
        await run.asend(framework.signals.task_started)
        try:
            value = _storable(await run.call())
        except BaseException as error:
            if run.fails(error):
                await run.asend(framework.signals.task_finished, error)
            raise
        if run.succeeds(value):
            await run.asend(framework.signals.task_finished)
        return value


_isolation: list[Callable[[], AbstractAsyncContextManager[Any]]] = [nullcontext]


def isolate(around: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
    """Have each coroutine of a task run inside of a context manager, in the loop of a worker."""
    _isolation[:] = [around]


def _storable(value: Any) -> Any:
    return value if isinstance(value, DIRECTIVES) else framework.normalize_json(value)

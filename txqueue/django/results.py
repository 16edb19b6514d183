"""Results of tasks, as the database has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import connections
from django.utils import timezone

from txqueue.django.declared import meant_task
from txqueue.django.errors import AttemptFailed, TaskCancelled
from txqueue.django.framework import (
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
)
from txqueue.errors import InvalidWork
from txqueue.model.job import State, job_number
from txqueue.store.enqueueing.encryption import decrypted, is_encrypted
from txqueue.store.reads.one_job import StoredAttempt, StoredJob, attempts_query, job_query

__all__ = ["new_result", "read_result"]

_STATUS: Final = {
    State.DONE: TaskResultStatus.SUCCESSFUL,
    State.FAILED: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
_UNKNOWN: Final = "unknown"


class _Error(TaskError):  # type: ignore[misc]  # Django has no types.
    """An error whose class this process may not have."""

    __slots__ = ()

    @property
    def exception_class(self) -> type[BaseException]:
        """The class of the exception; `AttemptFailed` if it cannot be imported here."""
        try:
            return super().exception_class  # type: ignore[no-any-return]
        except (ImportError, ValueError):
            return AttemptFailed


def new_result(task: Any, job_id: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return the result of a task that was just enqueued."""
    return TaskResult(
        task=task,
        id=str(job_id),
        status=TaskResultStatus.READY,
        enqueued_at=timezone.now(),
        started_at=None,
        finished_at=None,
        last_attempted_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=task.backend,
        errors=[],
        worker_ids=[],
    )


def read_result(result_id: str, database: str, schema: str) -> Any:
    """Read a result.

    Raises:
        TaskResultDoesNotExist: When there is no such job, or it is not one of a task.
    """
    try:
        number = job_number(result_id)
    except InvalidWork:
        raise TaskResultDoesNotExist(f"{result_id!r} is not the id of a result") from None
    with connections[database].cursor() as cursor:
        cursor.execute(job_query(schema), (number,))
        if (row := cursor.fetchone()) is None:
            raise TaskResultDoesNotExist(result_id)
        job = StoredJob(*row)
        cursor.execute(attempts_query(schema), (number,))
        return _result(job, [StoredAttempt(*each) for each in cursor.fetchall()])


def _result(job: StoredJob, failed: Sequence[StoredAttempt]) -> Any:
    payload = _opened(job, "payload", job.payload)
    try:
        task = meant_task(job.work_type, payload.get("using") or {})
    except (AttributeError, LookupError) as error:
        raise TaskResultDoesNotExist(f"job {job.id} is not of a task: {error}") from None
    attempts = [attempt.began for attempt in failed]
    begun = [moment for moment in (*attempts, job.began) if moment is not None]
    result = TaskResult(
        task=task,
        id=str(job.id),
        status=_status(job),
        enqueued_at=job.enqueued_at,
        started_at=min(begun, default=None),
        finished_at=job.finished_at,
        last_attempted_at=max(begun, default=None),
        args=payload.get("args") or [],
        kwargs=payload.get("kwargs") or {},
        backend=task.backend,
        errors=_errors(job, failed),
        worker_ids=_workers(job, failed),
    )
    if job.state is State.DONE:
        # As Django's own backends do: a result is frozen for all others.
        object.__setattr__(result, "_return_value", _opened(job, "result", job.result))
    return result


def _status(job: StoredJob) -> Any:
    if job.state is State.ASSIGNED and job.started_at is not None:
        return TaskResultStatus.RUNNING
    return _STATUS.get(job.state, TaskResultStatus.READY)


def _opened(job: StoredJob, part: str, stored: Any) -> Any:
    return decrypted(job.work_type, part, stored) if is_encrypted(stored) else stored


def _errors(job: StoredJob, failed: Sequence[StoredAttempt]) -> list[Any]:
    errors = [_error(each.error_class, each.error) for each in failed]
    if job.state is State.CANCELLED:
        errors.append(_error(f"{TaskCancelled.__module__}.TaskCancelled", job.error))
    elif job.state is State.FAILED and not errors:
        errors.append(_error(None, job.error))
    return errors


def _error(path: str | None, text: str | None) -> Any:
    known = path or f"{AttemptFailed.__module__}.AttemptFailed"
    return _Error(exception_class_path=known, traceback=text or "")


def _workers(job: StoredJob, failed: Sequence[StoredAttempt]) -> list[str]:
    """Return the node of each run, which the database has of failed runs and of the last one."""
    nodes = [each.node or _UNKNOWN for each in failed]
    runs = job.runs + (job.state is State.ASSIGNED and job.started_at is not None)
    if len(nodes) < runs:
        nodes = [*nodes, *[_UNKNOWN] * (runs - len(nodes) - 1), job.node or _UNKNOWN]
    return nodes

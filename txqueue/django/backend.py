"""The backend of Django's tasks: each task is a job of txqueue, enqueued in `atomic`; its
results.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import connections
from django.utils import timezone

from txqueue.adapters import django as adapter
from txqueue.django import framework
from txqueue.django.items import ensure_item, job_priority, work
from txqueue.errors import InvalidWork
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.job import State, job_number
from txqueue.store.enqueueing.encryption import decrypted, is_encrypted
from txqueue.store.reads.one_job import StoredAttempt, StoredJob, attempts_query, job_query

_STATUS: Final = {
    State.DONE: framework.TaskResultStatus.SUCCESSFUL,
    State.FAILED: framework.TaskResultStatus.FAILED,
    State.CANCELLED: framework.TaskResultStatus.FAILED,
}


class _Error(framework.TaskError):  # type: ignore[misc]  # Django has no types.
    """An error whose class this process may not have."""

    __slots__ = ()

    @property
    def exception_class(self) -> type[BaseException]:
        """The class of the exception; `AttemptFailed` if it cannot be imported here."""
        try:
            return super().exception_class  # type: ignore[no-any-return]
        except (ImportError, ValueError):
            return framework.AttemptFailed


def read_result(result_id: str, database: str, schema: str) -> Any:
    """Read a result.

    Raises:
        TaskResultDoesNotExist: When there is no such job, or it is not one of a task.
    """
    try:
        number = job_number(result_id)
    except InvalidWork:
        raise framework.TaskResultDoesNotExist(f"{result_id!r} is not the id of a result") from None
    with connections[database].cursor() as cursor:
        cursor.execute(job_query(schema), (number,))
        if (row := cursor.fetchone()) is None:
            raise framework.TaskResultDoesNotExist(result_id)
        job = StoredJob(*row)
        cursor.execute(attempts_query(schema), (number,))
        return _result(job, [StoredAttempt(*each) for each in cursor.fetchall()])


def _result(job: StoredJob, failed: Sequence[StoredAttempt]) -> Any:
    payload = _opened(job, "payload", job.payload)
    try:
        task = framework.meant_task(job.work_type, payload.get("using") or {})
    except (AttributeError, LookupError) as error:
        raise framework.TaskResultDoesNotExist(f"job {job.id} is not of a task: {error}") from None
    attempts = [attempt.began for attempt in failed]
    begun = [moment for moment in (*attempts, job.began) if moment is not None]
    result = framework.task_result(
        task,
        job.id,
        _status(job),
        (payload.get("args") or [], payload.get("kwargs") or {}),
        enqueued_at=job.enqueued_at,
        started_at=min(begun, default=None),
        finished_at=job.finished_at,
        last_attempted_at=max(begun, default=None),
        errors=_errors(job, failed),
        worker_ids=_workers(job, failed),
    )
    if job.state is State.DONE:
        # As Django's own backends do: a result is frozen for all others.
        object.__setattr__(result, "_return_value", _opened(job, "result", job.result))
    return result


def _status(job: StoredJob) -> Any:
    if job.state is State.ASSIGNED and job.started_at is not None:
        return framework.TaskResultStatus.RUNNING
    return _STATUS.get(job.state, framework.TaskResultStatus.READY)


def _opened(job: StoredJob, part: str, stored: Any) -> Any:
    return decrypted(job.work_type, part, stored) if is_encrypted(stored) else stored


def _errors(job: StoredJob, failed: Sequence[StoredAttempt]) -> list[Any]:
    errors = [_error(each.error_class, each.error) for each in failed]
    if job.state is State.CANCELLED:
        errors.append(_error(f"{framework.TaskCancelled.__module__}.TaskCancelled", job.error))
    elif job.state is State.FAILED and not errors:
        errors.append(_error(None, job.error))
    return errors


def _error(path: str | None, text: str | None) -> Any:
    known = path or f"{framework.AttemptFailed.__module__}.AttemptFailed"
    return _Error(exception_class_path=known, traceback=text or "")


def _workers(job: StoredJob, failed: Sequence[StoredAttempt]) -> list[str]:
    """Return the node of each run, which the database has of failed runs and of the last one."""
    nodes = [each.node or framework.UNKNOWN_WORKER for each in failed]
    runs = job.runs + (job.state is State.ASSIGNED and job.started_at is not None)
    if len(nodes) < runs:
        nodes = [
            *nodes,
            *[framework.UNKNOWN_WORKER] * (runs - len(nodes) - 1),
            job.node or framework.UNKNOWN_WORKER,
        ]
    return nodes


OPTIONS: Final = ("database", "schema", "migrate", "dashboard")
"""What ``OPTIONS`` of a backend may have."""


class TxqueueBackend(framework.BaseTaskBackend):  # type: ignore[misc]  # Django has no types.
    """Runs Django's tasks as jobs of txqueue; named as ``BACKEND`` in the setting ``TASKS``.

    A task is enqueued over Django's connection, so in an `atomic` block it exists if the block is
    committed. ``OPTIONS`` has ``database``, the alias of the database with txqueue's tables
    (``default``); ``schema``, their schema (``txqueue``); ``migrate``, whether Django's ``migrate``
    upgrades them; and ``dashboard``, the address of the dashboard, for links of the admin.

    Attributes:
        database: The alias of the database.
        schema: The name of the schema.
    """

    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, {**params, "OPTIONS": params.get("OPTIONS") or {}})
        self.database: str = self.options.get("database", "default")
        self.schema: str = self.options.get("schema", "txqueue")

    def validate_task(self, task: Any) -> None:
        """Check a task, and make its work type.

        Raises:
            InvalidTask: When it is not valid.
        """
        super().validate_task(task)
        ensure_item(task)

    def enqueue(self, task: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Enqueue a task.

        Returns:
            Its `TaskResult`.

        Raises:
            InvalidTask: When the task, an option of its policy, or a value in its arguments is not
                valid: a number that is not finite, a key that is no text, a text with NUL.
            TypeError: When its function does not take the arguments, or one is of a type that JSON
                does not have.
            Refused: When the database refuses the job.
        """
        self.validate_task(task)
        item = work(task, *args, **kwargs)
        _warn_of_other_transaction(self.database)
        try:
            job_id = adapter.enqueue(
                item, using=self.database, schema=self.schema, **options_of(task)
            )
        except InvalidWork as error:
            raise framework.InvalidTask(str(error)) from error
        result = framework.task_result(
            task,
            job_id,
            framework.TaskResultStatus.READY,
            (list(args), dict(kwargs)),
            enqueued_at=timezone.now(),
        )
        framework.signals.task_enqueued.send(type(self), task_result=result)
        return result

    def get_result(self, result_id: str) -> Any:
        """Read the result of a task.

        Raises:
            TaskResultDoesNotExist: When there is none with this id, or no longer.
        """
        return read_result(result_id, self.database, self.schema)


def options_of(task: Any) -> EnqueueOptions:
    """Return the options of a task's job."""
    options = EnqueueOptions(queue=task.queue_name, priority=job_priority(task.priority))
    if (moment := task.run_after) is not None:
        is_aware = timezone.is_aware(moment)
        options["not_before"] = moment if is_aware else timezone.make_aware(moment)
    return options


def _warn_of_other_transaction(database: str) -> None:
    """Warn of a block of another database, as the task does not depend on it."""
    if connections[database].in_atomic_block:
        return
    others = [each.alias for each in connections.all(initialized_only=True) if each.in_atomic_block]
    if others:
        warnings.warn(
            f"a task is enqueued in the database {database!r} inside of"
            f" atomic(using={others[0]!r}): it is committed at once, and runs even if that"
            f" transaction is rolled back; open atomic(using={database!r}) as well, or enqueue it"
            " by transaction.on_commit()",
            framework.OtherTransaction,
            stacklevel=4,
        )

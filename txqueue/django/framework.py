"""Django's tasks: those of Django itself, or those of the package django-tasks, never both; and
what is declared of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string


def _family() -> str:
    for name in ("django.tasks", "django_tasks"):
        if find_spec(name) is not None:
            return name
    raise ImproperlyConfigured(
        "this version of Django has no tasks: install django-tasks, and add 'django_tasks' to"
        " INSTALLED_APPS; or remove 'txqueue.django' from there"
    )


FAMILY: Final = _family()
"""The package that the tasks of this process are of."""

_package: Any = import_module(FAMILY)
_base: Any = import_module(f"{FAMILY}.base")
_exceptions: Any = import_module(f"{FAMILY}.exceptions")
signals: Any = import_module(f"{FAMILY}.signals")

BaseTaskBackend: Any = import_module(f"{FAMILY}.backends.base").BaseTaskBackend
Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
TaskResultStatus: Any = _base.TaskResultStatus
normalize_json: Any = _base.normalize_json
task_backends: Any = _package.task_backends

# django-tasks has it by another name.
InvalidTask: Any = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError


UNKNOWN_WORKER: Final = "unknown"
"""The worker of an attempt that this process does not know."""


def task_result(
    task: Any, job_id: int, status: Any, arguments: tuple[Any, Any], **known: Any
) -> Any:
    """Return a result.

    Args:
        task: The task.
        job_id: The job's number.
        status: The status.
        arguments: The positional arguments, and those by name.
        known: The moments, errors and workers, as far as there are any.
    """
    moments = ("enqueued_at", "started_at", "finished_at", "last_attempted_at")
    args, kwargs = arguments
    values = {**dict.fromkeys(moments), "errors": [], "worker_ids": [], **known}
    return TaskResult(
        task=task,
        id=str(job_id),
        status=status,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        **values,
    )


class TaskCancelled(Exception):
    """The class of a `TaskError`: the task was cancelled, discarded, or had expired."""


class AttemptFailed(Exception):
    """The class of a `TaskError`: the attempt failed by no exception that can be imported here.

    Its worker process has died, for example, or the exception's class is one of the nodes alone.
    """


class OtherTransaction(UserWarning):
    """A task was enqueued inside of `atomic`, which is that of another database.

    The task is committed at once, so it also runs if the transaction is rolled back.
    """


_CHANGEABLE: Final = ("priority", "queue_name", "backend", "run_after")
"""What `Task.using` can change."""


def declared_task(work_type: str) -> Any:
    """Return the task of a work type, as it was declared; its module is imported if need be.

    Raises:
        LookupError: When there is no such task.
    """
    try:
        task = import_string(work_type)
    except ImportError as error:
        raise LookupError(f"{work_type} cannot be imported: {error}") from error
    if not isinstance(task, Task):
        raise LookupError(f"{work_type} is not a task of Django")
    return task


def changes_of(task: Any) -> dict[str, Any]:
    """Return what a task has that the declared one has not, for a payload.

    Raises:
        InvalidTask: When a node could not find the task.
    """
    try:
        declared = declared_task(task.module_path)
    except LookupError as error:
        raise InvalidTask(
            f"a node could not find the task: {error}; declare it with @task in a module"
        ) from error
    values = {name: getattr(task, name) for name in _CHANGEABLE}
    changed = {name: value for name, value in values.items() if value != getattr(declared, name)}
    if (moment := changed.get("run_after")) is not None:
        changed["run_after"] = moment.isoformat()
    return changed


def meant_task(work_type: str, changes: Mapping[str, Any]) -> Any:
    """Return a task as it was when it was enqueued.

    Raises:
        LookupError: When there is no such task.
    """
    task = declared_task(work_type)
    if not changes:
        return task
    changed = dict(changes)
    if moment := changed.get("run_after"):
        changed["run_after"] = datetime.fromisoformat(moment)
    try:
        return task.using(**changed)
    except (InvalidTask, ImproperlyConfigured):
        # The settings have changed since: a queue or a backend is gone, for example.
        return task

"""Django's tasks: those of Django itself, or those of the package django-tasks, never both."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured

__all__ = [
    "DEFAULT_BACKEND",
    "FAMILY",
    "BaseTaskBackend",
    "InvalidTask",
    "Task",
    "TaskContext",
    "TaskError",
    "TaskResult",
    "TaskResultDoesNotExist",
    "TaskResultStatus",
    "normalize_json",
    "signals",
    "task_backends",
]


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

DEFAULT_BACKEND: Final[str] = _package.DEFAULT_TASK_BACKEND_ALIAS
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

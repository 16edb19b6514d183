"""Declared tasks by the names of their work types, and what `Task.using` changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured
from django.utils.module_loading import import_string

from txqueue.django.framework import InvalidTask, Task

__all__ = ["changes_of", "declared_task", "meant_task"]

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

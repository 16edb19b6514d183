"""The backend of Django's tasks: each task is a job of txqueue, enqueued in `atomic`."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from django.db import connections
from django.utils import timezone

from txqueue.adapters import django as adapter
from txqueue.django.errors import OtherTransaction
from txqueue.django.framework import BaseTaskBackend, InvalidTask, signals
from txqueue.django.items import ensure_item, job_priority, work
from txqueue.django.results import new_result, read_result
from txqueue.errors import InvalidWork
from txqueue.model.enqueue_options import EnqueueOptions

__all__ = ["OPTIONS", "TxqueueBackend"]

OPTIONS: Final = ("database", "schema", "migrate", "dashboard")
"""What ``OPTIONS`` of a backend may have."""


class TxqueueBackend(BaseTaskBackend):  # type: ignore[misc]  # Django has no types.
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
            raise InvalidTask(str(error)) from error
        result = new_result(task, job_id, args, kwargs)
        signals.task_enqueued.send(type(self), task_result=result)
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
    if task.run_after is not None:
        options["not_before"] = _aware(task.run_after)
    return options


def _aware(moment: datetime) -> datetime:
    return moment if timezone.is_aware(moment) else timezone.make_aware(moment)


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
            OtherTransaction,
            stacklevel=4,
        )

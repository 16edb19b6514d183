"""Jobs as a model of Django, for the admin, which reads them only; no migration concerns it."""

from __future__ import annotations

from typing import Any, Final

from django.conf import settings
from django.db import models

from txqueue.model.job import State

__all__ = ["JobRow"]


def _schema() -> str:
    """Return the schema of the first backend that names one."""
    backends: dict[str, Any] = getattr(settings, "TASKS", None) or {}
    named = ((each.get("OPTIONS") or {}).get("schema") for each in backends.values())
    return next(filter(None, named), "txqueue")


# Django leaves a name that is quoted as it is.
_TABLE: Final = f'"{_schema()}"."job"'


class JobRow(models.Model):  # type: ignore[misc]  # Django has no types.
    """A job, without its data, which may not be for all eyes."""

    job_id = models.BigIntegerField("id", primary_key=True)
    work_type = models.TextField("task")
    queue = models.TextField()
    state = models.TextField(choices=[(state.value, state.value) for state in State])
    priority = models.SmallIntegerField()
    attempt = models.SmallIntegerField("attempts that have ended")
    enqueued_at = models.DateTimeField()
    assigned_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        """Only to look at."""

        managed = False
        db_table = _TABLE
        ordering = ["-job_id"]
        default_permissions = ("view",)
        verbose_name = "job"

    def __str__(self) -> str:
        return f"{self.job_id} ({self.work_type})"

"""Jobs in the admin of Django, to look at; acts are those of the dashboard and the command line."""

from __future__ import annotations

from datetime import datetime
from functools import cached_property
from typing import Any, Final

from django.contrib import admin
from django.core.paginator import Paginator
from django.utils.html import format_html

from txqueue.django.checks import backends
from txqueue.django.models import JobRow
from txqueue.model.job import State
from txqueue.store.reads.one_job import run_began

__all__ = ["BoundedPaginator", "JobAdmin"]

MOST: Final = 10_000
"""How many jobs a list counts, and shows: to count all may read millions of rows."""


class BoundedPaginator(Paginator):  # type: ignore[misc]  # Django has no types.
    """Counts a limited number of jobs only."""

    @cached_property
    def count(self) -> int:
        """The number of jobs, `MOST` at most."""
        return int(self.object_list.order_by()[:MOST].count())


@admin.register(JobRow)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc]  # Django has no types.
    """A list of jobs, the latest first, with links to the dashboard."""

    list_display = ("job_id", "work_type", "queue", "state", "attempt", "enqueued_at", "dashboard")
    list_filter = ("state",)
    fields = (
        *("job_id", "work_type", "queue", "state", "priority", "attempt"),
        *("enqueued_at", "started", "finished_at", "dashboard"),
    )
    readonly_fields = ("started", "dashboard")
    search_fields = ("work_type",)
    search_help_text = "the number of a job, or the whole name of a task"
    show_full_result_count = False
    paginator = BoundedPaginator

    def get_queryset(self, request: Any) -> Any:
        """Return the jobs of the first backend's database."""
        return super().get_queryset(request).using(self._backend.database)

    def get_search_results(self, request: Any, queryset: Any, search_term: str) -> tuple[Any, bool]:
        """Find what an index finds: a number, or a whole name."""
        if not search_term:
            return queryset, False
        if search_term.isdecimal():
            return queryset.filter(pk=int(search_term)), False
        return queryset.filter(work_type=search_term), False

    @admin.display(description="started at")
    def started(self, job: JobRow) -> datetime | None:
        """Return when the run began that goes on or was the last, as in a result."""
        return run_began(State(job.state), job.started_at, job.assigned_at)

    @admin.display(description="dashboard")
    def dashboard(self, job: JobRow) -> str:
        """Return a link to the job in the dashboard, if the backend has its address."""
        if not (address := self._backend.options.get("dashboard")):
            return "-"
        return str(format_html('<a href="{}/jobs/{}">show</a>', address.rstrip("/"), job.pk))

    def has_add_permission(self, request: Any, obj: Any = None) -> bool:
        """Jobs are enqueued by code, change by runs, and are removed in time by themselves."""
        return False

    has_change_permission = has_delete_permission = has_add_permission

    @property
    def _backend(self) -> Any:
        return next(backends())

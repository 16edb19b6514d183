"""The form for the times of a schedule, with a preview of when it would be due."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any
from zoneinfo import ZoneInfo

from txqueue.errors import ConfigurationError
from txqueue.model.humanize import plain
from txqueue.model.schedule import Cron, Schedule, schedule_object
from txqueue.policy.due_schedules import upcoming
from txqueue.store.reads.queue_state import about_clock
from txqueue.store.reads.schedule_list import about_schedules
from txqueue.web.messages import NOTICE, PageRequest, Reply, redirect
from txqueue.web.page_services import PageServices, marked
from txqueue.web.schedule_form import FIELDS, FilledForm, filled_by, mark_of, read_form

__all__ = ["edit", "edit_form"]

_PREVIEWED = 5


@marked
async def edit_form(services: PageServices, request: PageRequest) -> Reply:
    """Show the times of the schedule that the address names, to be edited."""
    row = await _found(services, request)
    return await _shown(services, request, row, read_form(filled_by(row)), HTTPStatus.OK)


async def edit(services: PageServices, request: PageRequest) -> Reply:
    """Replace the times of a schedule, or show when it would be due; ask again if any is wrong."""
    row = await _found(services, request)
    form = read_form({name: request.sent(name) or "" for name in FIELDS})
    if form.schedule is None:
        return await _shown(services, request, row, form, HTTPStatus.UNPROCESSABLE_ENTITY)
    if request.sent("do") != "save":
        return await _shown(services, request, row, form, HTTPStatus.OK)
    if request.sent("seen") != mark_of(row):
        return await _shown(services, request, row, form, HTTPStatus.CONFLICT)
    name = row["name"]
    arguments = {"name": name, "terms": json.dumps(schedule_object(form.schedule))}
    [is_changed] = await services.act(request, "edit_schedule", arguments)
    outcome = "has new times" if is_changed else "had these times before"
    return redirect("/schedules", {NOTICE: services.notices.put(f"The schedule {name} {outcome}.")})


async def _found(services: PageServices, request: PageRequest) -> dict[str, Any]:
    """Return the schedule that the address names.

    Raises:
        ConfigurationError: When there is none.
    """
    name = request.exact("name") or ""
    rows = await services.reads.find(about_schedules(services.reads.schema, {"name": name}, 1))
    if not rows:
        raise ConfigurationError(
            f"there is no schedule {plain(name)[:200]}", "choose one on the page Schedules"
        )
    return rows[0]


async def _shown(
    services: PageServices,
    request: PageRequest,
    row: Mapping[str, Any],
    form: FilledForm,
    status: HTTPStatus,
) -> Reply:
    now = await services.reads.find(about_clock())
    return services.show(
        "schedule",
        request,
        status,
        schedule=row,
        seen=mark_of(row),
        has_conflict=status is HTTPStatus.CONFLICT,
        form=form,
        moments=[] if form.schedule is None else _preview(form.schedule, row, now),
        now=now,
    )


def _preview(schedule: Schedule, row: Mapping[str, Any], now: datetime) -> list[datetime]:
    """Return the moments at which a schedule would be due next, in its time zone."""
    zone = ZoneInfo(schedule.tz) if isinstance(schedule, Cron) else UTC
    moments = upcoming(
        schedule=schedule, name=row["name"], now=now, most=_PREVIEWED, enqueued=row["enqueued"]
    )
    return [moment.astimezone(zone) for moment in moments]

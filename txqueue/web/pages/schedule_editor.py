"""The times of a schedule as a form: shown, read, checked, with a preview of when it
would be due.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final, TypeVar, cast
from zoneinfo import ZoneInfo

from attrs import define, field

from txqueue.errors import ConfigurationError, InvalidSchedule
from txqueue.model.humanize import length_of, length_text, moment_of, plain
from txqueue.model.operator_acts import ACTS
from txqueue.model.schedule import (
    CatchUp,
    Cooldown,
    Cron,
    Every,
    Overlap,
    Schedule,
    Since,
    schedule_object,
)
from txqueue.policy.schedules import upcoming
from txqueue.store.reads.queue_state import about_clock
from txqueue.store.reads.schedule_list import about_schedules
from txqueue.web.messages import Reply
from txqueue.web.page_services import PageVisit

FIELDS: Final = [
    *("kind", "expression", "zone", "period", "jitter", "catch_up", "overlap", "since"),
    *("until", "times"),
]
"""The fields of the form."""

T = TypeVar("T")
DAY: Final = 86400.0
MIDNIGHT: Final = "0 0 * * *"


class _Kind(StrEnum):
    """The kinds of schedules."""

    CRON = "cron"
    EVERY = "every"
    COOLDOWN = "cooldown"


@define
class FilledForm:
    """The form as it was filled in; reads its fields.

    Attributes:
        fields: The text of each field.
        errors: What is wrong, by field.
        schedule: The schedule that it describes; None if anything is wrong.
    """

    fields: Mapping[str, str]
    errors: dict[str, str] = field(factory=dict)
    schedule: Schedule | None = None

    def read(self, name: str, reader: Callable[[str], T], default: T) -> T:
        """Return the value of a field; the default if it is empty or wrong."""
        if not self.fields[name]:
            return default
        try:
            return reader(self.fields[name])
        except (InvalidSchedule, ValueError) as error:
            self.errors[name] = str(error)
            return default

    def need(self, name: str, reader: Callable[[str], T], default: T) -> T:
        """Return the value of a field that must not be empty."""
        if not self.fields[name]:
            self.errors[name] = "this is needed"
        return self.read(name, reader, default)


def filled_by(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the fields that describe the times of a schedule.

    Args:
        row: The schedule, as `about_schedules` returns it.
    """
    return {
        "kind": row["kind"],
        "expression": row["expression"] or "",
        "zone": row["zone"] or "UTC",
        "period": "" if row["seconds"] is None else length_text(row["seconds"]),
        "jitter": length_text(row["jitter"]) if row["jitter"] else "",
        "catch_up": row["catch_up"],
        "overlap": row["overlap"],
        "since": row["since"],
        "until": "" if row["until"] is None else row["until"].isoformat(" "),
        "times": "" if row["times"] is None else str(row["times"]),
    }


def mark_of(row: Mapping[str, Any]) -> str:
    """Return a short text that changes with the times of a schedule, to notice other editors."""
    return blake2b(json.dumps(filled_by(row)).encode(), digest_size=8).hexdigest()


def read_form(fields: Mapping[str, str]) -> FilledForm:
    """Read and check a form.

    Args:
        fields: The text of each of `FIELDS`.
    """
    form = FilledForm(fields)
    try:
        schedule = _schedule(form)
        form.schedule = None if form.errors else schedule
    except InvalidSchedule as error:
        # Every other field was checked on its own: the limit of the jitter depends on the period.
        if not form.errors:
            form.errors["jitter"] = str(error)
    return form


def _schedule(form: FilledForm) -> Schedule:
    kind = form.need("kind", _Kind, _Kind.CRON)
    jitter = form.read("jitter", length_of, timedelta(0))
    options: dict[str, Any] = {
        "until": form.read("until", moment_of, None),
        "times": form.read("times", _times, None),
    }
    if kind is _Kind.COOLDOWN:
        since: Since = form.read(
            "since", lambda text: Cooldown(DAY, since=cast(Since, text)).since, "end"
        )
        return Cooldown(form.need("period", _period, DAY), jitter, since=since, **options)
    catch_up = form.read("catch_up", CatchUp, CatchUp.SKIP)
    options["overlap"] = form.read(
        "overlap", lambda text: Every(DAY, overlap=cast(Overlap, text)).overlap, "allow"
    )
    if kind is _Kind.EVERY:
        return Every(form.need("period", _period, DAY), jitter, catch_up, **options)
    expression = form.need("expression", lambda text: Cron(text).expression, MIDNIGHT)
    zone = form.read("zone", lambda text: Cron(MIDNIGHT, text).tz, "UTC")
    return Cron(expression, zone, jitter, catch_up, **options)


def _period(text: str) -> float:
    return Every(length_of(text)).seconds


def _times(text: str) -> int | None:
    number: Any = int(text) if text.isdecimal() and len(text) < 12 else text
    return Every(DAY, times=number).times


_PREVIEWED = 5


async def edit_form(visit: PageVisit) -> Reply:
    """Show the times of the schedule that the address names, to be edited."""
    row = await _found(visit)
    return await _shown(visit, row, read_form(filled_by(row)), HTTPStatus.OK)


async def edit(visit: PageVisit) -> Reply:
    """Replace the times of a schedule, or show when it would be due; ask again if any is wrong."""
    row = await _found(visit)
    form = read_form({name: visit.request.sent(name) or "" for name in FIELDS})
    if form.schedule is None:
        return await _shown(visit, row, form, HTTPStatus.UNPROCESSABLE_ENTITY)
    if visit.request.sent("do") != "save":
        return await _shown(visit, row, form, HTTPStatus.OK)
    if visit.request.sent("seen") != mark_of(row):
        return await _shown(visit, row, form, HTTPStatus.CONFLICT)
    name = row["name"]
    arguments = {"name": name, "terms": json.dumps(schedule_object(form.schedule))}
    [is_changed] = await visit.act("edit_schedule", arguments)
    text = ACTS["edit_schedule"].told(f"The schedule {name}", is_changed=is_changed)
    return visit.told(text, "/schedules")


async def _found(visit: PageVisit) -> dict[str, Any]:
    """Return the schedule that the address names.

    Raises:
        ConfigurationError: When there is none.
    """
    name = visit.request.exact("name") or ""
    rows = await visit.find(about_schedules, {"name": name}, 1)
    if not rows:
        raise ConfigurationError(
            f"there is no schedule {plain(name)[:200]}", "choose one on the page Schedules"
        )
    return rows[0]


async def _shown(
    visit: PageVisit, row: Mapping[str, Any], form: FilledForm, status: HTTPStatus
) -> Reply:
    now = await visit.find(about_clock)
    return visit.show(
        "schedule",
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

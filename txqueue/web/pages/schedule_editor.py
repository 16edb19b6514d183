"""The times of a schedule as a form: shown, read, checked, with a preview of when it
would be due.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final, cast
from zoneinfo import ZoneInfo

import attrs
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

DAY: Final = 86400.0
_KINDS: Final[Mapping[str, Any]] = {"cron": Cron, "every": Every, "cooldown": Cooldown}


def _times(text: str) -> int | None:
    number: Any = int(text) if text.isdecimal() and len(text) < 12 else text
    return Every(DAY, times=number).times


# The argument of a schedule that each field gives, and what reads its text.
_READERS: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "expression": ("expression", lambda text: Cron(text).expression),
    "zone": ("tz", lambda text: Cron("0 0 * * *", text).tz),
    "period": ("seconds", lambda text: Every(length_of(text)).seconds),
    "jitter": ("jitter", length_of),
    "catch_up": ("catch_up", CatchUp),
    "overlap": ("overlap", lambda text: Every(DAY, overlap=cast(Overlap, text)).overlap),
    "since": ("since", lambda text: Cooldown(DAY, since=cast(Since, text)).since),
    "until": ("until", moment_of),
    "times": ("times", _times),
}
_NEEDED: Final = ("expression", "period")
FIELDS: Final = ["kind", *_READERS]
"""The fields of the form."""


@define
class FilledForm:
    """The form as it was filled in.

    Attributes:
        fields: The text of each field.
        errors: What is wrong, by field.
        schedule: The schedule that it describes; None if anything is wrong.
    """

    fields: Mapping[str, str]
    errors: dict[str, str] = field(factory=dict)
    schedule: Schedule | None = None


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
    if fields["kind"] not in _KINDS:
        form.errors["kind"] = "this is needed"
    kind = _KINDS.get(fields["kind"], Cron)
    values = _values(form, {argument.name for argument in attrs.fields(kind)})
    if not form.errors:
        try:
            form.schedule = kind(**values)
        except InvalidSchedule as error:
            # Each field was checked on its own, but the limit of the jitter depends on the period.
            form.errors["jitter"] = str(error)
    return form


def _values(form: FilledForm, taken: Collection[str]) -> dict[str, Any]:
    """Return the arguments of a schedule that the form gives; note what is wrong."""
    values: dict[str, Any] = {"jitter": timedelta(0)}
    for name, (argument, read) in _READERS.items():
        text = form.fields[name] if argument in taken else None
        if text == "" and name in _NEEDED:
            form.errors[name] = "this is needed"
        elif text:
            try:
                values[argument] = read(text)
            except (InvalidSchedule, ValueError) as error:
                form.errors[name] = str(error)
    return values


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

"""The times of a schedule as the fields of a form, without I/O: shown, read and checked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, TypeVar, cast

from attrs import field, frozen

from txqueue.errors import InvalidSchedule
from txqueue.model.schedule import CatchUp, Cooldown, Cron, Every, Overlap, Schedule, Since
from txqueue.model.time_text import length_of, length_text, moment_of

__all__ = ["FIELDS", "FilledForm", "filled_by", "mark_of", "read_form"]

FIELDS: Final = [
    *("kind", "expression", "zone", "period", "jitter", "catch_up", "overlap", "since"),
    *("until", "times"),
]
"""The fields of the form."""

T = TypeVar("T")
DAY: Final = 86400.0


class _Kind(StrEnum):
    """The kinds of schedules."""

    CRON = "cron"
    EVERY = "every"
    COOLDOWN = "cooldown"


@frozen
class FilledForm:
    """The form as it was filled in.

    Attributes:
        fields: The text of each field.
        errors: What is wrong, by field.
        schedule: The schedule that it describes; None if anything is wrong.
    """

    fields: Mapping[str, str]
    errors: Mapping[str, str]
    schedule: Schedule | None


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
    reading, schedule = _Reading(fields), None
    try:
        schedule = _schedule(reading)
    except InvalidSchedule as error:
        # Every other field was checked on its own: the limit of the jitter depends on the period.
        if not reading.errors:
            reading.errors["jitter"] = str(error)
    return FilledForm(fields, reading.errors, None if reading.errors else schedule)


@frozen
class _Reading:
    """Reads the fields of a form, and notes what is wrong with them."""

    fields: Mapping[str, str]
    errors: dict[str, str] = field(factory=dict)

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


def _schedule(form: _Reading) -> Schedule:
    kind = form.need("kind", _Kind, _Kind.CRON)
    jitter = form.read("jitter", length_of, timedelta(0))
    options: dict[str, Any] = {
        "until": form.read("until", moment_of, None),
        "times": form.read("times", _times, None),
    }
    if kind is _Kind.COOLDOWN:
        since: Since = form.read("since", _since, "end")
        return Cooldown(form.need("period", _period, DAY), jitter, since=since, **options)
    catch_up = form.read("catch_up", CatchUp, CatchUp.SKIP)
    options["overlap"] = form.read("overlap", _overlap, "allow")
    if kind is _Kind.EVERY:
        return Every(form.need("period", _period, DAY), jitter, catch_up, **options)
    expression = form.need("expression", _expression, "0 0 * * *")
    return Cron(expression, form.read("zone", _zone, "UTC"), jitter, catch_up, **options)


def _expression(text: str) -> str:
    return Cron(text).expression


def _since(text: str) -> Since:
    return Cooldown(DAY, since=cast(Since, text)).since


def _overlap(text: str) -> Overlap:
    return Every(DAY, overlap=cast(Overlap, text)).overlap


def _zone(text: str) -> str:
    return Cron("0 0 * * *", text).tz


def _period(text: str) -> float:
    return Every(length_of(text)).seconds


def _times(text: str) -> int | None:
    number: Any = int(text) if text.isdecimal() and len(text) < 12 else text
    return Every(DAY, times=number).times

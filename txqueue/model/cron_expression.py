"""Reads cron expressions, and computes their times in a zone, over changes of its clocks too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

__all__ = ["cron_times", "find_cron_fault"]

HOURS_A_DAY: Final = 24
SECOND: Final = timedelta(seconds=1)
# A range with a step. CronSim continues a range of a single value to the end of its field.
_STEPPED: Final = re.compile(r"(\d+|[A-Z]{3})-(\d+|[A-Z]{3})/0*[1-9]\d*")
_DAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_MONTHS: Final = (
    *("JAN", "FEB", "MAR", "APR", "MAY", "JUN"),
    *("JUL", "AUG", "SEP", "OCT", "NOV", "DEC"),
)
_NUMBERS: Final = {
    **{name: str(number) for number, name in enumerate(_DAYS)},
    **{name: str(number) for number, name in enumerate(_MONTHS, 1)},
}

_NICKNAMES: Final = {
    **dict.fromkeys(("@yearly", "@annually"), "0 0 1 1 *"),
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    **dict.fromkeys(("@daily", "@midnight"), "0 0 * * *"),
    "@hourly": "0 * * * *",
}


def find_cron_fault(expression: object) -> str | None:
    """Return why a value is not a cron expression; None if it is one."""
    if not isinstance(expression, str):
        return "it must have five fields"
    fields = expression.split()
    if meant := _NICKNAMES.get(expression.strip().lower()):
        return f"it must have five fields; {expression.strip()} is {meant!r}"
    if len(fields) != 5:
        return "it must have five fields"
    if "?" in fields:
        return f"there is no ?; write {expression.replace('?', '*')!r}"
    fault = _simulated_fault(expression)
    # CronSim calls the day bad, too, which is one in other months.
    if fault == "Bad day-of-month" and not _simulated_fault(_in_all_months(fields)):
        return "it never comes: none of its months has such a day"
    return fault


def _in_all_months(fields: list[str]) -> str:
    minute, hour, day, _, weekday = fields
    return f"{minute} {hour} {day} * {weekday}"


def _simulated_fault(expression: str) -> str | None:
    try:
        next(_simulated(expression, datetime(2000, 1, 1)))
    except CronSimError as error:
        return str(error)
    except (StopIteration, ValueError):
        # Python refuses to read numbers of thousands of digits.
        return "it has no moments"
    return None


def cron_times(expression: str, zone: ZoneInfo, moment: datetime) -> Iterator[datetime]:
    """Yield the times of an expression after a moment, in UTC, in order.

    An expression that names hours has each of its times once: one that the clocks leave out
    comes right after the gap, one that the clocks show twice comes the first time. An expression
    for every hour has each time that the clocks show.
    """
    clock = _simulated(expression, _start(moment.astimezone(zone)))
    times = _every_hour(clock, zone) if len(clock.hours) == HOURS_A_DAY else _once(clock, zone)
    last = moment
    for time in times:
        if time > last:
            yield time
            last = time


def _simulated(expression: str, start: datetime) -> CronSim:
    return CronSim(" ".join(map(_field, expression.upper().split())), start)


def _field(text: str) -> str:
    """Return a field with ``9`` for ``9-9/2``."""
    return ",".join(map(_term, text.split(",")))


def _term(text: str) -> str:
    stepped = _STEPPED.fullmatch(text)
    if stepped is None:
        return text
    first, last = (_NUMBERS.get(number, number).lstrip("0") for number in stepped.groups())
    return stepped[1] if first == last else text


def _start(local: datetime) -> datetime:
    """Return the local time from which to search, as clocks that are set back show it again."""
    repetition = _offset(local, 0) - _offset(local, 1)
    repeated = repetition if local.fold == 0 and repetition > timedelta(0) else timedelta(0)
    return local.replace(tzinfo=None, fold=0) - repeated


def _offset(local: datetime, fold: int) -> timedelta:
    return local.replace(fold=fold).utcoffset() or timedelta(0)


def _passes(local: datetime, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Return when the clocks show a local time for the first and for the last time, in UTC.

    The first is later than the last if the clocks leave that time out: the two enclose the gap.
    """
    first, last = (local.replace(tzinfo=zone, fold=fold).astimezone(UTC) for fold in (0, 1))
    return first, last


def _once(clock: Iterator[datetime], zone: ZoneInfo) -> Iterator[datetime]:
    for local in clock:
        first, last = _passes(local, zone)
        yield first if first <= last else _end_of_gap(last, first, zone)


def _end_of_gap(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """Return the moment between two at which the clocks are set forward."""
    offset = before.astimezone(zone).utcoffset()
    while after - before > SECOND:
        middle = before + (after - before) // SECOND // 2 * SECOND
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            after = middle
    return after


def _every_hour(clock: Iterator[datetime], zone: ZoneInfo) -> Iterator[datetime]:
    repeated: list[datetime] = []
    for local in clock:
        first, last = _passes(local, zone)
        if first > last:
            continue
        while repeated and repeated[0] < first:
            yield repeated.pop(0)
        yield first
        if last > first:
            repeated.append(last)
    yield from repeated

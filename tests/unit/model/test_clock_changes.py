"""Cron expressions over the clock changes of 2026, compared with an oracle that walks minutes."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise, takewhile
from typing import Final
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.model.schedule import Cron

MINUTE: Final = timedelta(minutes=1)
AROUND: Final = timedelta(hours=30)
ZONES: Final = (
    "Europe/Berlin",
    "America/New_York",
    "Australia/Lord_Howe",
    "America/St_Johns",
    "America/Santiago",
)
# Half hours, two hours, and the same clocks as Berlin's on the other side of midnight.
MORE_ZONES: Final = (*ZONES, "Antarctica/Troll", "Africa/Cairo", "Atlantic/Azores")
EXPRESSIONS: Final = (
    "* * * * *",
    "*/5 * * * *",
    "*/7 * * * *",
    "*/30 * * * *",
    "0 * * * *",
    "15 * * * *",
    "30 * * * *",
    "45 * * * *",
    "59 * * * *",
    "10-50/20 * * * *",
    "0 */1 * * *",
    "0 0-23 * * *",
    "15,45 0-11,12-23 * * *",
    "* 2 * * *",
    "* */2 * * *",
    "*/30 2 * * *",
    "*/30 1,2,3 * * *",
    "*/20 23,0 * * *",
    "*/15 */3 * * *",
    "0-59 1 * * *",
    "0 */2 * * *",
    "0 1-23/2 * * *",
    "30 */2 * * *",
    "45 */4 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "0 1 * * *",
    "30 1 * * *",
    "45 1 * * *",
    "0 2 * * *",
    "15 2 * * *",
    "30 2 * * *",
    "59 2 * * *",
    "0 3 * * *",
    "30 23 * * *",
    "0 0 * * SUN",
    "30 2 * * 7",
    "30 23 * * 6",
    "*/30 2 5,8,29 * *",
    "0 0,2,23 1-7 4,9,10,11 *",
    "15 1-3 25 10 MON",
    "30 9/2 * * *",
)
LIMITS: Final = ((0, 59), (0, 23), (1, 31), (1, 12), (0, 7))
NAMES: Final = {"SUN": "0", "MON": "1"}


def values_of(field: str, least: int, most: int) -> set[int]:
    """The numbers that a field names, read without the library."""
    found: set[int] = set()
    for term in field.split(","):
        span, _, step = term.partition("/")
        first, _, last = span.partition("-")
        low = least if first == "*" else int(NAMES.get(first, first))
        high = most if first == "*" else int(last or (most if step else low))
        found.update(range(low, high + 1, int(step or 1)))
    return found


@cache
def fields_of(expression: str) -> tuple[set[int], ...]:
    """The numbers of each field."""
    fields = zip(expression.split(), LIMITS, strict=True)
    return tuple(values_of(field, *limits) for field, limits in fields)


def matches(expression: str, local: datetime) -> bool:
    """Whether an expression names what the clocks show."""
    minutes, hours, days, months, weekdays = fields_of(expression)
    day, weekday = expression.split()[2], expression.split()[4]
    fits_day = local.day in days
    fits_weekday = bool({local.isoweekday(), local.isoweekday() % 7} & weekdays)
    is_both = day.startswith("*") or weekday.startswith("*")
    fits = (fits_day and fits_weekday) if is_both else (fits_day or fits_weekday)
    return fits and local.month in months and local.hour in hours and local.minute in minutes


@cache
def changes(zone: str) -> tuple[datetime, ...]:
    """The moments of 2026 at which the clocks of a zone are changed."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    hours = [start + timedelta(hours=hour) for hour in range(365 * 24)]
    found = []
    for before, after in pairwise(hours):
        if shown(before, zone) + timedelta(hours=1) != shown(after, zone):
            found.append(next(at for at, _, step in walk(zone, before, after) if step != MINUTE))
    return tuple(found)


def shown(moment: datetime, zone: str) -> datetime:
    """What the clocks show."""
    return moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)


def walk(
    zone: str, start: datetime, end: datetime
) -> Iterator[tuple[datetime, datetime, timedelta]]:
    """Each minute after the start, what the clocks show, and how far they moved."""
    at, before = start, shown(start, zone)
    while at < end:
        at += MINUTE
        local = shown(at, zone)
        yield at, local, local - before
        before = local


@cache
def walked(
    zone: str, start: datetime, end: datetime
) -> tuple[tuple[datetime, datetime, timedelta], ...]:
    """The same, once for all expressions."""
    return tuple(walk(zone, start, end))


def promised(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The moments that the documentation promises."""
    is_every_hour = len(fields_of(expression)[1]) == 24
    found, seen = [], set()
    for at, local, moved in walked(zone, start, end):
        skipped = [local - MINUTE * number for number in range(1, moved // MINUTE)]
        made_up = not is_every_hour and any(matches(expression, each) for each in skipped)
        is_repeated = local in seen and not is_every_hour
        if made_up or (matches(expression, local) and not is_repeated):
            found.append(at)
        seen.add(local)
    return found


def computed(expression: str, zone: str, start: datetime, end: datetime) -> list[datetime]:
    """The moments of the schedule, each computed from the one before."""

    def following() -> Iterator[datetime]:
        moment = cron.after(start, "x")
        while moment is not None:
            yield moment
            moment = cron.after(moment, "x")

    cron = Cron(expression, tz=zone)
    return list(takewhile(lambda moment: moment <= end, following()))


def test_the_zones_change_their_clocks_twice() -> None:
    """By an hour, or by half an hour."""
    assert [len(changes(zone)) for zone in ZONES] == [2] * len(ZONES)
    assert len(EXPRESSIONS) >= 40


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_cron_keeps_its_promise_when_clocks_change(expression: str, zone: str) -> None:
    """All moments from a day before each change to a day after."""
    for change in changes(zone):
        window = change - AROUND, change + AROUND
        assert computed(expression, zone, *window) == promised(expression, zone, *window)


fields = st.sampled_from(["*", "*/2", "*/30", "0", "1", "2", "3", "15", "23", "0-23", "1-3"])
hours = fields.filter(lambda text: text not in ("*/30",))


@given(
    fields,
    hours,
    st.sampled_from(MORE_ZONES),
    st.integers(0, 1),
    st.floats(-26, 26),
)
def test_the_next_moment_is_the_same_from_wherever_it_is_computed(
    minute: str, hour: str, zone: str, which: int, hours_off: float
) -> None:
    """Between the two passes of a repeated time, too."""
    expression = f"{minute} {hour} * * *"
    change = changes(zone)[which]
    window = change - AROUND, change + AROUND
    moment = change + timedelta(hours=hours_off)
    following = next((each for each in promised(expression, zone, *window) if each > moment), None)
    found = Cron(expression, tz=zone).after(moment, "x")
    assert found == following or (following is None and found is not None and found > window[1])

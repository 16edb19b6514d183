"""When schedules are due, by pure functions of a schedule and its name; cron expressions over
changes of the clocks.

The due times of a schedule are a fixed sequence, jitter included: every host computes the same.
Only a cool-down's next due time is unknown until its job has ended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

import attrs
from attrs import field, frozen
from cronsim import CronSim, CronSimError

from txqueue.errors import InvalidSchedule
from txqueue.model.humanize import brief, length_text
from txqueue.model.storable import is_number, is_whole

HOURS_A_DAY: Final = 24
SECOND: Final = timedelta(seconds=1)

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
    in_all_months = " ".join([*fields[:3], "*", fields[4]])
    if fault == "Bad day-of-month" and not _simulated_fault(in_all_months):
        return "it never comes: none of its months has such a day"
    return fault


def _simulated_fault(expression: str) -> str | None:
    try:
        next(CronSim(expression, datetime(2000, 1, 1)))
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
    clock = CronSim(expression, _start(moment.astimezone(zone)))
    times = _every_hour(clock, zone) if len(clock.hours) == HOURS_A_DAY else _once(clock, zone)
    last = moment
    for time in times:
        if time > last:
            yield time
            last = time


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


# Files beside those of the IANA's zones, which another host has not, or with another content.
_OF_THE_HOST: Final = re.compile(r"|localtime|posixrules|posix/.*|right/.*", re.DOTALL)
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
# Of a period or a fraction of it: a larger number would overflow later.
_LARGEST: Final = 1e300
TICK: Final = timedelta(microseconds=1)
SHORTEST, LONGEST = 1.0, 366 * 86400.0
MOST_TIMES: Final = 1_000_000_000
MOST_DELAY: Final = timedelta(hours=1)
"""The largest jitter of a cron schedule; jitter may change the order of due times that are close.
"""


class CatchUp(StrEnum):
    """What to do about due times that passed while no node was running."""

    SKIP = "skip"
    """Enqueue no job for the missed due times."""
    ONE = "one"
    """Enqueue one job for all missed due times together."""
    ALL = "all"
    """Enqueue a job for each missed due time."""


def seconds_of(value: object) -> Any:
    """Return a timedelta in seconds, and anything else unchanged."""
    return value.total_seconds() if isinstance(value, timedelta) else value


def _shown(value: object) -> str:
    """Return a length of time as people write it; anything else as Python does, shortened."""
    if isinstance(value, timedelta):
        return length_text(value.total_seconds())
    return f"{value:g} s" if is_number(value, _LARGEST) else brief(value)


Overlap: TypeAlias = Literal["allow", "skip"]
Since: TypeAlias = Literal["start", "end"]


def _catch_up(value: str) -> CatchUp:
    try:
        return CatchUp(value)
    except ValueError:
        known = ", ".join(CatchUp)
        raise InvalidSchedule(
            f"catch_up {brief(value)} is not known", f"use one of {known}"
        ) from None


def _period(_: object, __: attrs.Attribute[float], value: Any) -> None:
    if not is_number(value, _LARGEST) or not SHORTEST <= value <= LONGEST:
        raise InvalidSchedule(
            f"a period of {_shown(value)} is not between a second and {LONGEST / 86400:g} days",
            "give seconds or a timedelta; for shorter periods, write one job that loops",
        )


def _jitter_of(value: float | timedelta, seconds: float, most: float) -> timedelta:
    """Return jitter as a timedelta; if given as a number, it is a fraction of the period."""
    length = value if isinstance(value, timedelta) else None
    if length is None and is_number(value, _LARGEST):
        length = timedelta(seconds=seconds * float(seconds_of(value)))
    if length is None or not timedelta(0) <= length <= timedelta(seconds=seconds * most):
        shown = f"{value:g}" if is_number(value, _LARGEST) else _shown(value)
        raise InvalidSchedule(
            f"a jitter of {shown} is not within 0 to {most:g} of the period",
            "give a fraction such as 0.1, or a timedelta",
        )
    return length


def _aware(_: object, __: attrs.Attribute[datetime | None], value: object) -> None:
    if value is not None and (not isinstance(value, datetime) or value.utcoffset() is None):
        raise InvalidSchedule(
            f"until={brief(value)} is not a datetime with a time zone",
            "give one such as datetime(2027, 1, 1, tzinfo=UTC)",
        )


def _count(_: object, __: attrs.Attribute[int | None], value: object) -> None:
    if value is not None and not is_whole(value, 1, MOST_TIMES):
        raise InvalidSchedule(
            f"times={brief(value)} is not a whole number from 1 to {MOST_TIMES:,}",
            "give the total number of jobs, or leave it out",
        )


def _one_of(*known: str) -> Callable[[object, attrs.Attribute[str], object], None]:
    def check(_: object, attribute: attrs.Attribute[str], value: object) -> None:
        if value not in known:
            raise InvalidSchedule(
                f"{attribute.name}={brief(value)} is not known", f"use one of {', '.join(known)}"
            )

    return check


@frozen(kw_only=True)
class _Ending:
    """The limits after which a schedule ends; the database enforces them for all nodes."""

    until: datetime | None = field(default=None, validator=_aware)
    times: int | None = field(default=None, validator=_count)


@frozen(kw_only=True)
class _Overlapping(_Ending):
    """A schedule whose next job does not wait for the end of the last one."""

    overlap: Overlap = field(default="allow", validator=_one_of("allow", "skip"))


@frozen
class Every(_Overlapping):
    """A schedule that is due at even intervals.

    Each schedule has a phase that depends on its name, so that many schedules are spread over the
    interval; jitter makes each due time a little earlier or later.

    Attributes:
        seconds: The interval, at least a second; a number or a timedelta.
        jitter: How much earlier or later each due time may be: a fraction of the interval, at
            most 0.5, or a timedelta.
        catch_up: What to do about missed due times: ``skip``, ``one`` or ``all``.
        overlap: ``skip`` enqueues no job for a due time at which the last job has not ended.
        until: The latest time at which the schedule may be due; None for no end.
        times: How many jobs the schedule enqueues in all, not counting `run_now`; None for no
            limit.

    Raises:
        InvalidSchedule: When a value is not valid.
    """

    seconds: float = field(converter=seconds_of, validator=_period)
    jitter: float | timedelta = 0.0
    catch_up: CatchUp = field(default=CatchUp.SKIP, converter=_catch_up)

    def __attrs_post_init__(self) -> None:
        _jitter_of(self.jitter, self.seconds, 0.5)

    def after(self, moment: datetime, name: str) -> datetime:
        """Return the first due time after the given moment."""
        period, ticks = round(self.seconds * 1e6), (moment - EPOCH) // TICK
        jitter = _jitter_of(self.jitter, self.seconds, 0.5) // TICK
        phase = int(_chance(name) * period)
        number = (ticks - phase - jitter) // period
        while True:
            offset = int(jitter * (2 * _chance(name, number) - 1)) if jitter else 0
            if (tick := phase + number * period + offset) > ticks:
                return EPOCH + tick * TICK
            number += 1


@frozen
class Cooldown(_Ending):
    """A schedule that is due a fixed time after its last job has ended, however that job ended.

    The first job comes within that time, at a moment that depends on the name, so that schedules
    which are made together do not start together.

    Attributes:
        seconds: The time between the end of a job and the start of the next, at least a second;
            a number or a timedelta.
        jitter: How much longer that time may be: a fraction of it, at most 1, or a timedelta.
        since: ``start`` counts that time from the start of the job's last run instead; the next job
            still waits for its end.
        until: The latest time at which the schedule may be due; None for no end.
        times: How many jobs the schedule enqueues in all, not counting `run_now`; None for no
            limit.

    Raises:
        InvalidSchedule: When a value is not valid.
    """

    seconds: float = field(converter=seconds_of, validator=_period)
    jitter: float | timedelta = 0.0
    since: Since = field(default="end", validator=_one_of("start", "end"), kw_only=True)

    def __attrs_post_init__(self) -> None:
        _jitter_of(self.jitter, self.seconds, 1)

    def after(self, moment: datetime, name: str) -> datetime:
        """Return when to run next while the schedule has no job, whose end would decide that."""
        return moment + timedelta(seconds=self.seconds) * _chance(name, moment)


def _zone(value: object) -> str:
    name = str(value)
    with suppress(KeyError, OSError, ValueError):
        if _OF_THE_HOST.fullmatch(name) is None:
            return ZoneInfo(name).key
    raise InvalidSchedule(
        f"there is no time zone {brief(value)}", "use a name such as Europe/Berlin or UTC"
    )


def zoned(moment: datetime, zone: object) -> datetime:
    """Return a moment in a time zone; in UTC if there is no such zone."""
    try:
        return moment.astimezone(UTC if zone is None else ZoneInfo(str(zone)))
    except (KeyError, OSError, ValueError):
        return moment.astimezone(UTC)


def _delay(_: object, __: attrs.Attribute[timedelta], value: object) -> None:
    if not isinstance(value, timedelta) or not timedelta(0) <= value <= MOST_DELAY:
        raise InvalidSchedule(
            f"a jitter of {_shown(value)} is not a timedelta of up to an hour",
            "give one such as timedelta(minutes=5); a fraction needs a period, and cron has none",
        )


@frozen
class Cron(_Overlapping):
    """A schedule that is due at the times of a cron expression, in a time zone.

    An expression that names hours has each of its times once: when clocks are set forward, times
    within the skipped hour are due right after it, as one; when clocks are set back, repeated times
    are due the first time. An expression for every hour is due whenever the clocks match it.

    Attributes:
        expression: Minute, hour, day of month, month, day of week, as in Debian's cron.
        tz: The time zone's name.
        jitter: How much later than the expression says each due time may be: a timedelta.
        catch_up: What to do about missed due times: ``skip``, ``one`` or ``all``.
        overlap: ``skip`` enqueues no job for a due time at which the last job has not ended.
        until: The latest time at which the schedule may be due; None for no end.
        times: How many jobs the schedule enqueues in all, not counting `run_now`; None for no
            limit.

    Raises:
        InvalidSchedule: When a value is not valid.
    """

    expression: str = field()
    tz: str = field(default="UTC", converter=_zone)
    jitter: timedelta = field(default=timedelta(0), validator=_delay)
    catch_up: CatchUp = field(default=CatchUp.SKIP, converter=_catch_up)

    @expression.validator
    def _check(self, _: attrs.Attribute[str], value: object) -> None:
        if fault := find_cron_fault(value):
            raise InvalidSchedule(
                f"{brief(value)} is not a cron expression: {fault}",
                "write minute, hour, day of month, month and day of week, as in '0 3 * * *'",
            )

    def after(self, moment: datetime, name: str) -> datetime | None:
        """Return the first due time after the given moment; None if there is none."""
        best: datetime | None = None
        zone = ZoneInfo(self.tz)
        for sharp in cron_times(self.expression, zone, moment - self.jitter - TICK):
            if best is not None and sharp >= best:
                break
            at = sharp + self.jitter * _chance(name, sharp) if self.jitter else sharp
            if at > moment and (best is None or at < best):
                best = at
        return best


Schedule: TypeAlias = Every | Cooldown | Cron


def _as_sql_text(value: object) -> str:
    """Return a value as PostgreSQL writes it: ``true`` for True."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _text(_: object, attribute: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidSchedule(
            f"{attribute.name} of an Exists is {brief(value)}, not a name",
            "write Exists('public.active_project', 'id', 5)",
        )


@frozen
class Exists:
    """A schedule's condition: a table or view of the application has a row with a value.

    Attributes:
        table: The table or view with its schema, as in ``public.active_project``.
        column: The column.
        value: The value to look for, compared as the column's type.

    Raises:
        InvalidSchedule: When the table or the column is no name.
    """

    table: str = field(validator=_text)
    column: str = field(validator=_text)
    value: str = field(converter=_as_sql_text)


def schedule_of(row: Mapping[str, Any]) -> Schedule:
    """Return the schedule that a row describes.

    Raises:
        InvalidSchedule: When the row is not a valid schedule.
    """
    kind, jitter = row["kind"], timedelta(seconds=row["jitter"])
    if kind == "every":
        return Every(row["seconds"], jitter, row["catch_up"])
    if kind == "cooldown":
        return Cooldown(row["seconds"], jitter, since=row.get("since", "end"))
    return Cron(row["expression"], row["zone"], jitter, row["catch_up"])


_LEFT_OUT: Final = {"overlap": "allow", "since": "end"}


def schedule_object(schedule: Schedule) -> dict[str, Any]:
    """Return a schedule as an object, as ``put_schedule()`` takes it and `schedule_of` reads it."""
    terms = {"kind": type(schedule).__name__.lower(), **attrs.asdict(schedule)}
    if isinstance(schedule, Cron):
        jitter, terms["zone"] = schedule.jitter, terms.pop("tz")
    else:
        most = 0.5 if isinstance(schedule, Every) else 1
        jitter = _jitter_of(schedule.jitter, schedule.seconds, most)
        terms["seconds"] = float(schedule.seconds)
    terms["jitter"] = jitter.total_seconds()
    terms["until"] = schedule.until and schedule.until.isoformat()
    return {
        name: value
        for name, value in terms.items()
        if value is not None and value != _LEFT_OUT.get(name)
    }


def _chance(*parts: object) -> float:
    """Return a number in [0, 1) that looks random and is the same on every host."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=6).digest()) / 2**48

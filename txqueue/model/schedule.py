"""When recurring work is due: moments as pure functions of a schedule and a name.

The moments of a schedule are a fixed sequence, jitter included: every host computes the same.
Only a cool-down has none before the job it waits for has ended.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import attrs
from attrs import field, frozen
from cronsim import CronSim, CronSimError

from txqueue.errors import InvalidSchedule

__all__ = [
    "CatchUp",
    "Cooldown",
    "Cron",
    "Every",
    "Exists",
    "Plan",
    "Schedule",
    "plan",
    "schedule_of",
    "terms_of",
]

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
TICK: Final = timedelta(microseconds=1)
GRACE: Final = timedelta(minutes=1)
"""A moment that is later than this is missed; until then the tick is just a little late."""
MOST_MISSED: Final = 100
"""So many missed moments are made up for at a time; the others come with the next tick."""
SHORTEST, LONGEST = 1.0, 366 * 86400.0
MOST_TIMES: Final = 1_000_000_000
MOST_DELAY: Final = timedelta(hours=1)
"""Jitter of a cron schedule may make later moments overtake earlier ones, within this."""


class CatchUp(StrEnum):
    """What becomes of moments that passed while no node was there."""

    SKIP = "skip"
    """Nothing; the next moment counts again."""
    ONE = "one"
    """One job for all of them."""
    ALL = "all"
    """A job for each."""


def _seconds(value: object) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else value


def _catch_up(value: str) -> CatchUp:
    try:
        return CatchUp(value)
    except ValueError:
        known = ", ".join(CatchUp)
        raise InvalidSchedule(f"catch_up {value!r} is not known", f"use one of {known}") from None


def _period(_: object, __: attrs.Attribute[float], value: Any) -> None:
    if not _is_number(value) or not SHORTEST <= value <= LONGEST:
        raise InvalidSchedule(
            f"a period of {value!r} s is not between a second and {LONGEST / 86400:g} days",
            "give seconds or a timedelta; what runs more often is better one job that goes on",
        )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _jitter_of(value: float | timedelta, seconds: float, most: float) -> timedelta:
    """Return jitter as a length of time; a number is a fraction of the period."""
    length = value if isinstance(value, timedelta) else None
    if length is None and _is_number(value):
        length = timedelta(seconds=seconds * float(_seconds(value)))
    if length is None or not timedelta(0) <= length <= timedelta(seconds=seconds * most):
        raise InvalidSchedule(
            f"a jitter of {value!r} is not within 0 to {most:g} of the period",
            "give a fraction such as 0.1, or a timedelta",
        )
    return length


def _aware(_: object, __: attrs.Attribute[datetime | None], value: object) -> None:
    if value is not None and (not isinstance(value, datetime) or value.tzinfo is None):
        raise InvalidSchedule(
            f"until={value!r} is not a datetime with a time zone",
            "give one such as datetime(2027, 1, 1, tzinfo=UTC)",
        )


def _count(_: object, __: attrs.Attribute[int | None], value: object) -> None:
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if value is not None and not (is_count and 1 <= int(str(value)) <= MOST_TIMES):
        raise InvalidSchedule(
            f"times={value!r} is not a whole number from 1 to {MOST_TIMES:,}",
            "give how many jobs there are to be in all, or leave it out",
        )


@frozen(kw_only=True)
class _Ending:
    """When a schedule is over: the database sees to it, whatever nodes tick."""

    until: datetime | None = field(default=None, validator=_aware)
    times: int | None = field(default=None, validator=_count)


@frozen
class Every(_Ending):
    """At even intervals. Each schedule has a phase of its own, by its name, so that many are spread
    over the interval; with jitter, each moment is moved a little either way.

    Attributes:
        seconds: The interval, at least a second; a timedelta will do.
        jitter: By how much a moment may come before or after its time: a fraction of the interval,
            at most 0.5, or a timedelta.
        catch_up: What becomes of missed moments: ``skip``, ``one`` or ``all``.
        until: The last moment at which it may be due; None for no end.
        times: How many jobs it enqueues in all, not counting those of `run_now`; None for no end.

    Raises:
        InvalidSchedule: When a value is not valid.
    """

    seconds: float = field(converter=_seconds, validator=_period)
    jitter: float | timedelta = 0.0
    catch_up: CatchUp = field(default=CatchUp.SKIP, converter=_catch_up)

    def __attrs_post_init__(self) -> None:
        _jitter_of(self.jitter, self.seconds, 0.5)

    def after(self, moment: datetime, name: str) -> datetime:
        """Return the first moment after another one."""
        period, given = round(self.seconds * 1e6), (moment - EPOCH) // TICK
        jitter = _jitter_of(self.jitter, self.seconds, 0.5) // TICK
        phase = int(_chance(name) * period)
        number = (given - phase - jitter) // period
        while True:
            offset = int(jitter * (2 * _chance(name, number) - 1)) if jitter else 0
            if (at := phase + number * period + offset) > given:
                return EPOCH + at * TICK
            number += 1


@frozen
class Cooldown(_Ending):
    """Again some time after the last job has ended, however it ended, and never sooner.

    Attributes:
        seconds: The time between the end of a job and the next, at least a second; a timedelta
            will do.
        jitter: By how much longer it may be: a fraction of it, at most 1, or a timedelta.
        until: The last moment at which it may be due; None for no end.
        times: How many jobs it enqueues in all, not counting those of `run_now`; None for no end.

    Raises:
        InvalidSchedule: When a value is not valid.
    """

    seconds: float = field(converter=_seconds, validator=_period)
    jitter: float | timedelta = 0.0

    def __attrs_post_init__(self) -> None:
        _jitter_of(self.jitter, self.seconds, 1)

    def after(self, moment: datetime, name: str) -> datetime:
        """Return when to begin, or to look again, if nothing runs at a moment: within its time."""
        return moment + timedelta(seconds=self.seconds) * _chance(name, moment)


def _zone(value: object) -> str:
    try:
        return ZoneInfo(str(value)).key
    except (KeyError, OSError, ValueError):
        raise InvalidSchedule(
            f"there is no time zone {value!r}", "use a name such as Europe/Berlin or UTC"
        ) from None


def _delay(_: object, __: attrs.Attribute[timedelta], value: object) -> None:
    if not isinstance(value, timedelta) or not timedelta(0) <= value <= MOST_DELAY:
        raise InvalidSchedule(
            f"a jitter of {value!r} is not a timedelta of up to an hour",
            "give one such as timedelta(minutes=5); a cron expression has no period to be part of",
        )


@frozen
class Cron(_Ending):
    """At the moments of a cron expression, by the clocks of a time zone.

    Where clocks are set forward, what would have been in the hour left out is due right after it;
    where they are set back, what names an hour is due once.

    Attributes:
        expression: Minute, hour, day of month, month, day of week, as in Debian's cron.
        tz: The time zone's name.
        jitter: By how much a moment may come after its time, never before: a timedelta.
        catch_up: What becomes of missed moments: ``skip``, ``one`` or ``all``.
        until: The last moment at which it may be due; None for no end.
        times: How many jobs it enqueues in all, not counting those of `run_now`; None for no end.

    Raises:
        InvalidSchedule: When a value is not valid.
    """

    expression: str = field()
    tz: str = field(default="UTC", converter=_zone)
    jitter: timedelta = field(default=timedelta(0), validator=_delay)
    catch_up: CatchUp = field(default=CatchUp.SKIP, converter=_catch_up)

    @expression.validator
    def _check(self, _: attrs.Attribute[str], value: object) -> None:
        try:
            if not isinstance(value, str) or len(value.split()) != 5:
                raise CronSimError("it must have five fields")
            next(CronSim(value, EPOCH))
        except (CronSimError, StopIteration) as error:
            raise InvalidSchedule(
                f"{value!r} is not a cron expression: {str(error) or 'it never comes'}",
                "write minute, hour, day of month, month and day of week, as in '0 3 * * *'",
            ) from None

    def after(self, moment: datetime, name: str) -> datetime | None:
        """Return the first moment after another one; None if there is none any more."""
        best: datetime | None = None
        for sharp in self._sharp(moment - self.jitter - TICK):
            if best is not None and sharp >= best:
                break
            at = sharp + self.jitter * _chance(name, sharp) if self.jitter else sharp
            if at > moment and (best is None or at < best):
                best = at
        return best

    def _sharp(self, moment: datetime) -> Iterator[datetime]:
        """The moments of the expression itself after another one, in UTC."""
        for local in CronSim(self.expression, moment.astimezone(ZoneInfo(self.tz))):
            at = local.astimezone(UTC)
            if at > moment:
                yield at


Schedule: TypeAlias = Every | Cooldown | Cron


def _as_sql_text(value: object) -> str:
    """Return a value as PostgreSQL reads it: True is ``true`` there."""
    return str(value).lower() if isinstance(value, bool) else str(value)


@frozen
class Exists:
    """A condition of a schedule: that a table or view of the application has a row with a value.

    Attributes:
        table: Its name with its schema, as in ``public.active_project``; of a view as well.
        column: The column.
        value: What stands there. It is compared as the column's type.
    """

    table: str
    column: str
    value: str = field(converter=_as_sql_text)


@frozen
class Plan:
    """What a tick makes of a schedule that is due.

    Attributes:
        moments: The moments that get a job.
        next: When it is due next; None if that depends on the end of a job, or it has ended.
    """

    moments: tuple[datetime, ...]
    next: datetime | None


def plan(
    schedule: Schedule, name: str, due: datetime | None, now: datetime, *, holds: bool = True
) -> Plan:
    """Decide what becomes of a schedule that is due.

    Args:
        schedule: When it is due.
        name: Its name, on which its phase and its jitter depend.
        due: The moment it was due; None if that was not computed yet.
        now: The database's clock.
        holds: Whether its condition holds; a moment at which it does not is left out.
    """
    if due is None or not holds:
        return Plan((), schedule.after(now, name))
    if isinstance(schedule, Cooldown):
        return Plan((due,), None)
    if schedule.catch_up is CatchUp.ALL:
        return _made_up_for(schedule, name, due, now)
    if schedule.catch_up is CatchUp.ONE or now - due <= GRACE:
        return Plan((due,), schedule.after(now, name))
    recent = schedule.after(now - GRACE, name)
    is_due = recent is not None and recent <= now
    return Plan((recent,) if recent and is_due else (), schedule.after(now, name))


def _made_up_for(schedule: Every | Cron, name: str, due: datetime, now: datetime) -> Plan:
    moments: list[datetime] = []
    following: datetime | None = due
    while following is not None and following <= now and len(moments) < MOST_MISSED:
        moments.append(following)
        following = schedule.after(following, name)
    return Plan(tuple(moments), following)


def schedule_of(row: Mapping[str, Any]) -> Schedule:
    """Return the schedule that a row describes.

    Raises:
        InvalidSchedule: When it describes none.
    """
    kind, jitter = row["kind"], timedelta(seconds=row["jitter"])
    if kind == "every":
        return Every(row["seconds"], jitter, row["catch_up"])
    if kind == "cooldown":
        return Cooldown(row["seconds"], jitter)
    return Cron(row["expression"], row["zone"], jitter, row["catch_up"])


def terms_of(schedule: Schedule) -> dict[str, Any]:
    """Return the columns of a row that describe a schedule."""
    until = None if schedule.until is None else schedule.until.isoformat()
    ends = {"until": until, "times": schedule.times}
    return {key: value for key, value in ends.items() if value is not None} | _moments_of(schedule)


def _moments_of(schedule: Schedule) -> dict[str, Any]:
    if isinstance(schedule, Cron):
        return {
            "kind": "cron",
            "expression": schedule.expression,
            "zone": schedule.tz,
            "jitter": schedule.jitter.total_seconds(),
            "catch_up": str(schedule.catch_up),
        }
    is_every = isinstance(schedule, Every)
    jitter = _jitter_of(schedule.jitter, schedule.seconds, 0.5 if is_every else 1)
    terms = {"seconds": float(schedule.seconds), "jitter": jitter.total_seconds()}
    if isinstance(schedule, Every):
        return {"kind": "every", **terms, "catch_up": str(schedule.catch_up)}
    return {"kind": "cooldown", **terms}


def _chance(*parts: object) -> float:
    """Return a number in [0, 1) that is the same everywhere, and looks like chance."""
    text = "\0".join(map(str, parts)).encode(errors="surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=6).digest()) / 2**48

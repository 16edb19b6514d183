"""Decides, without I/O, what to enqueue for schedules that are due, when overdue cool-downs start,
and when the next one is due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final

from attrs import frozen

from txqueue.errors import InvalidSchedule
from txqueue.model.schedule import CatchUp, Cooldown, Cron, Every, Schedule, schedule_of

# A start that is late by more seconds is overdue: so much is the delay between two checks.
LATE = 1.0
# Cron schedules are not spread: many that name the same minute start together at all times.
# Overdue starts are spread over this multiple of the longest time that one of them is overdue, so
# that a short hiccup delays none of them for long; and at least so many begin in each second.
SPREAD, LEAST_A_SECOND = 2.0, 1.0


@frozen
class DueStart:
    """A cool-down, or a schedule of even intervals, that is due.

    Attributes:
        name: The schedule's name.
        seconds: Its time between the end of a job and the start of the next, or its interval.
        priority: The priority of its jobs.
        late: The seconds since it was due.
    """

    name: str
    seconds: float
    priority: int
    late: float


def start_delays(starts: Sequence[DueStart]) -> dict[str, float]:
    """Spread overdue starts over the schedules' own length.

    Cool-downs that start together end together, and would do so again and again.

    Args:
        starts: All cool-downs and even intervals that are due now.

    Returns:
        The seconds from now to the start of each that is delayed, by name. Those of the highest
        priority start first; among the others, the order is the same on every node.
    """
    overdue = sorted((start for start in starts if start.late > LATE), key=_order)
    window = SPREAD * max((start.late for start in overdue), default=0.0)
    return {
        start.name: min(min(start.seconds, window) * place / len(overdue), place / LEAST_A_SECOND)
        for place, start in enumerate(overdue)
        if place
    }


def _order(start: DueStart) -> tuple[int, bytes]:
    """Order by priority; then by chance, as neighbours may have cool-downs of the same length."""
    text = start.name.encode(errors="surrogatepass")
    return -start.priority, blake2b(text, digest_size=8).digest()


GRACE: Final = timedelta(minutes=1)
"""A due time that passed longer ago than this counts as missed, a more recent one as late."""
MOST_MISSED: Final = 100
"""The most missed due times for which one call of `plan` enqueues jobs; the next continues."""


@frozen
class Plan:
    """What to do about a schedule that is due.

    Attributes:
        moments: The due times for each of which a job is to be enqueued.
        next: When the schedule is due next; None if it has ended, or if that depends on the end
            of a job.
    """

    moments: tuple[datetime, ...]
    next: datetime | None


def plan(
    schedule: Schedule, name: str, due: datetime | None, now: datetime, *, holds: bool = True
) -> Plan:
    """Decide what to enqueue for a schedule that is due.

    Args:
        schedule: The schedule.
        name: The schedule's name, on which its phase and jitter depend.
        due: When the schedule was due; None if that was not computed yet.
        now: The current time by the database's clock.
        holds: Whether the schedule's condition holds; if not, no job is enqueued for this due time.
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


def upcoming(
    schedule: Schedule, name: str, now: datetime, most: int, enqueued: int = 0
) -> list[datetime]:
    """Return when a schedule is due next; nothing for a cool-down, which depends on its jobs.

    Args:
        schedule: The schedule.
        name: The schedule's name, on which its phase and jitter depend.
        now: The current time by the database's clock.
        most: The largest number of due times.
        enqueued: How many jobs the schedule has enqueued so far, of its ``times``.
    """
    left = most if schedule.times is None else min(most, schedule.times - enqueued)
    moments: list[datetime] = []
    following = None if isinstance(schedule, Cooldown) else schedule.after(now, name)
    while following is not None and len(moments) < left:
        if schedule.until is not None and following > schedule.until:
            break
        moments.append(following)
        following = schedule.after(following, name)
    return moments


def unconditional(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the schedules without a condition."""
    return [row for row in rows if row["condition"] is None]


def by_condition(rows: Sequence[dict[str, Any]]) -> dict[tuple[str, str], list[dict[str, Any]]]:
    """Group the schedules with a condition by its table and column."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        if (condition := row["condition"]) is not None:
            groups.setdefault((condition[0], condition[1]), []).append(row)
    return groups


def judged(
    rows: Sequence[dict[str, Any]], met: set[str], error: str | None = None
) -> list[dict[str, Any]]:
    """Return schedules with whether the condition of each holds.

    Args:
        rows: Schedules whose conditions name the same table and column.
        met: The values that occur in that column.
        error: Why the column could not be read, if so.
    """
    return [{**row, "holds": row["condition"][2] in met, "error": error} for row in rows]


def ticks_of(rows: Sequence[Mapping[str, Any]], now: datetime) -> list[dict[str, Any]]:
    """Return the decisions on due schedules in the form that ``tick()`` takes."""
    delays = start_delays([_start(row, now) for row in rows if _starts_by_itself(row)])
    return [_tick_of(row, now, delays.get(row["name"], 0.0)) for row in rows]


def _starts_by_itself(row: Mapping[str, Any]) -> bool:
    return bool(row["kind"] != "cron" and row["due"] and row.get("holds", True))


def _start(row: Mapping[str, Any], now: datetime) -> DueStart:
    late = (now - datetime.fromisoformat(row["due"])).total_seconds()
    return DueStart(row["name"], row["seconds"], row["priority"], late)


def _tick_of(row: Mapping[str, Any], now: datetime, delay: float) -> dict[str, Any]:
    due = row["due"] and datetime.fromisoformat(row.get("put_off") or row["due"])
    tick = {"schedule_id": row["schedule_id"], "due": row["due"], "error": row.get("error")}
    try:
        schedule = schedule_of(row)
    except InvalidSchedule as error:
        return {**tick, "next": "infinity", "error": str(error), "ends": True}
    if delay:
        # Its job is made then, if the schedule is still active and its condition holds.
        start = (now + timedelta(seconds=delay)).isoformat()
        return {**tick, "moments": [], "next": start, "put_off": due.isoformat()}
    planned = plan(schedule, row["name"], due, now, holds=row.get("holds", True))
    moments = [moment.isoformat() for moment in planned.moments]
    return {**tick, "moments": moments, "next": _next(row["kind"], planned)}


def _next(kind: str, planned: Plan) -> str | None:
    if planned.next is not None:
        return planned.next.isoformat()
    return None if kind == "cooldown" else "infinity"

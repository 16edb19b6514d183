"""Decides what to enqueue for a schedule that is due, and says when one is due next."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from attrs import frozen

from txqueue.model.schedule import CatchUp, Cooldown, Cron, Every, Schedule

__all__ = ["Plan", "plan", "upcoming"]

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

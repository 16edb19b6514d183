"""Decides on due schedules, as rows of the database, and writes that as ``tick()`` takes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from txqueue.errors import InvalidSchedule
from txqueue.model.schedule import schedule_of
from txqueue.policy.cooldown_starts import DueStart, start_delays
from txqueue.policy.due_schedules import Plan, plan

__all__ = ["by_condition", "judged", "ticks_of", "unconditional"]


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

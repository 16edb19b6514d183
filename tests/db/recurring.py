"""Schedules as a test makes them, lets time pass for them, and has a master tick them."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import psycopg2
import pytest

from tests.db.masters import Master
from txqueue.model.schedule import Every, Schedule, schedule_object
from txqueue.policy import schedules as cooldown_starts
from txqueue.policy.schedules import by_condition, judged, ticks_of, unconditional

JOB: Final = {"work_type": "test.kind", "payload": {}}
PUT: Final = "select txqueue.put_schedule(%s, %s, %s, %s, 'ann')"
# Long enough that no moment comes by itself during a test.
DAY: Final = 86400
DAILY: Final = Every(DAY, catch_up="one")


def put(
    node: Master,
    name: str = "often",
    when: Schedule | None = None,
    condition: Mapping[str, object] | None = None,
    **job: object,
) -> None:
    """Make a schedule."""
    terms = json.dumps(schedule_object(when or DAILY))
    given = None if condition is None else json.dumps(condition)
    node.value(PUT, name, terms, json.dumps(JOB | job), given)


def due(node: Master, since: datetime | None = None) -> list[dict[str, Any]]:
    """Look what is due, and which of the conditions hold, as a master does."""
    rows: list[dict[str, Any]] = node.value("select due from txqueue.due_schedules(%s)", since)
    known = unconditional(rows)
    for condition, its in by_condition(rows).items():
        known += checked(node, condition, its)
    return known


def checked(
    node: Master, condition: tuple[str, str], rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return schedules of one condition, with whether it holds."""
    asked = "select txqueue.find_met_conditions(%s, %s, %s::text[])"
    try:
        met = node.value(asked, *condition, [row["condition"][2] for row in rows])
    except psycopg2.Error as error:
        return judged(rows, set(), f"cannot be checked: {error}")
    return judged(rows, set(met))


def tick(node: Master, rows: list[dict[str, Any]], *, is_outage: bool = False) -> int:
    """Tick due schedules by plan, as if none were overdue unless there was an outage."""
    now = node.value("select clock_timestamp()")
    with pytest.MonkeyPatch.context() as patch:
        if not is_outage:
            patch.setattr(cooldown_starts, "LATE", float("inf"))
        ticks = ticks_of(rows, now)
    ran: int = node.value("select txqueue.tick(%s)", json.dumps(ticks))
    return ran


def passes(node: Master, seconds: float) -> None:
    """Have so much time pass for the schedules."""
    node.cursor.execute(
        "update txqueue.schedule set next_due = next_due - make_interval(secs => %s)"
        " where isfinite(next_due)",
        (seconds,),
    )


def schedule(node: Master, name: str = "often") -> dict[str, Any]:
    """Return the row of a schedule."""
    text = "select to_jsonb(this)::text from txqueue.schedule as this where name = %s"
    row: dict[str, Any] = json.loads(node.value(text, name))
    return row


def made_due(node: Master, *names: str, **more: Any) -> list[dict[str, Any]]:
    """Make schedules that are due; returns what a look finds."""
    for name in names or ("often",):
        put(node, name, **more)
    assert tick(node, due(node)) == 0
    passes(node, DAY)
    return due(node)

"""Ten thousand schedules of one minute, in accelerated time: what load their jobs are."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.db.masters import Master, master
from tests.db.recurring import JOB
from txqueue.model.schedule import Cron, Every, Schedule, schedule_object
from txqueue.store.schedules import tick_of

MANY = 10_000
MINUTES = 5
MADE = """
    insert into txqueue.schedule (name, kind, seconds, expression, zone, jitter, catch_up, job)
    select 'order sync ' || n, %(kind)s, %(seconds)s, %(expression)s, %(zone)s, %(jitter)s,
           %(catch_up)s, %(job)s
      from generate_series(1, %(many)s) as n
"""
DUE = """
    select coalesce(jsonb_agg(jsonb_build_object(
               'schedule_id', schedule_id, 'name', name, 'kind', kind, 'seconds', seconds,
               'expression', expression, 'zone', zone, 'jitter', jitter, 'catch_up', catch_up,
               'holds', true, 'error', null,
               'due', case when isfinite(next_due) then next_due end)), '[]')::text
      from txqueue.schedule where is_active and next_due <= %s
"""
STARTS = """
    select floor(extract(epoch from not_before - %s))::int, count(*)::int
      from txqueue.job group by 1
"""


@pytest.fixture
def node(migrated_database18: str) -> Iterator[Master]:
    """A master's session, on one server: what is measured is not the server."""
    with master(migrated_database18) as session:
        yield session


def made(node: Master, when: Schedule) -> None:
    """Make ten thousand at one moment."""
    blank = {"seconds": None, "expression": None, "zone": None, "catch_up": "skip"}
    given = {**blank, **schedule_object(when), "job": json.dumps(JOB), "many": MANY}
    node.cursor.execute(MADE, given)


def tick(node: Master, now: datetime) -> int:
    """Look and tick as a master does, by the clock of the test."""
    ticks = [tick_of(row, now) for row in json.loads(node.value(DUE, now))]
    ran: int = node.value("select txqueue.tick(%s)", json.dumps(ticks))
    return ran


def starts_by_second(node: Master, when: Schedule, minutes: int) -> Counter[int]:
    """How many jobs start in each second of some minutes."""
    made(node, when)
    begin: datetime = node.value("select date_trunc('minute', now())")
    assert tick(node, begin) == 0
    for second in range(1, minutes * 60 + 1):
        tick(node, begin + timedelta(seconds=second))
    node.cursor.execute(STARTS, (begin,))
    return Counter(dict(node.cursor.fetchall()))


@pytest.mark.slow
def test_the_busiest_second_has_at_most_three_times_the_mean(node: Master) -> None:
    """For five minutes, each schedule once a minute: there is no thundering herd."""
    starts = starts_by_second(node, Every(60, jitter=4 / 60), MINUTES)
    assert abs(starts.total() - MANY * MINUTES) <= MANY / 5
    assert max(starts.values()) <= 3 * MANY / 60


@pytest.mark.slow
def test_a_bare_cron_has_sixty_times_the_mean(node: Master) -> None:
    """What the jitter is for: all at the first second of a minute."""
    starts = starts_by_second(node, Cron("* * * * *"), 1)
    assert starts == {60: MANY}

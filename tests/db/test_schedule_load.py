"""Ten thousand schedules of one minute, in accelerated time: what load their jobs are."""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.db.masters import Master, master
from tests.db.recurring import JOB
from txqueue.model.schedule import Cooldown, Cron, Every, Schedule, schedule_object
from txqueue.policy.schedules import ticks_of

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
               'holds', true, 'error', null, 'priority', 4,
               'due', case when isfinite(next_due) then next_due end,
               'put_off', put_off)), '[]')::text
      from txqueue.schedule where is_active and next_due <= %s
"""
STARTS = """
    select floor(extract(epoch from not_before - %s))::int, count(*)::int
      from txqueue.job group by 1
"""

ENDED = """
    with gone as (
        delete from txqueue.job where not_before <= %(now)s and state in ('ready', 'waiting')
        returning job_id
    )
    update txqueue.schedule set next_due = %(now)s + make_interval(secs => seconds)
     where last_job in (select job_id from gone)
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
    ticks = ticks_of(json.loads(node.value(DUE, now)), now)
    ran: int = node.value("select txqueue.tick(%s)", json.dumps(ticks))
    return ran


def ended(node: Master, now: datetime) -> int:
    """End the jobs of cool-downs that have started by the clock of the test; how many."""
    node.cursor.execute(ENDED, {"now": now})
    return node.cursor.rowcount


def starts_by_second(node: Master, when: Schedule, minutes: int) -> Counter[int]:
    """How many jobs start in each second of some minutes."""
    made(node, when)
    begin: datetime = node.value("select date_trunc('minute', now())")
    assert tick(node, begin) == 0
    for second in range(1, minutes * 60 + 1):
        tick(node, begin + timedelta(seconds=second))
    node.cursor.execute(STARTS, (begin,))
    return Counter(dict(node.cursor.fetchall()))


@pytest.mark.slow("schema/functions/schedules.sql", "txqueue/model/schedule.py")
def test_the_busiest_second_has_at_most_three_times_the_mean(node: Master) -> None:
    """For five minutes, each schedule once a minute: there is no thundering herd."""
    starts = starts_by_second(node, Every(60, jitter=4 / 60), MINUTES)
    assert abs(starts.total() - MANY * MINUTES) <= MANY / 5
    assert max(starts.values()) <= 3 * MANY / 60


@pytest.mark.slow("schema/functions/schedules.sql", "txqueue/model/schedule.py")
def test_cool_downs_are_an_even_load_again_after_an_outage(node: Master) -> None:
    """All are overdue when nodes are back; in the second minute no second has twice the mean."""
    made(node, Cooldown(60))
    begin: datetime = node.value("select date_trunc('minute', now())")
    assert tick(node, begin) == 0
    back = begin + timedelta(seconds=140)
    starts = Counter[int]()
    for second in range(130):
        tick(node, back + timedelta(seconds=second))
        starts[second] = ended(node, back + timedelta(seconds=second))
    first, second = (sum(starts[n] for n in range(at, at + 60)) for at in (0, 60))
    assert min(first, second) >= MANY * 0.9
    assert max(starts[n] for n in range(60, 120)) <= 2 * MANY / 60


@pytest.mark.slow("schema/functions/schedules.sql", "txqueue/policy/schedules.py")
def test_even_intervals_are_an_even_load_after_an_outage(node: Master) -> None:
    """Nodes were away for 25 s: no second has three times the mean, and no moment is lost."""
    made(node, Every(60))
    begin: datetime = node.value("select date_trunc('minute', now())")
    assert tick(node, begin) == 0
    starts = [tick(node, begin + timedelta(seconds=second)) for second in range(25, 86)]
    assert max(starts) <= 3 * MANY / 60
    assert sum(starts) >= 0.9 * MANY


@pytest.mark.slow("schema/functions/schedules.sql", "txqueue/model/schedule.py")
def test_a_bare_cron_has_sixty_times_the_mean(node: Master) -> None:
    """What the jitter is for: all at the first second of a minute."""
    starts = starts_by_second(node, Cron("* * * * *"), 1)
    assert starts == {60: MANY}

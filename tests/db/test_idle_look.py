"""What a heartbeat tells a node of the work that there is, while some master sleeps."""

import json
from typing import Any

import pytest

from tests.db.masters import Master


def seen(node: Master) -> tuple[Any, ...]:
    """What the node's next heartbeat returns."""
    node.cursor.execute(
        "select is_idle, work_in, schedule_in from txqueue.heartbeat(%s, 0)", (node.incarnation,)
    )
    (row,) = node.cursor.fetchall()
    return row


@pytest.fixture
def asleep(node: Master) -> Master:
    """A node whose last claim has found nothing."""
    node.take()
    return node


def test_nothing_is_looked_for_while_all_masters_are_awake(node: Master) -> None:
    """They claim what there is."""
    node.enqueue({})
    assert seen(node) == (False, None, None)


def test_an_idle_queue(asleep: Master) -> None:
    """Jobs of other queues and old ones in history are no work."""
    assert seen(asleep) == (True, None, None)
    asleep.enqueue({"queue": "other"}, {"queue": "other", "not_before": "infinity"})
    assert seen(asleep) == (True, None, None)


def test_a_ready_job(asleep: Master) -> None:
    """It is work now, whether or not a notification was sent; once assigned, it is none."""
    asleep.cursor.execute("set lock_timeout = '500ms'")
    asleep.enqueue({})
    assert seen(asleep) == (True, 0, None)
    asleep.take()
    assert seen(asleep) == (False, None, None)


def test_a_job_that_is_due_later(asleep: Master) -> None:
    """The seconds until then, of the first one."""
    moment = asleep.value("select (now() + interval '1 hour')::text")
    asleep.enqueue({"not_before": moment}, {"not_before": "infinity"})
    is_idle, work_in, _ = seen(asleep)
    assert is_idle
    assert 3500 < work_in <= 3600


def put(node: Master, kind: str = "every", **columns: object) -> None:
    """Make a schedule with a moment at which it is due."""
    job = json.dumps({"work_type": "test.kind", "payload": {}})
    names = ["name", "kind", "seconds", "job", *columns]
    node.cursor.execute(
        f"insert into txqueue.schedule ({', '.join(names)})"
        f" values ('one', %s, 60, %s{', %s' * len(columns)})",
        (kind, job, *columns.values()),
    )


@pytest.mark.parametrize(
    ("moment", "expected"),
    [("-infinity", 0), ("now() - interval '1 second'", 0), ("infinity", None)],
)
def test_a_schedule(asleep: Master, moment: str, expected: float | None) -> None:
    """Due as soon as it was made, at its moment, and never again once it has ended."""
    put(
        asleep,
        next_due=asleep.value(
            f"select ({moment})::timestamptz::text" if "(" in moment else f"select '{moment}'"
        ),
    )
    assert seen(asleep) == (True, None, expected)


def test_a_declared_schedule_is_for_nodes_that_have_its_class(asleep: Master) -> None:
    """Others could not tick it."""
    put(asleep, next_due="-infinity", is_declared=True)
    assert seen(asleep)[2] == 0
    other = '{"work_type": "test.other"}'
    asleep.cursor.execute("update txqueue.schedule set job = job || %s::jsonb", (other,))
    assert seen(asleep)[2] is None

"""Stored status: progress, failed attempts, announced ends, tenants."""

import json

import psycopg2.extensions
import pytest

from tests.db.masters import Master
from tests.db.stored import Taken


def say(session: Master, chunk: Taken, progress: str | None) -> int:
    """Report the jobs of a chunk as running; returns how many rows were written."""
    noted: int = session.value(
        "select txqueue.started"
        "(%s, %s::bigint[], %s::bigint[], %s::double precision[], %s::text[])",
        *(session.incarnation, [chunk.assignment] * len(chunk.ids), chunk.ids),
        *([2.0] * len(chunk.ids), [progress] * len(chunk.ids)),
    )
    return noted


@pytest.mark.parametrize("outcome", ["done", "failed"])
def test_the_last_progress_is_kept_with_the_end(node: Master, outcome: str) -> None:
    """Even without an earlier report; another attempt starts from nothing."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    said = {"job_id": job_id, "assignment": chunk.assignment, "delay": 0, "progress": [9, 9, "all"]}
    settle = "select settled from txqueue.settle(%s, %s)"
    node.value(settle, node.incarnation, json.dumps([{**said, "outcome": outcome}]))
    assert node.job(job_id)["progress"] == [9, 9, "all"]


def test_progress_is_written_only_by_the_holder_and_only_if_it_is_new(node: Master) -> None:
    """Fenced by the token; gone when the job runs again."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    assert say(node, chunk, None) == 1
    assert say(node, chunk, None) == 0
    assert say(node, chunk, '[1, 2, "half"]') == 1
    assert node.job(job_id)["progress"] == [1, 2, "half"]
    assert say(node, Taken(chunk.lane, chunk.assignment + 1, chunk.jobs), "[9, 9, null]") == 0
    node.settle(chunk, "retry", delay=0, error="x")
    assert node.job(job_id)["progress"] is None


def test_failed_attempts_are_kept_up_to_a_hundred(node: Master) -> None:
    """Each with its error; not those that only snoozed."""
    (job_id,) = node.enqueue({})
    for number in range(1, 111):
        (chunk,) = node.claim()
        node.settle(chunk, "retry", delay=0, error=f"error {number}")
        (chunk,) = node.claim()
        node.settle(chunk, "snooze", delay=0)
    kept = node.column(
        "select error from txqueue.failed_attempt where job_id = %s order by at", job_id
    )
    assert kept == [f"error {number}" for number in range(11, 111)]


def test_ends_are_announced_only_while_a_client_waits(node: Master, other: Master) -> None:
    """NOTIFY takes a lock of the whole server at commit."""
    node.value("select setval('txqueue.awaited', 0)")
    other.cursor.execute("listen txqueue_ended")

    def told() -> list[str]:
        other.value("select 1")
        connection: psycopg2.extensions.connection = other.connection
        texts = [each.payload for each in connection.notifies]
        connection.notifies.clear()
        return texts

    node.enqueue({}, {}, {})
    first, second, third = (
        Taken(c.lane, c.assignment, [job]) for c in node.claim() for job in c.jobs
    )
    node.complete(first)
    assert told() == []
    node.value("select txqueue.request_end_notices()")
    node.complete(second)
    node.settle(third, "failed", error="x")
    assert told() == [str(second.ids[0]), str(third.ids[0])]


def test_each_tenant_is_counted(node: Master) -> None:
    """With what limits it."""
    node.enqueue({"tenant": "a"}, {"tenant": "a"}, {"tenant": "b"}, {})
    node.value(
        "insert into txqueue.control (kind, key, share) values ('tenant', 'a', 3) returning 1"
    )
    node.cursor.execute(
        "select tenant, ready, assigned, share from txqueue.live_tenants order by 1"
    )
    assert node.cursor.fetchall() == [("a", 2, 0, 3.0), ("b", 1, 0, 1.0)]


def test_a_failed_attempt_keeps_its_class_and_its_log(node: Master) -> None:
    """If the outcome has them: those of an older node, and of deaths, have none."""
    (job_id,) = node.enqueue({})
    for more in ({}, {"error_class": "shop.errors.CardDeclined" + "x" * 500, "log": "a\nb" * 9000}):
        (chunk,) = node.claim()
        node.settle(chunk, "retry", delay=0, error="x", **more)
    node.settle(node.claim()[0], "snooze", delay=0, error_class="not.An.attempt", log="x")
    node.settle(node.claim()[0], "failed", error="x", error_class="builtins.KeyError", log="last")
    kept = node.column(
        "select jsonb_build_array(left(error_class, 24), length(error_class), left(log, 4),"
        " length(log)) from txqueue.failed_attempt where job_id = %s order by at",
        job_id,
    )
    assert kept == [
        [None, None, None, None],
        ["shop.errors.CardDeclined", 200, "a\nba", 8192],
        ["builtins.KeyError", 17, "last", 4],
    ]


def test_waiting_jobs_are_counted_by_what_people_wait_for(node: Master) -> None:
    """A signal that has a time limit is no time, and a pause no group."""
    signal = {"name": "approval", "kind": "signal", "signal": "ok"}
    for wait in (
        signal,
        {**signal, "seconds": 3600},
        {"name": "nap", "kind": "sleep", "seconds": 9},
    ):
        node.enqueue({})
        node.settle(node.claim()[0], "suspended", waits=[wait])
    node.enqueue({})
    node.settle(node.claim()[0], "retry", error="why", delay=1000)
    for group in ("a", "b"):
        node.enqueue({"group": group}, {"group": group})
    assert len(node.claimed_ids()) == 2
    node.value("select txqueue.pause('group', 'b', 'ann')")
    node.cursor.execute(
        "select waiting_for, jobs from txqueue.live_jobs where state = 'waiting' order by 1"
    )
    assert node.cursor.fetchall() == [("group", 1), ("pause", 1), ("signal", 2), ("time", 2)]

"""The facts of the database, turned into the reason why a job does not run."""

from __future__ import annotations

import json
from contextlib import closing

import psycopg2
import pytest
from twisted.internet.threads import deferToThread

from tests.db.masters import Master
from tests.waiting import eventually
from txqueue.policy.findings.explanation import Explanation, explain
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.queue_state import about_blocked


def explained(node: Master, job_id: int) -> Explanation:
    """Explain a job as a node or the command line does."""
    return explain(node.value("select txqueue.explain_facts(%s)", job_id))


def limit(node: Master, kind: str, key: str, what: str, value: float) -> None:
    """Set one limit as an operator does."""
    names = ("concurrency", "rate", "burst", "share", "reserve")
    given = [value if name == what else None for name in names]
    call = "select txqueue.set_limit(%s, %s, %s::integer, %s, %s::integer, %s, %s, 'me')"
    node.value(call, kind, key, *given)


def test_a_failed_attempt(node: Master) -> None:
    """It says what failed and when the next attempt is due, without the traceback."""
    (job_id,) = node.enqueue({})
    node.settle(node.claim()[0], "retry", delay=90.5, error="ValueError: no\n\nTraceback ...")
    told = explained(node, job_id)
    assert told.reason == "backoff"
    assert told.detail == "1 attempt failed: ValueError: no; the next is due in 1 min 30 s"


def test_a_busy_group(node: Master) -> None:
    """It names the job that holds the group, and its node, and how many go first."""
    ids = node.enqueue(*[{"group": "user:7"} for _ in range(3)])
    node.claim()
    told = explained(node, ids[2])
    assert told.reason == "group"
    assert told.detail.startswith(f"its group user:7 is busy with job {ids[0]} on node node since")
    assert told.detail.endswith("and 1 job of the group goes first")
    assert told.remedy.endswith(f"see: txqueue explain {ids[0]}")


def test_a_groups_rate(node: Master) -> None:
    """The job whose turn is next says when that is."""
    ids = node.enqueue({"group": "g"}, {"group": "g"})
    limit(node, "group", "g", "rate", 0.01)
    node.complete(node.claim()[0])
    told = explained(node, ids[1])
    assert (told.state, told.reason) == ("waiting", "rate")
    assert (
        "its group g may start only 0.01 jobs a second; this job may start in 1 min" in told.detail
    )


def test_a_job_before_the_one_that_waits_for_its_groups_rate(node: Master) -> None:
    """It does not wait for that one, whose queue is paused, but for the rate."""
    ids = node.enqueue(*[{"group": "g", "queue": "default"} for _ in range(2)])
    limit(node, "group", "g", "rate", 0.01)
    node.complete(node.claim()[0])
    assert node.waiting("rate") == ids[1:]
    (first,) = node.enqueue({"group": "g", "priority": 9})
    assert explained(node, first).reason == "rate"
    node.claim()
    assert node.waiting("group") == [first]
    told = explained(node, first)
    assert (told.reason, "0.01 jobs a second" in told.detail) == ("rate", True)
    assert f"job {first}" in explained(node, ids[1]).detail


def test_no_capable_node(node: Master) -> None:
    """A queue or a type without a live node, no node with both, and draining nodes."""
    (elsewhere,) = node.enqueue({"queue": "other"})
    (here,) = node.enqueue({})
    assert explained(node, elsewhere).detail == "no live node serves the queue other"
    node.publish("once.known")
    forgotten = node.value("select txqueue.enqueue('once.known', '{}')")
    told = explained(node, forgotten)
    assert told.reason == "no_capable_node"
    assert told.detail == "no live node has the work type once.known"
    node.cursor.execute(
        "insert into txqueue.node_info (name, hostname, pid, incarnation, lease, capacity, queues,"
        " work_types) values ('half', '', 1, 99, '1 hour', 1, '{other}', '{}')"
    )
    assert (
        "no live node both serves the queue other (half does)" in explained(node, elsewhere).detail
    )
    node.value("select txqueue.leave(%s, 'draining')", node.incarnation)
    assert explained(node, here).detail == "every node that could run it is draining: node"
    node.value("select txqueue.leave(%s, 'stopped')", node.incarnation)
    node.cursor.execute("delete from txqueue.node_info")
    assert explained(node, here).detail == "no node runs"


def test_a_node_that_may_not_claim(node: Master) -> None:
    """For want of a right, or as the disk is full; one that may do it, if nothing else, does."""
    (job_id,) = node.enqueue({})
    denied = {"said": "permission denied for function next_job", "sqlstate": "42501"}
    full = {"said": "could not extend file: No space left on device", "sqlstate": "53100"}
    for refused, remedy in (denied, "grant the node's role what it lacks"), (full, "free space"):
        node.reports(workers=1, unable=0, refused=refused, may_claim=True)
        assert explained(node, job_id).reason == "next"
        node.reports(workers=1, unable=0, refused=refused, may_claim=False)
        told = explained(node, job_id)
        assert told.reason == "no_worker"
        assert told.detail.endswith(f": the database refuses its claims: {refused['said']}")
        assert told.remedy.startswith(remedy)


LOCK_ROW = "select from txqueue.job where job_id = {job} for update"
LOCKS = {
    "row": [LOCK_ROW],
    "savepoint": ["savepoint inner_block", LOCK_ROW, "release inner_block"],
    "claiming": ["lock table txqueue.claiming in exclusive mode"],
    "share": ["lock table txqueue.job in share mode"],
    "index": ["create index on txqueue.job (weight)"],
}


@pytest.mark.parametrize("lock", LOCKS)
@pytest.mark.parametrize("is_assigned", [False, True])
async def test_a_lock(lock: str, node: Master, other: Master, *, is_assigned: bool) -> None:
    """It names the session whose open transaction claims and ends pass over, or wait for."""
    (job_id,) = node.enqueue({})
    if is_assigned:
        node.claim()
    before = explained(node, job_id).reason
    other.connection.autocommit = False
    for statement in LOCKS[lock]:
        other.cursor.execute(statement.format(job=job_id))
    await eventually(lambda: explained(node, job_id).reason == "locked")
    told = explained(node, job_id)
    pid = other.connection.info.backend_pid
    assert f"session {pid}" in told.detail
    assert f"pg_terminate_backend({pid})" in told.remedy
    other.connection.rollback()
    assert explained(node, job_id).reason == before


async def test_a_lock_of_several(node: Master, other: Master, third: Master) -> None:
    """One of them is named, and once it has ended the other one."""
    (job_id,) = node.enqueue({})
    holders = {}
    for session in (other, third):
        session.connection.autocommit = False
        session.cursor.execute(f"select from txqueue.job where job_id = {job_id} for share")
        holders[session.connection.info.backend_pid] = session
    await eventually(lambda: explained(node, job_id).reason == "locked")
    for _ in (1, 2):
        told = explained(node, job_id).detail
        [pid] = [pid for pid in holders if f"session {pid}" in told]
        holders.pop(pid).connection.rollback()
    assert explained(node, job_id).reason == "next"


async def test_a_session_of_a_node_is_not_named(dsn: str, node: Master, other: Master) -> None:
    """But the one for which it waits itself, while it has locked the row."""
    (job_id,) = node.enqueue({})
    with closing(psycopg2.connect(dsn, application_name="txqueue node")) as claim:
        claim.cursor().execute(LOCK_ROW.format(job=job_id))
        other.connection.autocommit = False
        other.cursor.execute("select from txqueue.node_info for update")
        waiting = deferToThread(claim.cursor().execute, "select from txqueue.node_info for update")
        try:
            await eventually(lambda: explained(node, job_id).reason == "locked")
            assert f"session {other.connection.info.backend_pid}" in explained(node, job_id).detail
        finally:
            other.connection.rollback()
            await waiting
        assert explained(node, job_id).reason == "next"


@pytest.mark.parametrize("has_key", [True, False])
def test_a_payload_in_clear_of_a_type_published_as_encrypted_later(
    node: Master, *, has_key: bool
) -> None:
    """No key and no other version lets it run: it is to be enqueued again."""
    call = "select txqueue.enqueue('sealed.kind', %s)"
    in_clear, sealed = (node.value(call, text) for text in ('{"a": 1}', '{"encrypted": "gAAA"}'))
    assert explained(node, in_clear).reason != "unreadable"
    node.publish("sealed.kind", policy={"encrypted": True})
    if not has_key:
        report = {"keyless": ["sealed.kind"]}
        node.cursor.execute("update txqueue.node_info set report = %s", (json.dumps(report),))
    told = explained(node, in_clear)
    assert told.reason == "unreadable"
    assert "in clear, but sealed.kind is encrypted" in told.detail
    assert told.remedy.startswith(f"txqueue cancel {in_clear}, and enqueue it again")
    assert explained(node, sealed).reason == ("no_capable_node" if has_key else "no_key")
    # A node of the release before reads it.
    node.cursor.execute(
        "update txqueue.node_info set work_types = '{sealed.kind}',"
        " type_versions = '{sealed.kind#aa}', report = report - 'keyless'"
    )
    assert explained(node, in_clear).reason != "unreadable"
    with Session(node.connection.dsn) as session:
        reasons = session.find(about_blocked("txqueue")).reasons
        assert "unreadable" not in {each["reason"] for each in reasons}


def test_running(node: Master) -> None:
    """It says where, and since when; of a node that is silent it says what will happen."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    assert explained(node, job_id).reason == "assigned"
    node.value(
        "select txqueue.started(%s, array[%s]::bigint[], array[%s]::bigint[], array[90.0])",
        *(node.incarnation, chunk.assignment, job_id),
    )
    assert explained(node, job_id).detail == "it has been running on node node for 1 min 30 s"
    node.cursor.execute("update txqueue.node_info set heartbeat_at = now() - interval '1 hour'")
    assert explained(node, job_id).reason == "rescue"


@pytest.mark.parametrize(
    ("outcome", "error", "reason"),
    [
        ("done", None, "done"),
        ("failed", "ValueError: no", "failed"),
        ("failed", "poison: 5 worker processes died while they held this job", "quarantine"),
        ("cancelled", "not wanted", "cancelled"),
    ],
)
def test_ended(outcome: str, error: str | None, reason: str, node: Master) -> None:
    """An ended job says how it ended."""
    (job_id,) = node.enqueue({})
    node.settle(node.claim()[0], outcome, error=error)
    told = explained(node, job_id)
    assert told.reason == reason
    assert (error or "it was done").removeprefix("poison: ") in told.detail


def test_no_such_job(node: Master) -> None:
    """There is nothing to explain."""
    assert node.value("select txqueue.explain_facts(1)") is None


def test_a_child_whose_parent_failed(node: Master) -> None:
    """A retry of it alone is refused: its explanation names the parent, which is to run first."""
    (parent,) = node.enqueue({})
    (child,) = node.enqueue({"after": [parent]})
    node.settle(node.claim()[0], "failed", error="no")
    told = explained(node, child)
    assert (told.state, told.reason) == ("cancelled", "parents")
    assert told.detail.endswith(f"it cannot run unless these are done: job {parent} (failed)")
    assert told.remedy.endswith(f"txqueue retry {parent} {child}")
    assert retried(node, child) == []
    assert retried(node, parent, child) == [parent, child]
    assert explained(node, child).state == "waiting"


def test_a_child_of_many_parents(node: Master) -> None:
    """The numbers of too many parents are not stored: the remedy is a copy."""
    ids = node.enqueue(*[{} for _ in range(101)])
    (child,) = node.enqueue({"after": ids})
    node.value("select cancelled from txqueue.cancel(%s, 'me')", ids[:1])
    told = explained(node, child)
    assert (told.state, told.reason) == ("cancelled", "parents")
    named = "select jsonb_typeof(options -> 'after') = 'array' from txqueue.job where job_id = %s"
    is_named = node.value(named, child)
    assert (f"txqueue repeat {child}" in told.remedy) is not is_named
    assert retried(node, child) == []


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_job_whose_unique_key_another_one_holds(outcome: str, node: Master) -> None:
    """It cannot be retried until the other job, which is named, has ended."""
    (job_id,) = node.enqueue({"unique": "k"})
    node.settle(node.claim()[0], outcome, error="no")
    assert explained(node, job_id).reason == outcome
    (holder,) = node.enqueue({"unique": "k"})
    told = explained(node, job_id)
    assert (told.state, told.reason) == (outcome, "unique")
    assert told.detail.endswith(f"job {holder} holds its unique key now")
    assert told.remedy == f"once job {holder} has ended: txqueue retry {job_id}"
    assert retried(node, job_id) == []
    node.complete(node.claim()[0])
    assert f"txqueue retry {job_id}" in explained(node, job_id).remedy
    assert retried(node, job_id) == [job_id]


def retried(node: Master, *ids: int) -> list[int]:
    """Retry jobs as an operator does; return the numbers of those that run again."""
    found: list[int] = node.value("select retried from txqueue.retry(%s, 'me')", list(ids))
    return found

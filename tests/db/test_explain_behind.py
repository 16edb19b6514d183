"""Which jobs a job is said to wait for: those that go first, and those that do not end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.test_explain import explained
from txqueue.policy.blockers import Gravity, judged
from txqueue.store.inquiries.reader import Reader, Session
from txqueue.store.reads.queue_state import about_all, about_blocked

FULL = {"free": 0, "largest": 0, "capacity": 100, "weight": 0, "takes_suspects": True}
CROWDED = {"left": {"jobs": [1], "weight": 60, "crowded": 1}, "room": {**FULL, "attainable": 40}}


@pytest.mark.parametrize(
    ("report", "before"),
    [
        (CROWDED, {"weight": 50}),
        ({"closed": {}, "room": {**FULL, "takes_suspects": False}}, {"deaths": 2}),
        ({"closed": {}, "room": FULL}, {"work_type": "blocked.kind"}),
    ],
)
def test_jobs_that_claims_pass_over_do_not_go_first(
    report: dict[str, Any], before: dict[str, Any], node: Master
) -> None:
    """Too heavy beside threads, a suspect without a process, and one whose node is blocked."""
    first, job_id = node.enqueue({}, {})
    node.publish("blocked.kind")
    blocked = {"workers": 1, "closed": {"blocked": 1}, "room": FULL}
    node.cursor.execute(
        "insert into txqueue.node_info (name, hostname, pid, incarnation, lease, capacity, queues,"
        " work_types, report) values ('blocked', '', 1, 99, '1 hour', 100, '{default}',"
        " '{test.kind, blocked.kind}', %s)",
        (json.dumps(blocked),),
    )
    node.reports(workers=1, **report)
    assert explained(node, job_id).detail.startswith("1 job goes first")
    for name, value in before.items():
        sql = f"update txqueue.job_ready set {name} = %s where job_id = %s"
        node.cursor.execute(sql, (value, first))
    assert explained(node, job_id).detail.startswith("it is next")


def test_a_group_behind_a_job_that_blocks_its_worker(node: Master, dsn: str) -> None:
    """Explain and status say which job does not end, and what ends it; other groups just wait."""
    _, blocker = node.enqueue({"group": "free"}, {"group": "held"})
    node.claim()
    node.enqueue({"group": "free"})
    behind = node.enqueue(*[{"group": "held"}] * 2)
    node.claim()
    node.reports(workers=2, closed={"blocked": 1}, blocking=[blocker], maybe_blocking=[], beside={})
    told = explained(node, behind[0])
    assert told.reason == "group"
    assert f"job {blocker} of its group does not end: it has been" in told.detail
    assert told.detail.endswith("in a worker that does not answer: it blocks the worker")
    assert f"txqueue restart {blocker}" in told.remedy
    assert f"txqueue cancel {blocker}" in told.remedy
    with Session(dsn) as session:
        status = Reader(session).find(about_all("txqueue"))
    seen = {(each["reason"], each["gravity"], each["jobs"]) for each in status["blocked"]}
    assert seen == {("group", "course", 1), ("group", "fault", 2)}
    assert [each["what"] for each in status["warnings"] if str(behind[0]) in each["what"]]
    node.value("select requested from txqueue.cancel(%s, 'ann')", [blocker])
    assert "; ann cancelled it" in explained(node, blocker).detail


def test_a_limit_that_jobs_keep_whose_workers_do_not_answer(node: Master) -> None:
    """Nothing starts in its turn then: the jobs are named, with what ends them."""
    node.value("select txqueue.set_limit('queue', 'default', 1, null, null, null, null, 'ann')")
    running, job_id = node.enqueue({}, {})
    node.claim()
    assert explained(node, job_id).remedy.startswith("nothing: it starts when one of them ends")
    node.reports(workers=2, closed={"blocked": 1}, blocking=[running], maybe_blocking=[], beside={})
    told = explained(node, job_id)
    assert told.detail.endswith(f"(1 job), in workers that do not answer: job {running}")
    assert told.remedy.startswith(f"see: txqueue explain {running}; to allow more: txqueue limit")


def blocks(node: Master, *ids: int) -> None:
    """Report, as a heartbeat does, that each of these jobs blocks a worker."""
    node.reports(
        workers=len(ids) + 1,
        closed={"blocked": len(ids)},
        blocking=list(ids),
        maybe_blocking=[],
        beside={},
    )


@pytest.mark.parametrize("reason", ["unique", "parents"])
def test_behind_a_blocker_that_also_holds_the_group(reason: str, node: Master) -> None:
    """Another job of the group ends, but the key or the child needs the end of this one."""
    node.value("select txqueue.set_limit('group', 'g', 2, null, null, null, null, 'ann')")
    key = {"group": "g", "unique": "k", "unique_mode": "again"}
    blocker, _ = node.enqueue(key, {"group": "g"})
    node.claim()
    child = {"group": "g", "after": [blocker]}
    (job_id,) = node.enqueue(key if reason == "unique" else child)
    assert explained(node, job_id).remedy.startswith("nothing: it becomes ready")
    blocks(node, blocker)
    told = explained(node, job_id)
    assert told.reason == reason
    assert f"; job {blocker} does not end: it has been" in told.detail
    assert told.remedy.startswith(f"to end the run and start it again: txqueue restart {blocker}")


def test_one_of_many_parents_blocks_its_worker(node: Master) -> None:
    """It is found and named, though only the first few are listed."""
    parents = node.enqueue(*[{}] * 12)
    node.claim()
    (job_id,) = node.enqueue({"after": parents})
    assert explained(node, job_id).remedy.startswith("nothing: it becomes ready then")
    blocks(node, parents[-1])
    told = explained(node, job_id)
    assert f"; job {parents[-1]} does not end: it has been" in told.detail
    assert f"txqueue cancel {parents[-1]}" in told.remedy


def test_one_of_many_parents_has_no_node(node: Master) -> None:
    """Parents of each kind are looked at."""
    parents = node.enqueue(*[{}] * 12, {"queue": "unserved"})
    (job_id,) = node.enqueue({"after": parents})
    told = explained(node, job_id)
    assert f"; job {parents[-1]} does not run: no live node serves" in told.detail


def test_one_of_many_jobs_that_go_first_has_no_node(node: Master) -> None:
    """Jobs of each kind that go first in the group are looked at."""
    *_, stopped, job_id = node.enqueue(
        *[{"group": "g"}] * 12, {"group": "g", "queue": "unserved"}, {"group": "g"}
    )
    told = explained(node, job_id)
    assert told.reason == "group"
    assert f"job {stopped}, which goes first in its group, too, does not run" in told.detail


def test_a_lost_job_comes_to_its_group_behind_one_that_has_no_node(
    node: Master, other: Master
) -> None:
    """Its rescue alone does not make it run."""
    (lost,) = node.enqueue({"group": "g"})
    node.claim()
    sql = "update txqueue.node_info set heartbeat_at = now() - interval '2 hours' where name = %s"
    node.cursor.execute(sql, ("node",))
    assert explained(other, lost).remedy.startswith("nothing: another node rescues it")
    (first,) = other.enqueue({"group": "g", "queue": "unserved", "priority": 9})
    told = explained(other, lost)
    assert told.reason == "rescue"
    assert f"; job {first} does not run: no live node serves" in told.detail


def test_urgent_jobs_of_a_reserve_go_before_those_of_a_tenant(node: Master) -> None:
    """Though they rank behind: they have the turn of the jobs without a tenant, too."""
    first, later = node.enqueue({"tenant": "ann"}, {"tenant": "ann", "priority": 7})
    node.cursor.execute("update txqueue.job_ready set queue = 'mail' where job_id = %s", (later,))
    node.cursor.execute("update txqueue.node_info set capacity = 1, queues = '{default,mail}'")
    sql = "update txqueue.job_ready set rank = now() - interval '1 day' where job_id = %s"
    node.cursor.execute(sql, (first,))
    assert explained(node, first).reason == "next"
    node.value("select txqueue.set_limit('queue', 'mail', null, null, null, null, 0.5, 'ann')")
    assert explained(node, first).detail.startswith("1 job goes first")


def take_one(node: Master) -> None:
    """Claim one job; by chance the tenant has no turn in a claim."""
    assert any(node.take(1, queues=["mail", "default"]).ids for _ in range(50))


@pytest.mark.parametrize("kind", ["queue", "tenant"])
@pytest.mark.parametrize("what", ["concurrency", "rate"])
def test_jobs_beyond_a_limit_do_not_go_first(kind: str, what: str, node: Master) -> None:
    """Only as many as it lets start now."""
    limited = {"tenant": "ann", **({"queue": "mail"} if kind == "queue" else {})}
    node.cursor.execute("update txqueue.node_info set capacity = 2, queues = '{default,mail}'")
    key = "mail" if kind == "queue" else "ann"
    sql = "select txqueue.set_limit(%s, %s, %s::integer, %s, %s::integer, null, null, 'me')"
    *_, last = node.enqueue(*[limited] * 5, {"weight": 2})
    assert explained(node, last).detail.startswith("5 jobs go first")
    given = (2, None, None) if what == "concurrency" else (None, 0.001, 2)
    node.value(sql, kind, key, *given)
    assert explained(node, last).detail.startswith("2 jobs go first")
    take_one(node)
    assert explained(node, last).detail.startswith("1 job goes first")
    take_one(node)
    assert explained(node, last).reason == "next"


def test_the_heaviest_tenant_may_go_first_of_a_limited_queue(node: Master) -> None:
    """The limit lets one of them start, and the tenants' turns tell which."""
    node.cursor.execute("update txqueue.node_info set capacity = 4, queues = '{default,mail}'")
    node.value("select txqueue.set_limit('queue', 'mail', 1, null, null, null, null, 'me')")
    light, heavy = {"tenant": "ann", "priority": 9}, {"tenant": "bob", "weight": 3}
    *_, job_id = node.enqueue(
        {**light, "queue": "mail"}, {**heavy, "queue": "mail"}, {"weight": 2, "tenant": "eve"}
    )
    told = explained(node, job_id)
    assert (told.reason, told.detail.startswith("1 job goes first")) == ("no_free_capacity", True)


def test_many_jobs_of_a_group_block_their_workers(node: Master) -> None:
    """While another one runs, there is no fault; once all are blocked, there is."""
    node.value("select txqueue.set_limit('group', 'g', 12, null, null, null, null, 'ann')")
    ids = node.enqueue(*[{"group": "g"}] * 12)
    node.claim()
    (job_id,) = node.enqueue({"group": "g"})
    blocks(node, *ids[:-1])
    assert explained(node, job_id).remedy.startswith("nothing: it becomes ready when they end")
    blocks(node, *ids)
    assert f"job {ids[0]} of its group does not end" in explained(node, job_id).detail


def test_processes_for_suspects_none_of_which_can_start_another(node: Master) -> None:
    """Neither the next suspect nor one that its node holds already starts as one of them ends."""
    claimed, job_id = node.enqueue({}, {})
    room = {"free": 9, "largest": 9, "capacity": 9, "weight": 1, "takes_suspects": False}
    common = {"workers": 1, "closed": {}, "blocking": [], "maybe_blocking": [], "beside": {}}
    node.cursor.execute("update txqueue.job_ready set deaths = 3")
    node.claim()
    node.reports(**common, room={**room, "suspects_behind": []})
    assert explained(node, job_id).remedy.startswith("nothing: it starts when one of those ends")
    assert explained(node, claimed).remedy.startswith("nothing: it starts once that process")
    node.reports(**common, room={**room, "suspects_behind": [91, 92]})
    for each, reason in (job_id, "suspect"), (claimed, "assigned"):
        told = explained(node, each)
        assert told.reason == reason
        assert "; all such processes (node) are kept by job 91, job 92, and do not" in told.detail
        assert told.remedy.startswith("see: txqueue explain 91")


def test_a_heavy_job_that_has_waited_for_long_is_warned_of(node: Master, dsn: str) -> None:
    """It runs without an act, but others wait behind it on a node with room for them."""
    node.enqueue({})
    node.claim()
    heavy, light = node.enqueue({"weight": 100}, {})
    room = {"free": 99, "largest": 99, "capacity": 100, "weight": 1, "takes_suspects": True}
    node.reports(workers=1, closed={}, room=room)
    assert "others wait" not in explained(node, heavy).detail
    node.cursor.execute(
        "update txqueue.job_ready set enqueued_at = now() - interval '2 min',"
        " not_before = now() - interval '2 min'"
    )
    told = explained(node, heavy)
    assert told.detail == (
        "it is next, its weight is 100, and no worker has more than 99 free: others wait behind it,"
        " whatever their weight"
    )
    assert told.remedy.startswith("nothing: it starts once a worker has that room")
    assert "one weighs 100, and no worker has more than 99 free" in explained(node, light).detail
    with Session(dsn) as session:
        warnings = Reader(session).find(about_all("txqueue"))["warnings"]
    assert [each["kind"] for each in warnings] == ["heavy_head"]


def blocked_counts(dsn: str) -> set[tuple[str, str, int]]:
    """How many jobs status counts for which reason and gravity."""
    with Session(dsn) as session:
        rows = Reader(session).find(about_blocked("txqueue")).reasons
    return {(row["reason"], row["gravity"], row["jobs"]) for row in rows}


@pytest.mark.parametrize("way", ["unique", "parents", "group"])
def test_jobs_of_a_type_wait_behind_jobs_of_which_some_are_stopped(
    way: str, node: Master, dsn: str
) -> None:
    """Status does not judge all of them by one."""
    keys: dict[str, Any] = {"unique": {"unique_mode": "again"}, "parents": {}, "group": {}}[way]
    named = [{**keys, **({way: str(each)} if way != "parents" else {})} for each in range(3)]
    before = node.enqueue(*named)
    if way == "unique":
        node.claim()
        blocks(node, before[-1])
    else:
        sql = "update txqueue.job_ready set queue = 'unserved' where job_id = %s"
        node.cursor.execute(sql, (before[-1],))
    node.enqueue(*named) if way != "parents" else [
        node.enqueue({"after": [each]}) for each in before
    ]
    found = blocked_counts(dsn)
    assert (way, "fault", 1) in found
    assert (way, "course", 2) in found


def test_heavy_jobs_are_told_from_light_ones(node: Master, dsn: str) -> None:
    """Those that nodes have room for are not counted with those that they have not."""
    room = {"free": 9, "largest": 9, "capacity": 100, "weight": 0, "takes_suspects": True}
    node.reports(workers=1, closed={}, room=room)
    light, heavy, *_ = node.enqueue({}, {"weight": 50}, {"weight": 50}, {"weight": 50})
    assert explained(node, light).reason == "next"
    assert explained(node, heavy).reason == "no_free_capacity"
    assert blocked_counts(dsn) == {("no_free_capacity", "course", 3)}


@pytest.mark.parametrize("reason", ["parents", "call", "unique", "group"])
@pytest.mark.parametrize("is_far", [False, True])
def test_behind_a_job_that_waits_for_a_signal(reason: str, node: Master, *, is_far: bool) -> None:
    """The remedy is the signal, also through another job; none of them is a warning."""
    key = {"unique": "k", "unique_mode": "again"}
    (blocker,) = node.enqueue({"group": "g", **key})
    (chunk,) = node.claim()
    wait = {"name": "approval", "kind": "signal", "signal": "ok", "hold_group": True}
    node.settle(chunk, "suspended", waits=[wait])
    if reason == "call":
        (job_id,) = node.enqueue({})
        (caller,) = node.claim()
        node.settle(caller, "suspended", waits=[{"name": "part", "kind": "call", "child": blocker}])
    else:
        options: dict[str, dict[str, Any]] = {
            "parents": {"after": [blocker]},
            "unique": key,
            "group": {"group": "g"},
        }
        (job_id,) = node.enqueue(options[reason])
    if is_far:
        (job_id,) = node.enqueue({"after": [job_id]})
    told = explained(node, job_id)
    assert told.reason == ("parents" if is_far else reason)
    assert told.remedy.endswith(f"txqueue signal {blocker} ok VALUE")
    assert f"job {blocker}" in told.detail
    assert "does not end: it waits at step 'approval' for the signal 'ok'" in told.detail
    facts = node.value("select txqueue.explain_facts(%s)", job_id)
    assert judged(facts).gravity is Gravity.COURSE

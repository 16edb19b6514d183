"""Which jobs a job is said to wait for, and which go first."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.test_explain import explained
from txqueue.store.inquiries.reader import Session
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
        warnings = session.find(about_all("txqueue"))["warnings"]
    assert [each["kind"] for each in warnings] == ["heavy_head"]


def blocked_counts(dsn: str) -> set[tuple[str, str, int]]:
    """How many jobs status counts for which reason and gravity."""
    with Session(dsn) as session:
        rows = session.find(about_blocked("txqueue")).reasons
    return {(row["reason"], row["gravity"], row["jobs"]) for row in rows}


def test_heavy_jobs_are_told_from_light_ones(node: Master, dsn: str) -> None:
    """Those that nodes have room for are not counted with those that they have not."""
    room = {"free": 9, "largest": 9, "capacity": 100, "weight": 0, "takes_suspects": True}
    node.reports(workers=1, closed={}, room=room)
    light, heavy, *_ = node.enqueue({}, {"weight": 50}, {"weight": 50}, {"weight": 50})
    assert explained(node, light).reason == "next"
    assert explained(node, heavy).reason == "no_free_capacity"
    assert blocked_counts(dsn) == {("no_free_capacity", "course", 3)}


@pytest.mark.parametrize("reason", ["parents", "call", "unique", "group"])
def test_a_job_behind_another_one_names_the_command_that_explains_that(
    reason: str, node: Master
) -> None:
    """Whatever keeps the other one is said of that one only."""
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
    told = explained(node, job_id)
    assert told.reason == reason
    assert str(blocker) in told.detail
    assert told.remedy.startswith("nothing: ")
    assert told.remedy.endswith(f"; see: txqueue explain {blocker}")
    assert explained(node, blocker).remedy.endswith(f"txqueue signal {blocker} ok VALUE")


@pytest.mark.parametrize("way", ["group", "parents"])
def test_status_counts_a_stopped_job_apart_from_those_that_wait_for_it(
    way: str, node: Master, dsn: str
) -> None:
    """These run in their turn, once what stops that one is repaired."""
    stopped, _ = node.enqueue({"group": "g", "queue": "unserved"}, {})
    node.enqueue(*[{"group": "g"} if way == "group" else {"after": [stopped]}] * 2)
    assert blocked_counts(dsn) == {("no_capable_node", "fault", 1), (way, "course", 2)}


def test_a_parent_that_ends_lets_no_job_run_that_is_never_due(node: Master) -> None:
    """That is said while it waits for the parent."""
    (parent,) = node.enqueue({})
    (job_id,) = node.enqueue({"after": [parent], "not_before": "infinity"})
    told = explained(node, job_id)
    assert told.reason == "parents"
    assert told.detail.endswith(
        "after that it does not run: it is not to start before infinity, never"
    )
    assert told.remedy == f"to run it now: txqueue retry {job_id}"

"""Which jobs a job is said to wait for: those that go first, and those that do not end."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.test_explain import explained
from txqueue.store.inquiries.reader import Reader, Session
from txqueue.store.reads.queue_state import about_all

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
    assert explained(node, job_id).detail.startswith("1 job go first")
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

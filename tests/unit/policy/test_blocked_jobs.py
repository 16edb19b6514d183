"""How many jobs do not run for which reason, from the facts about one of each class."""

from __future__ import annotations

from typing import Any

from txqueue.policy.findings.blocked_jobs import COUNTED_BY_NAME, blocked_jobs, jobs_left_out
from txqueue.policy.findings.catalogue import warnings

FAR_MOMENT = "2031-01-31T12:00:00+00:00"
NOW = "2030-01-31T12:00:00+00:00"


def facts(job_id: int, **more: Any) -> dict[str, Any]:
    """A ready job, and one idle node that can run it."""
    job = {"job_id": job_id, "state": "ready", "queue": "mail", "work_type": "x", "group": None}
    job |= {"tenant": None, "weight": 1, "priority": 4, "deaths": 0, "not_before": NOW}
    node = {"name": "n", "state": "alive", "serves": True, "knows": True, "load": 0, "capacity": 9}
    given = {"job": job, "now": NOW, "nodes": [{**node, "held": 0, "incarnation": 1}]}
    ahead = {"jobs": 0, "weight": 0, "suspects": 0}
    return {**given, "controls": [], "group": None, "ahead": ahead, **more}


def counted(*found: tuple[int, dict[str, Any]]) -> list[dict[str, Any]]:
    """Count classes of so many jobs of the given facts."""
    rows = [
        {"queue": "mail", "work_type": "x", "jobs": jobs, "example": its["job"]["job_id"]}
        for jobs, its in found
    ]
    return blocked_jobs(rows, {its["job"]["job_id"]: its for _, its in found})


def test_classes_of_one_reason_are_counted_together_and_the_gravest_comes_first() -> None:
    """Jobs that nothing keeps from running, and examples that are gone, are left out."""
    limited = [{"kind": "queue", "concurrency": 1, "running": 1}]
    paused = [{"kind": "queue", "is_paused": True}]
    found = counted(
        (9, facts(1)),
        (5, facts(2, controls=limited)),
        (4, facts(3, nodes=[])),
        (3, facts(4, nodes=[])),
        (2, facts(5, controls=paused)),
    )
    seen = [(each["reason"], each["gravity"], each["jobs"], each["job_id"]) for each in found]
    assert seen == [
        ("no_capable_node", "fault", 7, 3),
        ("pause", "act", 2, 5),
        ("limit", "course", 5, 2),
    ]
    row = {"queue": "mail", "work_type": "x", "jobs": 1, "example": 8}
    assert blocked_jobs([row], {}) == []


def test_what_needs_an_act_is_warned_of_unless_that_is_counted_by_name() -> None:
    """The warning names an example, and has its remedy."""
    paused = [{"kind": "queue", "is_paused": True}]
    [node] = facts(1)["nodes"]
    apart = [{**node, "serves": False}, {**node, "knows": False}]
    found = counted(
        (7, facts(3, nodes=apart)), (4, facts(4, nodes=[])), (2, facts(5, controls=paused))
    )
    (warning,) = warnings({"blocked_jobs": found})
    assert warning["kind"] == "blocked_jobs"
    assert warning["what"].startswith("7 jobs do not run, such as job 3 (x): no live node both")
    assert warning["remedy"].startswith("start a node with")
    assert [each["kind"] for each in found] == ["blocked_jobs", "no_node", "paused"]
    assert {"no_node", "paused"} <= set(COUNTED_BY_NAME)


def test_what_would_stop_a_job_is_not_warned_of_long_before_its_moment() -> None:
    """Nodes may run again by then."""
    found = facts(3, nodes=[])
    job = {**found["job"], "state": "waiting", "waiting_for": "time", "attempt": 0, "error": None}
    for moment, gravity in (("2030-01-31T12:05:00+00:00", "fault"), (FAR_MOMENT, "course")):
        its = {**found, "job": {**job, "not_before": moment}}
        assert [each["gravity"] for each in counted((1, its))] == [gravity]


def test_what_is_left_out_is_said() -> None:
    """Jobs beyond those that are looked at, and the smaller classes; nothing where all count."""
    row = {"state": "ready", "jobs": 4, "jobs_of_state": 9, "all_jobs": 12, "classes": 3}
    assert jobs_left_out([row], 9) == [
        "only 9 ready jobs were looked at; there may be more",
        "8 jobs of 2 smaller classes do not count",
    ]
    assert jobs_left_out([{**row, "classes": 1}], 10) == []
    assert jobs_left_out([], 9) == []

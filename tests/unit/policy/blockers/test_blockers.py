"""Why a job does not run, as far as that needs no database."""

from typing import Any

from txqueue.policy.blockers import explain

NOW = "2030-01-31T12:00:00+00:00"
SOON = "2030-01-31T12:00:10+00:00"


def test_a_workset_s_job_that_finds_nothing_to_take_says_what_is_left() -> None:
    """And not that it is not to start before some moment, which would explain nothing."""
    job = {"job_id": 7, "state": "waiting", "waiting_for": "time", "not_before": SOON}
    job |= {"queue": "mail", "work_type": "letter:workset", "tenant": None, "group": None}
    facts = {
        "job": {**job, "attempt": 0, "error": None},
        "now": NOW,
        "nodes": [{"name": "a", "state": "alive", "serves": True, "knows": True}],
        "controls": [],
        "workset": {"name": "letter", "remaining": 1200},
    }
    told = explain(facts)
    assert told.reason == "workset"
    assert told.detail.startswith("the workset letter has 1,200 items left, held by its other jobs")
    assert explain({**facts, "workset": None}).reason == "time"


def test_a_job_that_its_node_may_not_hold() -> None:
    """It is not said to run."""
    job = {
        "job_id": 7,
        "state": "assigned",
        "node": "a",
        "incarnation": 1,
        "started_at": None,
        "deaths": 0,
    }
    facts = {
        "job": {**job, "assigned_at": NOW},
        "now": SOON,
        "nodes": [{"incarnation": 1, "missing": 2}],
    }
    assert "does not hold all jobs that are assigned to it" in explain(facts).detail
    assert "does not hold" not in explain({**facts, "nodes": [{"incarnation": 1}]}).detail


def test_a_job_on_a_node_whose_workers_cannot_start_it() -> None:
    """It is not said to start soon."""
    job = {
        "job_id": 7,
        "state": "assigned",
        "node": "a",
        "incarnation": 1,
        "started_at": None,
        "deaths": 0,
    }
    facts = {"job": {**job, "assigned_at": NOW}, "now": SOON}
    blocked: dict[str, Any] = {"incarnation": 1, "workers": 2, "unable": 2}
    assert "of 2 workers 2 blocked" in explain({**facts, "nodes": [blocked]}).detail
    blocking = {**blocked, "blocking": [7, 8]}
    told = explain({**facts, "nodes": [blocking]})
    assert told.reason == "running"
    assert "it blocks the worker" in told.detail
    other = {"job": {**job, "assigned_at": NOW, "job_id": 9}, "now": SOON, "nodes": [blocking]}
    assert "2 blocked by jobs 7, 8: a handler does not return" in explain(other).detail
    suspect = {"job": {**job, "assigned_at": NOW, "deaths": 2}, "now": SOON, "nodes": [blocked]}
    assert "runs in a process without other jobs" in explain(suspect).detail
    told = explain({**facts, "nodes": [{**blocked, "unable": 1}]})
    assert told.remedy.startswith("nothing: it runs, or starts")

"""Why a job does not run, as far as that needs no database."""

from typing import Any

import pytest
from attrs import evolve

from txqueue.errors import InvalidWork
from txqueue.model.results import read_result
from txqueue.policy.findings.explanation import Explanation, explain, refusal_text
from txqueue.policy.findings.obstacles import WorkerObstacle, worker_obstacle

NOW = "2030-01-31T12:00:00+00:00"
SOON = "2030-01-31T12:00:10+00:00"
HELD = {
    "job_id": 7,
    "state": "assigned",
    "node": "a",
    "incarnation": 1,
    "assigned_at": NOW,
    "started_at": None,
    "deaths": 0,
}


def test_a_workset_s_job_that_finds_nothing_to_take_says_what_is_left() -> None:
    """And not that it is not to start before some moment, which would explain nothing."""
    job = {"job_id": 7, "state": "waiting", "waiting_for": "time", "not_before": SOON}
    job |= {"queue": "mail", "work_type": "letter:workset", "tenant": None, "group": None}
    facts = {
        "job": {**job, "attempt": 0, "error": None},
        "now": NOW,
        "nodes": [{"name": "a", "state": "alive", "serves": True, "knows": True}],
        "controls": [],
        "group": None,
        "workset": {"name": "letter", "remaining": 1200},
    }
    told = explain(facts)
    assert told.reason == "workset"
    assert told.detail.startswith("the workset letter has 1,200 items left, held by its other jobs")
    assert explain({**facts, "workset": None}).reason == "time"


def test_what_a_step_keeps_is_repeated_from_it() -> None:
    """A plain retry would read it again: the end of a call, and a value that does not fit."""
    with pytest.raises(InvalidWork) as misfit:
        read_result("pay", bool, "3", 7)
    of_call = "job 9 is failed; this call keeps that; to repeat it: txqueue retry 7 --from pay"
    for error in (of_call, str(misfit.value)):
        _assert_repeated(error)


def _assert_repeated(error: str) -> None:
    job = {"job_id": 7, "state": "failed", "attempt": 1, "error": error}
    told = explain({"job": job, "now": NOW, "nodes": [], "controls": []})
    assert told.remedy == "fix the cause, then: txqueue retry 7 --from pay"


def test_a_refusal_is_one_sentence() -> None:
    """With a remedy, and without one, as a node gives none for a job that does not exist."""
    why = Explanation(99, "", "unknown", "there is no job 99", "")
    assert refusal_text(why) == "Job 99: there is no job 99."
    told = evolve(why, remedy="check the number")
    assert refusal_text(told) == "Job 99: there is no job 99; check the number."


def test_a_job_that_its_node_may_not_hold() -> None:
    """It is not said to run."""
    facts = {
        "job": HELD,
        "now": SOON,
        "nodes": [{"incarnation": 1, "missing": 2}],
    }
    assert "does not hold all jobs that are assigned to it" in explain(facts).detail
    assert "does not hold" not in explain({**facts, "nodes": [{"incarnation": 1}]}).detail


def test_a_job_on_a_node_whose_workers_cannot_start_it() -> None:
    """It is not said to start soon."""
    facts = {"job": HELD, "now": SOON}
    blocked: dict[str, Any] = {"incarnation": 1, "workers": 2, "unable": 2}
    assert "of 2 workers 2 blocked" in explain({**facts, "nodes": [blocked]}).detail
    blocking = {**blocked, "blocking": [7, 8]}
    told = explain({**facts, "nodes": [blocking]})
    assert told.reason == "running"
    assert "it blocks the worker" in told.detail
    other = {"job": {**HELD, "job_id": 9}, "now": SOON, "nodes": [blocking]}
    assert "2 blocked by jobs 7, 8: a handler does not return" in explain(other).detail
    suspect = {"job": {**HELD, "deaths": 2}, "now": SOON, "nodes": [blocked]}
    assert "runs in a process without other jobs" in explain(suspect).detail
    told = explain({**facts, "nodes": [{**blocked, "unable": 1}]})
    assert told.remedy.startswith("nothing: it runs, or starts")


def test_a_node_whose_application_is_not_imported() -> None:
    """Its log has the reason; there is no worker that --kill-stuck could replace."""
    remedy = "see the node's log: the import of the application may fail"
    assert worker_obstacle({"workers": 0}) == WorkerObstacle(
        "no worker process runs", False, remedy
    )
    starting = "its workers are starting: the application is being imported"
    report = {"workers": 0, "closed": {"starting": 2}}
    assert worker_obstacle(report) == WorkerObstacle(starting, is_passing=True)
    facts = {"job": HELD, "now": SOON, "nodes": [{"incarnation": 1, "workers": 0}]}
    assert explain(facts).remedy == remedy


@pytest.mark.parametrize("started_at", [None, NOW])
def test_jobs_in_a_worker_that_does_not_answer(started_at: str | None) -> None:
    """The one that blocks it is named, and no act on innocent ones is suggested."""
    job = {
        "state": "assigned",
        "node": "a",
        "incarnation": 1,
        "deaths": 0,
        "started_at": started_at,
    }
    node = {"incarnation": 1, "workers": 2, "unable": 2, "blocking": [7], "beside": {"8": 7}}
    node |= {"maybe_blocking": [3, 4, 5]}

    def told(job_id: int) -> tuple[str, str]:
        its = {**job, "job_id": job_id, "assigned_at": NOW}
        found = explain({"job": its, "now": SOON, "nodes": [node]})
        return found.detail.partition("does not answer: ")[2], found.remedy

    goes_on = "nothing: it goes on once the handler that blocks its worker returns"
    assert told(7)[0] == "it blocks the worker"
    assert told(7)[1].startswith("to end the run and start it again: txqueue restart 7")
    assert told(8) == ("job 7 blocks the worker", f"{goes_on}; see: txqueue explain 7")
    assert told(4) == ("it, or one of 2 jobs beside it, blocks the worker", goes_on)
    assert worker_obstacle(node) == WorkerObstacle(
        "of 2 workers 2 blocked by job 7 and one of jobs 3, 4, 5: a handler does not return, or"
        " the process is stopped"
    )


@pytest.mark.parametrize(
    ("job_id", "is_restart", "act", "remedy"),
    [
        (6, False, "cancelled", "nothing: its node is notified by its next heartbeat"),
        (7, False, "cancelled", "nothing: its node kills the worker"),
        (3, True, "restarted", "nothing: its node kills the worker"),
        (8, True, "restarted", "nothing: the run ends once the handler that blocks its worker"),
    ],
)
def test_what_an_operator_has_asked_of_a_run_is_said(
    job_id: int, act: str, remedy: str, *, is_restart: bool
) -> None:
    """With what ends the run, as far as it is not over."""
    node = {"incarnation": 1, "workers": 2, "unable": 2, "blocking": [7], "beside": {"8": 7}}
    node |= {"maybe_blocking": [3, 4]}
    job = {**HELD, "job_id": job_id, "started_at": NOW}
    request = {"who": "ann", "is_restart": is_restart, "at": NOW}
    told = explain({"job": job, "now": SOON, "nodes": [node], "request": request})
    assert told.detail.endswith(f"; ann {act} it 10 s ago, and the run has not ended yet")
    assert told.remedy.startswith(remedy)

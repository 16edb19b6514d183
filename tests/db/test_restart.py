"""Runs that an operator ends so that their jobs run again: tokens, groups, and what is recorded."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.db.masters import Master, emptied, master
from tests.db.stored import Taken


def restart(session: Master, *ids: int, is_counted: bool = False) -> tuple[Any, Any, Any]:
    """Restart jobs as an operator."""
    session.cursor.execute(
        "select restarted, requested, refused from txqueue.restart(%s::bigint[], 'ann', %s)",
        (list(ids), is_counted),
    )
    [row] = session.cursor.fetchall()
    return row


def ends(session: Master) -> tuple[Any, Any]:
    """What a heartbeat tells the node to end: cancelled and restarted jobs."""
    session.cursor.execute(
        "select cancels, restarts from txqueue.heartbeat(%s, 0)", (session.incarnation,)
    )
    [row] = session.cursor.fetchall()
    return row


def one(node: Master, **job: object) -> tuple[int, Taken]:
    """A job that a node holds."""
    (job_id,) = node.enqueue(job)
    (chunk,) = node.claim()
    return job_id, chunk


@pytest.fixture
def other(node: Master, dsn: str) -> Any:
    """Another node."""
    with master(dsn, "other") as session:
        yield session


def test_the_node_is_told_which_run_to_end(node: Master, other: Master) -> None:
    """Not the new one; for a minute, as a message may be lost."""
    job_id, chunk = one(node)
    restart(other, job_id)
    (again,) = node.claim()
    for _ in range(2):
        assert ends(node) == ([], [[chunk.assignment, job_id, "ann"]])
    assert ends(other) == ([], [])
    node.cursor.execute("update txqueue.request set at = at - interval '61 s'")
    assert ends(node) == ([], [])
    assert node.complete(again) == 1


def test_a_job_of_a_group_returns_once_its_run_has_ended(node: Master) -> None:
    """Or two of the group would run at a time."""
    first, _ = node.enqueue(*[{"group": "g"}] * 2)
    (chunk,) = node.claim()
    held = [[node.incarnation, chunk.assignment, first]]
    for _ in range(2):
        assert restart(node, first) == ([], held, [])
        assert node.claim() == []
    assert ends(node) == ([], [[chunk.assignment, first, "ann"]])
    assert node.settle(chunk, "snooze", delay=0.0) == [first]
    assert node.job(first)["attempt"] == 0
    assert node.claimed_ids() == [first]
    assert node.value("select count(*) from txqueue.failed_attempt") == 1


def test_a_restart_of_what_does_not_run_is_refused(node: Master) -> None:
    """Also the second one in a row."""
    job_id, _ = one(node)
    (done,) = node.enqueue({})
    (chunk,) = node.claim()
    node.complete(chunk)
    (waiting,) = node.enqueue({"not_before": "2100-01-01T00:00:00Z"})
    assert restart(node, job_id)[2] == []
    assert restart(node, job_id, done, waiting, 10**9) == ([], [], [job_id, done, waiting, 10**9])


def test_a_restart_is_recorded_and_no_failure(node: Master) -> None:
    """With the operator, and in the job's own list of runs."""
    job_id, _ = one(node)
    node.cursor.execute(
        "update txqueue.job_assigned set started_at = now() - interval '9 min' where job_id = %s",
        (job_id,),
    )
    restart(node, job_id)
    node.cursor.execute("select attempt, error, restarted_by from txqueue.failed_attempt")
    assert node.cursor.fetchall() == [(1, "restarted by ann", "ann")]
    assert node.value("select count(*) from txqueue.minute_failures(now() - interval '1 min')") == 0
    node.cursor.execute("select who, what, subject, detail from txqueue.action")
    [(who, what, subject, detail)] = node.cursor.fetchall()
    assert (who, what, subject) == ("ann", "restart", f"job {job_id}")
    assert (detail["jobs"], detail["restarted"], detail["refused"]) == ([job_id], 1, 0)
    (again,) = node.claim()
    node.settle(again, "retry", error="x", delay=9.0)
    assert node.value("select sum(failed) from txqueue.minute_failures(now() - interval '1 min')")


def test_a_job_whose_last_attempt_was_spent_runs_once_more(node: Master) -> None:
    """As the operator has asked for that; its next failure is final."""
    job_id, _ = one(node)
    restart(node, job_id, is_counted=True)
    assert node.claimed_ids() == [job_id]
    assert node.job(job_id)["attempt"] == 1


@pytest.mark.parametrize("group", [None, "g"])
def test_a_run_may_spend_its_attempt(node: Master, group: str | None) -> None:
    """If the operator says so; once, however often."""
    job_id, _ = one(node, group=group)
    for _ in range(2):
        restart(node, job_id, is_counted=True)
    assert node.job(job_id)["attempt"] == 1


def test_a_cancellation_outlasts_a_restart(node: Master) -> None:
    """Whichever comes first, and with or without a group."""
    for group in (None, "g"):
        for acts in ("restart", "cancel"), ("cancel", "restart"):
            job_id, chunk = one(node, group=group)
            for act in acts:
                node.value(f"select txqueue.{act}(%s::bigint[], 'ann')::text", [job_id])
            cancels, _ = ends(node)
            if cancels:
                assert cancels == [[chunk.assignment, job_id, "ann"]]
                node.settle(chunk, "cancelled")
            assert node.job(job_id)["state"] == "cancelled"
            node.cursor.execute("delete from txqueue.request")


def test_a_restart_waits_for_no_lock(node: Master, dsn: str) -> None:
    """A transaction that ends the job may need what this one holds: the job is refused."""
    first, chunk = one(node)
    (second,) = node.enqueue({})
    node.claim()
    with master(dsn, "third") as session:
        session.cursor.execute("begin")
        session.cursor.execute("select from txqueue.job where job_id = %s for update", (first,))
        assert restart(node, first, second)[2] == [first]
        session.cursor.execute("rollback")
    assert node.complete(chunk) == 1


KINDS = ["claim", "restart", "complete", "fail", "release"]
ACTS = st.lists(
    st.tuples(st.sampled_from(KINDS), st.integers(0, 9)),
    max_size=40,
)


def test_fencing_holds_against_a_model(node: Master) -> None:
    """Of all runs of a job, only an end of its latest, if that was not restarted, changes it."""

    @settings(max_examples=25, deadline=None)
    @given(ACTS)
    def check(acts: list[tuple[str, int]]) -> None:
        emptied(node)
        node.cursor.execute("delete from txqueue.request")
        play(node, acts)

    check()


def play(node: Master, acts: list[tuple[str, int]]) -> None:
    """Do all acts to three jobs, and compare with the model: which run of each job holds."""
    ids = node.enqueue({}, {"group": "g"}, {"group": "h"})
    runs: list[tuple[int, Taken]] = []
    holding: dict[int, int] = {}
    for act, number in acts:
        if act == "claim":
            for chunk in node.claim(1):
                [job_id] = chunk.ids
                assert job_id not in holding
                holding[job_id] = len(runs)
                runs.append((job_id, chunk))
        elif act == "restart":
            job_id = ids[number % 3]
            restarted, requested, refused = restart(node, job_id)
            assert bool(refused) == (job_id not in holding)
            assert bool(requested) == (job_id in holding and job_id != ids[0])
            if restarted:
                del holding[job_id]
        elif runs:
            run = number % len(runs)
            job_id, chunk = runs[run]
            changed = end(node, act, chunk)
            assert changed == (holding.get(job_id) == run)
            if changed:
                del holding[job_id]


def end(node: Master, act: str, chunk: Taken) -> bool:
    """Report the end of a run; return whether that changed its job."""
    if act == "complete":
        return node.complete(chunk) > 0
    if act == "fail":
        return node.settle(chunk, "retry", error="x", delay=0.0) != []
    return node.release(chunk.assignment) > 0

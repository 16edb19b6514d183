"""Acts of operators on jobs in each state: cancel, retry, change the priority."""

import psycopg2
import pytest

from tests.db.masters import Master

FINISHED = ("done", "failed", "cancelled")


def act(session: Master, call: str, *parameters: object) -> tuple[object, ...]:
    """Call a stored function as the operator ann; return the columns of its row."""
    session.cursor.execute(f"select * from txqueue.{call}", parameters)
    (row,) = session.cursor.fetchall()
    return tuple(row)


def cancel(session: Master, *ids: int) -> tuple[object, ...]:
    """Cancel jobs; returns the three lists."""
    return act(session, "cancel(%s::bigint[], 'ann')", list(ids))


def retry(session: Master, *ids: int) -> tuple[object, ...]:
    """Run jobs again; returns the two lists."""
    return act(session, "retry(%s::bigint[], 'ann')", list(ids))


def ended(session: Master, outcome: str, **columns: object) -> int:
    """Return a job that ended in some way."""
    (job_id,) = session.enqueue(columns)
    (chunk,) = session.claim()
    assert session.settle(chunk, outcome, error="why", delay=1000) == [job_id]
    return job_id


def heard(session: Master) -> list[list[object]]:
    """What the node is to cancel, as its heartbeat says."""
    requests: list[list[object]] = session.value(
        "select cancels from txqueue.heartbeat(%s, 0)", session.incarnation
    )
    return requests


def actions(session: Master) -> list[tuple[object, ...]]:
    """The recorded acts: operator, act, subject."""
    session.cursor.execute("select who, what, subject from txqueue.action order by action_id")
    return list(session.cursor.fetchall())


def test_an_unclaimed_job_is_cancelled_at_once(node: Master) -> None:
    """Ready, waiting for time, waiting for its type: all end, with who did it as their error."""
    ready, later, unknown = node.enqueue(
        {}, {"not_before": "2100-01-01T00:00:00Z"}, {"work_type": "unknown.type"}
    )
    assert cancel(node, ready, later, unknown) == ([later, unknown, ready], [], [])
    for job_id in (ready, later, unknown):
        job = node.job(job_id)
        assert (job["state"], job["error"]) == ("cancelled", "cancelled by ann")
        assert job["finished_at"] is not None
        assert job["waiting_for"] is None
    assert node.claim() == []
    assert actions(node) == [("ann", "cancel", "3 jobs")]


def test_what_has_ended_cannot_be_cancelled(node: Master) -> None:
    """Nor what never was, it is said which; what has failed is given up."""
    finished = [ended(node, outcome) for outcome in FINISHED]
    failed = finished.pop(FINISHED.index("failed"))
    assert cancel(node, *finished, failed, 10**9) == ([failed], [], [*finished, 10**9])
    assert [node.job(job_id)["state"] for job_id in finished] == ["done", "cancelled"]
    assert node.value("select detail->'refused' from txqueue.action") == 3


@pytest.mark.parametrize(
    "call",
    [
        "cancel(%s::bigint[], 'ann')",
        "retry(%s::bigint[], 'ann')",
        "restart(%s::bigint[], 'ann')",
        "set_priority(%s::bigint[], 7, 'ann')",
    ],
)
def test_what_changes_nothing_is_not_recorded(node: Master, call: str) -> None:
    """An act of which all jobs are refused, with the reason, is no act."""
    done = ended(node, "done")
    assert act(node, call, [done, 10**9])[-1] == [done, 10**9]
    assert actions(node) == []


@pytest.mark.parametrize(
    ("call", "state"),
    [
        ("cancel(%s::bigint[], 'ann')", "ready"),
        ("retry(%s::bigint[], 'ann')", "failed"),
        ("restart(%s::bigint[], 'ann')", "assigned"),
        ("set_priority(%s::bigint[], 7, 'ann')", "ready"),
    ],
)
def test_an_act_is_recorded_of_the_jobs_that_it_changed(
    node: Master, call: str, state: str
) -> None:
    """A job that it left unchanged, with the reason, does not show it as its last act."""
    done = ended(node, "done")
    changed = ended(node, "failed") if state == "failed" else node.enqueue({})[0]
    if state == "assigned":
        node.claim()
    assert act(node, call, [changed, done])[-1] == [done]
    assert node.value("select detail -> 'jobs' from txqueue.action") == [changed]
    assert actions(node)[0][2] == f"job {changed}"


def test_a_taken_job_s_node_is_asked_until_it_has_ended(node: Master) -> None:
    """At each heartbeat; and not any more once the job has ended."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    asked = [[node.incarnation, chunk.assignment, job_id]]
    assert cancel(node, job_id) == ([], asked, [])
    assert cancel(node, job_id) == ([], asked, [])
    assert heard(node) == heard(node) == [[chunk.assignment, job_id, "ann"]]
    assert node.settle(chunk, "cancelled", error="cancelled by ann") == [job_id]
    assert heard(node) == []
    assert node.value("select count(*) from txqueue.request") == 0
    assert node.job(job_id)["state"] == "cancelled"


def test_a_job_that_never_started_has_spent_no_attempt(node: Master) -> None:
    """Though it was taken."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    assert node.settle(chunk, "cancelled", error="cancelled by ann", unstarted=True) == [job_id]
    assert (node.job(job_id)["attempt"], node.job(job_id)["state"]) == (0, "cancelled")


@pytest.mark.parametrize("how", ["retry", "release"])
def test_a_job_that_went_back_to_the_queue_is_cancelled_there(node: Master, how: str) -> None:
    """The attempt ended just before the node read the request: the job does not run again."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    cancel(node, job_id)
    if how == "retry":
        node.settle(chunk, "retry", delay=100)
    else:
        node.release(chunk.assignment)
    assert heard(node) == []
    assert (node.job(job_id)["state"], node.job(job_id)["error"]) == (
        "cancelled",
        "cancelled by ann",
    )


def test_a_job_of_a_dead_node_is_cancelled_when_it_is_rescued(node: Master, other: Master) -> None:
    """And runs nowhere else."""
    (job_id,) = node.enqueue({})
    node.claim()
    cancel(other, job_id)
    node.falls_silent()
    assert heard(other) == []
    assert node.job(job_id)["state"] == "cancelled"


def test_a_request_follows_a_job_to_another_node(node: Master, other: Master) -> None:
    """It was snoozed and claimed elsewhere before a node read the request."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    cancel(node, job_id)
    node.settle(chunk, "snooze", delay=0)
    (again,) = other.claim()
    assert heard(node) == []
    assert heard(other) == [[again.assignment, job_id, "ann"]]


def test_the_group_of_a_cancelled_job_continues(node: Master) -> None:
    """Whether the cancelled one was parked or the next to run."""
    first, second, third = node.enqueue(*[{"group": "g"}] * 3)
    (chunk,) = node.claim()
    assert node.claim() == []
    assert chunk.ids == [first]
    cancel(node, second)
    node.complete(chunk)
    assert node.claimed_ids() == [third]


def test_failed_and_cancelled_jobs_run_again(node: Master) -> None:
    """With all attempts, behind jobs that are ready now; the last error is kept."""
    failed, cancelled = ended(node, "failed"), ended(node, "cancelled")
    (before,) = node.enqueue({})
    assert retry(node, failed, cancelled) == ([failed, cancelled], [])
    job = node.job(failed)
    assert (job["state"], job["attempt"], job["deaths"], job["error"]) == ("ready", 0, 0, "why")
    assert (job["finished_at"], job["node_id"], job["assignment"]) == (None, None, None)
    assert node.claimed_ids() == [before, failed, cancelled]
    assert actions(node) == [("ann", "retry", "2 jobs")]


def test_the_wait_for_the_next_attempt_is_cut_short(node: Master) -> None:
    """Attempts spent stay spent."""
    job_id = ended(node, "retry")
    assert node.claim() == []
    assert retry(node, job_id) == ([job_id], [])
    assert node.job(job_id)["attempt"] == 1
    assert node.claimed_ids() == [job_id]


def test_a_moment_outlasts_a_cancellation(node: Master) -> None:
    """A job cancelled while it waited for its moment waits again; told once more, it runs now."""
    (job_id,) = node.enqueue({"not_before": "2100-01-01T00:00:00Z"})
    cancel(node, job_id)
    assert retry(node, job_id) == ([job_id], [])
    assert node.waiting("time") == [job_id]
    assert node.job(job_id)["not_before"].year == 2100
    assert retry(node, job_id) == ([job_id], [])
    assert node.claimed_ids() == [job_id]


def test_a_retried_job_waits_again_for_its_unpublished_type(node: Master) -> None:
    """Also after a retry."""
    (job_id,) = node.enqueue({"work_type": "unknown.type"})
    cancel(node, job_id)
    retry(node, job_id)
    assert node.waiting("type") == [job_id]


def test_a_priority_is_changed(node: Master) -> None:
    """The rank with it, whether the job is ready or waits; not of what has been taken."""
    first, second, third = node.enqueue({}, {}, {"not_before": "2100-01-01T00:00:00Z"})
    assert act(node, "set_priority(%s::bigint[], 9, 'ann')", [second, third]) == (
        [second, third],
        [],
    )
    assert node.value(
        "select rank = not_before - 9 * interval '10 minutes' from txqueue.job where job_id = %s",
        third,
    )
    assert node.claimed_ids() == [second, first]
    assert act(node, "set_priority(%s::bigint[], 1, 'ann')", [first]) == ([], [first])
    assert actions(node) == [("ann", "priority", "2 jobs")]
    with pytest.raises(Exception, match="priority 10 is not within 0 to 9"):
        act(node, "set_priority(%s::bigint[], 10, 'ann')", [first])


def test_the_order_of_a_group_follows_a_changed_priority(node: Master) -> None:
    """A parked job that is to go first does."""
    first, second, third = node.enqueue(*[{"group": "g"}] * 3)
    (chunk,) = node.claim()
    assert node.claim() == []
    act(node, "set_priority(%s::bigint[], 9, 'ann')", [third])
    node.complete(chunk)
    (chunk,) = node.claim()
    assert chunk.ids == [third]
    node.complete(chunk)
    assert node.claimed_ids() == [second]
    assert first not in chunk.ids


def test_a_drained_node_takes_nothing(node: Master, other: Master) -> None:
    """Until it is undrained; its heartbeats return the state, and continue."""
    node.enqueue({})
    assert act(other, "drain_node('node', 'ann')") == (True,)
    assert act(other, "drain_node('node', 'ann')") == (False,)
    said = "select owned and its_state = %s from txqueue.heartbeat(%s, 0)"
    assert node.value(said, "draining", node.incarnation)
    assert node.claim() == []
    assert act(other, "undrain_node('node', 'ann')") == (True,)
    assert node.value(said, "alive", node.incarnation)
    assert len(node.claimed_ids()) == 1
    assert [what for _, what, _ in actions(node)] == ["drain", "drain", "undrain"]


def test_a_node_that_stops_is_not_undrained(node: Master, other: Master) -> None:
    """It accepts no more jobs, so that no tool may say that it does."""
    report = "select owned from txqueue.heartbeat(%s, 0, '{\"is_ending\": true}')"
    assert node.value(report, node.incarnation)
    assert act(other, "drain_node('node', 'ann')") == (True,)
    with pytest.raises(psycopg2.Error, match="node node is stopping"):
        act(other, "undrain_node('node', 'ann')")


def test_a_node_that_does_not_live_is_not_drained(node: Master) -> None:
    """Nor one that never was; nothing is written."""
    node.value("select txqueue.leave(%s, 'stopped')", node.incarnation)
    for name in ("node", "absent"):
        with pytest.raises(Exception, match=f"no live node is named {name}"):
            act(node, "drain_node(%s, 'ann')", name)
    assert actions(node) == []


def test_a_cancelled_job_that_returns_to_the_queue_is_not_claimed_again(node: Master) -> None:
    """It ends with the return, before any heartbeat: it may have blocked its worker."""
    job_id, other = node.enqueue({"group": "a"}, {"group": "b"})
    (chunk,) = node.claim()
    cancel(node, job_id)
    node.value(
        "select txqueue.release(%s, %s::bigint[], false)", node.incarnation, [chunk.assignment]
    )
    assert node.claimed_ids() == [other]
    job = node.job(job_id)
    assert (job["state"], job["error"]) == ("cancelled", "cancelled by ann")
    assert node.value("select count(*) from txqueue.request") == 0

"""Errors of handlers whose own transactions have completed their jobs before."""

from contextlib import closing

import psycopg2
import pytest

from tests.db.masters import Master

COMPLETE = "select txqueue.complete_one(%s, %s, %s, %s, null, %s)"
RESULT = "select txqueue.note_late_result(%s, %s, %s, %s)"
NOTE = "select txqueue.note_late_error(%s, %s, %s, %s)"


@pytest.mark.parametrize("is_other", [False, True])
def test_the_error_stands_with_the_done_job(node: Master, is_other: bool) -> None:
    """Only with the run of the job that has failed; the job stays done."""
    done, assigned = node.enqueue({}, {})
    tokens = {job_id: chunk.assignment for chunk in node.claim() for job_id in chunk.ids}
    complete = "select txqueue.complete_one(%s, %s, %s, null)"
    node.value(complete, node.incarnation, tokens[done], done)
    for job_id in (done, assigned):
        node.value(NOTE, node.incarnation + is_other, tokens[job_id], job_id, "after it: x")
    states = "select array[state::text, error] from txqueue.job where job_id = %s"
    assert node.value(states, done) == ["done", None if is_other else "after it: x"]
    assert node.value(states, assigned) == ["assigned", None]


def test_a_late_result_is_kept_if_no_job_follows(node: Master) -> None:
    """A job that follows may have read that there is none; the first result stays."""
    (alone,) = node.enqueue({})
    (parent,) = node.enqueue({})
    node.value("select txqueue.enqueue('test.kind', '{}', after => array[%s])", parent)
    tokens = {job_id: chunk.assignment for chunk in node.claim() for job_id in chunk.ids}
    kept = []
    for job_id, result in ((alone, "7"), (alone, "8"), (parent, "7")):
        if result == "7":
            node.value(COMPLETE, node.incarnation, tokens[job_id], job_id, None, None)
        kept.append(node.value(RESULT, node.incarnation, tokens[job_id], job_id, result))
    assert kept == [True, False, False]
    assert [node.job(job_id)["result"] for job_id in (alone, parent)] == [7, None]


@pytest.mark.parametrize("is_locked", [False, True])
def test_a_late_result_is_not_kept_if_a_job_has_read_before(
    node: Master, dsn: str, *, is_locked: bool
) -> None:
    """Of a parent that ended while the transaction that enqueued its child was open.

    A lock on its row delays no heartbeat: then it is not marked.
    """
    (parent,) = node.enqueue({})
    (chunk,) = node.claim()
    with closing(psycopg2.connect(dsn)) as client, client.cursor() as cursor:
        cursor.execute("select txqueue.enqueue('test.kind', '{}', after => array[%s])", (parent,))
        node.value(COMPLETE, node.incarnation, chunk.assignment, parent, None, None)
        client.commit()
        if is_locked:
            cursor.execute("select from txqueue.job where job_id = %s for share", (parent,))
        node.cursor.execute("set lock_timeout = '100ms'")
        node.value("select txqueue.propagate_late_ends()")
        node.cursor.execute("reset lock_timeout")
    kept = node.value(RESULT, node.incarnation, chunk.assignment, parent, "7")
    assert kept is is_locked


def test_a_late_result_is_kept_of_jobs_that_no_other_reads(node: Master) -> None:
    """Though their ends have effects: on a unique key, on signals."""
    (signalled,) = node.enqueue({})
    unique = node.value("select txqueue.enqueue('test.kind', '{}', \"unique\" => 'k')")
    node.value("select txqueue.signal(%s, 'go', '1')", signalled)
    node.value("select txqueue.propagate_late_ends()")
    tokens = {job_id: chunk.assignment for chunk in node.claim() for job_id in chunk.ids}
    for job_id in (unique, signalled):
        assert node.job(job_id)["followed"] == 0
        node.value(COMPLETE, node.incarnation, tokens[job_id], job_id, None, None)
        assert node.value(RESULT, node.incarnation, tokens[job_id], job_id, "7")


@pytest.mark.parametrize("lane", [None, 0, 1, 7, 8])
def test_a_job_is_completed_whichever_lane_is_named(node: Master, lane: int | None) -> None:
    """With its result; the next job of its group becomes ready."""
    first, parked = node.enqueue({"group": "g"}, {"group": "g"})
    (chunk,) = node.claim()
    node.value(COMPLETE, node.incarnation, chunk.assignment, first, '{"a": 1}', lane)
    done = node.job(first)
    assert (done["state"], done["result"]) == ("done", {"a": 1})
    assert node.ready() == [parked]


@pytest.mark.parametrize("lane", [None, 0])
def test_its_row_is_the_one_that_completions_together_leave(node: Master, lane: int | None) -> None:
    """Without a result, too: it is null, not the null of JSON."""
    common = {"payload": {"a": 1}, "priority": 2, "tenant": "t", "options": {"attempts": 3}}
    alone, other = node.enqueue(common, common)
    chunks = node.claim()
    tokens = {job_id: chunk for chunk in chunks for job_id in chunk.ids}
    node.value(COMPLETE, node.incarnation, tokens[alone].assignment, alone, None, lane)
    for chunk in chunks:
        node.complete(chunk)
    rows = [node.job(job_id) for job_id in (alone, other)]
    own = {"job_id", "rank", "assignment"}
    moments = {"enqueued_at", "not_before", "assigned_at", "finished_at"}
    for row in rows:
        assert row["finished_at"] > row["assigned_at"]
    one, two = [{k: v for k, v in row.items() if k not in own | moments} for row in rows]
    assert one == two
    assert node.value("select result is null from txqueue.job where job_id = %s", alone)


@pytest.mark.parametrize("lane", [None, 0])
def test_a_job_of_another_assignment_is_not_completed(node: Master, lane: int | None) -> None:
    """The transaction of the run that has lost it fails."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    with pytest.raises(psycopg2.Error) as refused:
        node.value(COMPLETE, node.incarnation, chunk.assignment + 1, job_id, None, lane)
    assert refused.value.pgcode == "TXQ04"
    assert node.job(job_id)["state"] == "assigned"

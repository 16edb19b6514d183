"""Errors of handlers whose own transactions have completed their jobs before."""

import pytest

from tests.db.masters import Master

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

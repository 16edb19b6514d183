"""Jobs that call each other: found at the call, or at the wait, and never a wait without end."""

from __future__ import annotations

import itertools
import json
from typing import Any

import psycopg2
import pytest

from tests.db.masters import Master
from tests.db.stored import Taken
from txqueue.policy.findings.explanation import Explanation, explain

NO_END = "would wait for its own end by the call call"


def taken(node: Master, number: int) -> list[Taken]:
    """Enqueue jobs and claim them, each by itself."""
    node.enqueue(*[{}] * number)
    return [chunk for _ in range(number) for chunk in node.claim(1)]


def call(node: Master, caller: Taken, child: int) -> None:
    """Commit a call of a job that exists, as by its unique key."""
    node.value(
        "select txqueue.write_step(%s, %s, %s, 'call', null, %s)",
        *(node.incarnation, caller.assignment, caller.ids[0], child),
    )


def suspend(node: Master, caller: Taken, child: int, **wait: Any) -> None:
    """End the run of a caller at its call."""
    waits = [{"name": "call", "kind": "call", "child": child, **wait}]
    assert node.settle(caller, "suspended", waits=waits) == caller.ids


def why(node: Master, job_id: int) -> Explanation:
    """Explain a job."""
    return explain(node.value("select txqueue.explain_facts(%s)", job_id))


@pytest.mark.parametrize("number", [2, 3, 7])
@pytest.mark.parametrize("rests", [True, False], ids=["waiting", "running"])
def test_the_call_that_closes_a_cycle_is_refused(node: Master, number: int, rests: bool) -> None:
    """Whether those that have called before wait already, or still run."""
    chunks = taken(node, number)
    for caller, called in itertools.pairwise(chunks):
        call(node, caller, called.ids[0])
        if rests:
            suspend(node, caller, called.ids[0])
    first, *_, last = chunks
    with pytest.raises(psycopg2.Error, match=f"job {last.ids[0]} {NO_END}"):
        call(node, last, first.ids[0])


def test_calls_of_one_moment(node: Master) -> None:
    """Neither call sees the other: the one that waits later fails its call, and runs on."""
    one, other = taken(node, 2)
    call(node, one, other.ids[0])
    step = (
        "insert into txqueue.job_step (job_id, name, kind, child) values (%s, 'call', 'call', %s)"
    )
    node.cursor.execute(step, (other.ids[0], one.ids[0]))
    suspend(node, other, one.ids[0])
    assert node.ready() == other.ids
    node.cursor.execute("select error, is_ended from txqueue.load_steps(%s)", other.ids)
    [(error, is_ended)] = node.cursor.fetchall()
    assert is_ended
    assert error == (
        f'job {one.ids[0]}, called by step "call", waits for the end of job {other.ids[0]}:'
        " neither would go on"
    )
    suspend(node, one, other.ids[0])
    assert node.waiting("parents") == one.ids


def test_a_call_of_a_failed_job_is_no_cycle(node: Master) -> None:
    """Its steps are kept for a retry, but it waits for nothing."""
    failed, caller, between = taken(node, 3)
    call(node, failed, caller.ids[0])
    node.settle(failed, "failed", error="no")
    call(node, between, failed.ids[0])
    call(node, caller, between.ids[0])
    suspend(node, caller, between.ids[0])
    assert node.waiting("parents") == caller.ids


def test_explain_names_a_cycle(node: Master) -> None:
    """One that an older version has let happen, with what ends it."""
    one, other = taken(node, 2)
    suspend(node, one, other.ids[0])
    node.cursor.execute(
        "update txqueue.job set state = 'waiting', waiting_for = 'parents', node_id = null,"
        " incarnation = null, assignment = null, assigned_at = null where job_id = %s",
        other.ids,
    )
    node.cursor.execute(
        "insert into txqueue.job_parent (child, parent, any_end) values (%s, %s, true)",
        (*other.ids, *one.ids),
    )
    said = why(node, one.ids[0])
    assert (said.reason, said.remedy) == (
        "call",
        f"cancel one of them: txqueue cancel {other.ids[0]}",
    )
    assert said.detail.endswith(
        f"it waits for job {other.ids[0]}, which waits for job {one.ids[0]}, and so for its own"
        " end: none of them goes on"
    )


def test_explain_names_a_holder_that_waits_for_its_own_group(node: Master) -> None:
    """It holds the group for which the job that it has called waits."""
    [holder] = node.enqueue({"group": "g"})
    [chunk] = node.claim()
    [called] = node.enqueue({})
    [between] = node.claim()
    [behind] = node.enqueue({"group": "g"})
    suspend(node, chunk, called, hold_group=True)
    suspend(node, between, behind)
    assert node.claim() == []
    assert f"it waits for job {holder}, which waits" in why(node, behind).detail
    assert json.dumps(why(node, holder).detail).count("none of them goes on") == 1

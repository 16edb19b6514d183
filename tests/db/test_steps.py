"""The stored functions of steps and signals: what is written once, and what lets a job go on."""

import json
from typing import Any

import psycopg2
import pytest

from tests.db.masters import Master
from tests.db.past import LEAVES
from tests.db.stored import Taken
from txqueue.policy.findings.explanation import explain


def write(node: Master, chunk: Taken, *steps: dict[str, Any]) -> dict[int, str | None]:
    """Write steps of the first job of a chunk; returns the answers by place."""
    job_id = chunk.ids[0]
    told = [
        {"job_id": job_id, "assignment": chunk.assignment, "kind": "step", **step} for step in steps
    ]
    node.cursor.execute(
        "select place, value from txqueue.write_steps(%s, %s)",
        (node.incarnation, json.dumps(told)),
    )
    return dict(node.cursor.fetchall())


def suspend(node: Master, chunk: Taken, *waits: dict[str, Any]) -> list[int]:
    """End the run of all jobs of a chunk at some waits."""
    return node.settle(chunk, "suspended", waits=waits)


def steps(node: Master, job_id: int) -> dict[str, Any]:
    """The results of a job's steps, as its worker loads them."""
    node.cursor.execute("select name, result from txqueue.load_steps(%s)", (job_id,))
    return {name: result and json.loads(result) for name, result in node.cursor.fetchall()}


def signal(node: Master, job_id: int, name: str, value: Any = None, key: str | None = None) -> bool:
    """Send a signal."""
    return bool(
        node.value("select txqueue.signal(%s, %s, %s, %s)", job_id, name, json.dumps(value), key)
    )


def taken(node: Master, chunk: Taken, *waits: dict[str, Any]) -> list[Any]:
    """What the waits of a run take."""
    values = write(node, chunk, *waits)
    return [json.loads(values[place] or '"none"') for place in range(len(waits))]


APPROVAL = {"name": "approval", "kind": "signal", "signal": "approved"}


def started(node: Master, **options: Any) -> Taken:
    """Enqueue and claim one job."""
    node.enqueue(options)
    (chunk,) = node.claim()
    return chunk


def test_a_run_that_has_lost_its_job_writes_no_step(node: Master) -> None:
    """A stale token is refused, and the other steps of the same call are written."""
    chunk = started(node)
    assert write(
        node, chunk, {"name": "a", "assignment": 1}, {"name": "b"}, {"name": "c", "job_id": 99}
    ) == {1: None}
    assert steps(node, chunk.ids[0]) == {"b": None}
    with pytest.raises(psycopg2.Error) as error:
        node.value(
            "select txqueue.write_step(%s, 1, %s, 'x', null)", node.incarnation, chunk.ids[0]
        )
    assert error.value.pgcode == "TXQ04"


@pytest.mark.parametrize("end", ["done", "cancel"])
def test_the_end_of_a_job_reads_no_step(node: Master, end: str) -> None:
    """However large its steps are together, as these are: no value could have them all."""
    chunk = started(node)
    write(node, chunk, {"name": "first"})
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind, result)"
        " select %s, 'large ' || n, 'step', result from generate_series(1, 70) as n,"
        " (select to_jsonb(repeat('x', 4000000)) as result offset 0) as one",
        chunk.ids,
    )
    node.cursor.execute("set statement_timeout = '2s'")
    if end == "cancel":
        node.settle(chunk, "failed", error="x")
        assert node.value("select cancelled from txqueue.cancel(%s, 'me')", chunk.ids)
    else:
        assert node.settle(chunk, end, error="x") == chunk.ids
    assert node.value("select count(*) from txqueue.job_step") == 71


@pytest.mark.parametrize("end", ["failed", "cancelled", "given up"])
def test_signals_to_a_job_that_was_not_done_serve_its_retry(node: Master, end: str) -> None:
    """They stay until it is done, and with them what was taken."""
    chunk = started(node)
    for key, value in (("k", 1), ("l", 2), (None, 3)):
        assert signal(node, chunk.ids[0], "approved", value, key=key)
    assert taken(node, chunk, APPROVAL) == [1]
    if end == "cancelled":
        suspend(node, chunk, {**APPROVAL, "signal": "other"})
    else:
        node.settle(chunk, "failed", error="x")
    if end != "failed":
        node.value("select cancelled from txqueue.cancel(%s, 'me')", chunk.ids)
    assert node.claim() == []
    assert node.value("select retried from txqueue.retry(%s, 'me')", chunk.ids) == chunk.ids
    assert not signal(node, chunk.ids[0], "approved", 4, key="k")
    (again,) = node.claim()
    assert taken(node, again, *({**APPROVAL, "name": name} for name in "bc")) == [2, 3]
    node.settle(again, "done")
    node.claim()
    assert node.column("select key from txqueue.job_signal") == []


def test_a_signal_to_a_job_that_ended(node: Master) -> None:
    """It is refused with the reason, and so is one to no job."""
    chunk = started(node)
    signal(node, chunk.ids[0], "unread")
    node.settle(chunk, "failed", error="x")
    with pytest.raises(psycopg2.Error, match="it has failed"):
        signal(node, chunk.ids[0], "approved")
    with pytest.raises(psycopg2.Error, match="there is no job 99"):
        signal(node, 99, "approved")
    with pytest.raises(psycopg2.Error, match="a signal has a name"):
        signal(node, 99, "")
    assert node.column("select name from txqueue.job_signal") == ["unread"]


def test_a_signal_by_a_unique_key(node: Master) -> None:
    """The key names the job that holds it."""
    (job_id,) = node.enqueue({"unique": "order 7"})
    (chunk,) = node.claim()
    suspend(node, chunk, APPROVAL)
    call = "select txqueue.signal_keyed('test.kind', %s, 'approved')"
    assert node.value(call, "order 7")
    assert node.claimed_ids() == [job_id]
    with pytest.raises(psycopg2.Error, match="no job of"):
        node.value(call, "order 8")


def test_the_moment_of_a_wait(node: Master) -> None:
    """A wait with a limit ends then, a sleep too; neither begins anew if the job waits again."""
    chunk = started(node)
    suspend(
        node, chunk, {**APPROVAL, "seconds": 3600}, {"name": "nap", "kind": "sleep", "seconds": 60}
    )
    job = node.job(chunk.ids[0])
    assert job["waiting_for"] == "time"
    left = "select extract(epoch from not_before - now()) from txqueue.job where job_id = %s"
    assert 50 < node.value(left, chunk.ids[0]) <= 60
    node.cursor.execute("update txqueue.job_step set until = until - interval '1 hour'")
    node.cursor.execute(
        "update txqueue.job_waiting set not_before = not_before - interval '1 hour'"
    )
    (again,) = node.claim()
    suspend(node, again, {**APPROVAL, "seconds": 3600})
    assert node.job(again.ids[0])["state"] == "ready"


def test_the_end_of_a_child(node: Master) -> None:
    """A job that waits for its children goes on when the last has ended, however they did."""
    chunk = started(node)
    children = node.enqueue({}, {})
    waits = [
        {"name": f"call {child}", "kind": "call", "child": child, "seconds": None}
        for child in children
    ]
    suspend(node, chunk, *waits)
    assert node.job(chunk.ids[0])["waiting_for"] == "parents"
    (of_children,) = node.claim()
    first, second = of_children.ids
    one = [{"job_id": first, "assignment": of_children.assignment, "outcome": "failed"}]
    node.value("select settled from txqueue.settle(%s, %s)", node.incarnation, json.dumps(one))
    assert node.claim() == []
    one[0] |= {"job_id": second, "outcome": "done", "result": 5}
    node.value("select settled from txqueue.settle(%s, %s)", node.incarnation, json.dumps(one))
    (again,) = node.claim()
    assert again.ids == chunk.ids
    node.cursor.execute(
        "select child_state, child_result from txqueue.load_steps(%s)", (again.ids[0],)
    )
    assert node.cursor.fetchall() == [("failed", None), ("done", "5")]
    assert "parents" not in again.jobs[0].terms


@pytest.mark.parametrize("state", ["done", "cancelled"])
def test_a_child_that_history_drops_before_it_is_read(state: str, node: Master) -> None:
    """The call keeps its end: of several, one is waited for until long after the others."""
    node.cursor.execute(LEAVES.format(state))
    chunk = started(node)
    first, second = node.enqueue({}, {})
    calls = [{"name": f"call {n}", "kind": "call", "child": n} for n in (first, second)]
    suspend(node, chunk, *calls)
    (of_children,) = node.claim()
    one = {"job_id": first, "assignment": of_children.assignment, "outcome": state}
    ended = {**one, "result": 5} if state == "done" else {**one, "error": "no need"}
    node.value("select settled from txqueue.settle(%s, %s)", node.incarnation, json.dumps([ended]))
    node.cursor.execute(f"update txqueue.job_{state} set finished_at = '2020-01-01 12:00Z'")
    assert f"-job_{state}_20200101" in node.value("select txqueue.ensure_history()")
    assert node.value("select count(*) from txqueue.job where job_id = %s", first) == 0
    node.cursor.execute(
        "select is_ended, child_state, child_type, child_result, child_error"
        " from txqueue.load_steps(%s)",
        (chunk.ids[0],),
    )
    kept = ("5", None) if state == "done" else (None, "no need")
    assert node.cursor.fetchall() == [
        (False, state, "test.kind", *kept),
        (False, "assigned", "test.kind", None, None),
    ]


def test_a_child_that_ended_before_the_wait(node: Master) -> None:
    """The job does not wait."""
    chunk = started(node)
    (child,) = node.enqueue({})
    node.complete(node.claim()[0])
    suspend(node, chunk, {"name": "call", "kind": "call", "child": child})
    assert node.job(chunk.ids[0])["state"] == "ready"


def test_children_and_a_moment(node: Master) -> None:
    """The job goes on at the end of its children or at the moment, whichever is first."""
    chunk = started(node)
    (child,) = node.enqueue({})
    (of_child,) = node.claim()
    suspend(
        node,
        chunk,
        {"name": "call", "kind": "call", "child": child},
        {"name": "nap", "kind": "sleep", "seconds": 3600},
    )
    assert node.job(chunk.ids[0])["waiting_for"] == "time"
    node.claim()
    node.complete(of_child)
    assert node.claimed_ids() == chunk.ids


def test_the_wait_of_a_cancelled_job_ends(node: Master) -> None:
    """It keeps its steps, and its signals until history has it no more."""
    chunk = started(node)
    suspend(node, chunk, APPROVAL)
    signal(node, chunk.ids[0], "other")
    node.value("select cancelled from txqueue.cancel(%s, 'me')", chunk.ids)
    node.claim()
    assert node.job(chunk.ids[0])["state"] == "cancelled"
    assert steps(node, chunk.ids[0]) == {"approval": None}
    node.value("select txqueue.ensure_history()")
    assert node.value("select count(*) from txqueue.job_signal") == 1
    node.cursor.execute("delete from txqueue.job_cancelled")
    assert node.value("select count(*) from txqueue.job_signal") == 0


def test_a_wait_frees_the_group(node: Master) -> None:
    """The next job of the group runs while the first one waits."""
    first, second = node.enqueue({"group": "a"}, {"group": "a"})
    (chunk,) = node.claim()
    assert chunk.ids == [first]
    suspend(node, chunk, APPROVAL)
    (chunk,) = node.claim()
    assert chunk.ids == [second]
    signal(node, first, "approved")
    assert node.claim() == []
    node.complete(chunk)
    assert node.claimed_ids() == [first]


@pytest.mark.parametrize("when", ["before the snapshot", "during the end of the run"])
def test_a_signal_and_a_wait_at_the_same_moment(node: Master, other: Master, when: str) -> None:
    """Neither of two open transactions sees the other; the job goes on once both are committed."""
    chunk = started(node)
    other.connection.autocommit = False
    if when == "before the snapshot":
        signal(other, chunk.ids[0], "approved")
        suspend(node, chunk, APPROVAL)
        assert node.claim() == []
        other.connection.commit()
    else:
        suspend(other, Taken(chunk.lane, chunk.assignment, chunk.jobs), APPROVAL)
        other.connection.rollback()
        other.incarnation, kept = node.incarnation, other.incarnation
        suspend(other, chunk, APPROVAL)
        signal(node, chunk.ids[0], "approved")
        assert node.claim() == []
        other.connection.commit()
        other.incarnation = kept
    assert node.claimed_ids() == chunk.ids


def test_a_retry_from_a_step(node: Master) -> None:
    """That step and those that began after it are done again; those before are kept."""
    chunk = started(node)
    write(node, chunk, {"name": "a", "result": 1}, {"name": "b"}, {"name": "c"})
    node.settle(chunk, "failed", error="x")
    retry = "select txqueue.retry_from(%s, %s, 'me')"
    with pytest.raises(psycopg2.Error, match="has no step z"):
        node.value(retry, chunk.ids[0], "z")
    with pytest.raises(psycopg2.Error, match="there is no job 99"):
        node.value(retry, 99, "a")
    assert node.value(retry, chunk.ids[0], "b") == 2
    assert steps(node, chunk.ids[0]) == {"a": 1}
    (again,) = node.claim()
    assert again.ids == chunk.ids
    for text in ("it is assigned", "it is done"):
        with pytest.raises(psycopg2.Error, match=f"cannot be retried now: {text}"):
            node.value(retry, chunk.ids[0], "a")
        if text == "it is assigned":
            node.settle(again, "done")


@pytest.mark.parametrize("retry", ["retry(array[%s], 'me')", "retry_from(%s, 'approval', 'me')"])
def test_a_job_that_was_cancelled_at_a_wait_runs_again_at_once(node: Master, retry: str) -> None:
    """Its retry does not come at the end of that wait only, which the run waits for by itself."""
    chunk = started(node)
    suspend(node, chunk, {**APPROVAL, "seconds": 3600})
    node.value("select cancelled from txqueue.cancel(%s, 'me')", chunk.ids)
    node.value(f"select txqueue.{retry}", chunk.ids[0])
    assert node.claimed_ids() == chunk.ids


@pytest.mark.parametrize("is_suspended", [True, False])
def test_a_job_that_waits_is_cancelled_before_a_retry_from_a_step(
    is_suspended: bool, node: Master
) -> None:
    """At a signal or for its next attempt, as the refusal says; the wait begins anew."""
    chunk = started(node)
    write(node, chunk, {"name": "a", "result": 1}, {"name": "b", "result": 2})
    if is_suspended:
        suspend(node, chunk, APPROVAL)
    else:
        node.settle(chunk, "retry", delay=3600, error="x")
    (job_id,) = chunk.ids
    retry = "select txqueue.retry_from(%s, 'b', 'me')"
    with pytest.raises(psycopg2.Error, match=r"(?s)it is waiting.*cancel it first"):
        node.value(retry, job_id)
    node.value("select cancelled from txqueue.cancel(%s, 'me')", [job_id])
    assert node.value(retry, job_id) == 1 + is_suspended
    assert steps(node, job_id) == {"a": 1}
    assert node.claimed_ids() == [job_id]


@pytest.mark.parametrize(
    ("waits", "reason", "detail"),
    [
        ([APPROVAL], "signal", "at step 'approval' for the signal 'approved', for "),
        ([{**APPROVAL, "seconds": 3600}], "signal", " so far, at most until "),
        ([{"name": "nap", "kind": "sleep", "seconds": 3600}], "sleep", "'nap' for a moment, "),
        ([{"name": "part", "kind": "call", "child": 1}], "call", "for the end of job 1"),
    ],
)
def test_what_a_job_waits_for_is_explained(
    node: Master, waits: list[dict[str, Any]], reason: str, detail: str
) -> None:
    """The explanation names the step, and what ends the wait."""
    node.enqueue({"not_before": "2100-01-01T00:00:00Z"})
    chunk = started(node)
    suspend(node, chunk, *waits)
    why = explain(node.value("select txqueue.explain_facts(%s)", chunk.ids[0]))
    assert why.reason == reason
    assert detail in why.detail


def test_jobs_without_steps_pay_nothing(node: Master) -> None:
    """Their whole life reads and writes no table of steps and signals."""
    looks = (
        "select sum(seq_scan + coalesce(idx_scan, 0) + n_tup_ins)::int"
        " from pg_stat_xact_user_tables where schemaname = 'txqueue'"
        " and relname in ('job_step', 'job_signal')"
    )
    node.connection.autocommit = False
    node.enqueue({}, {}, {"unique": "a"}, {"group": "b"})
    done = node.claim()[0]
    node.settle(done, "retry", delay=0)
    (again,) = [chunk for chunk in node.claim() if chunk.ids]
    node.complete(again)
    assert node.value(looks) == 0
    node.connection.commit()


def test_a_signal_does_not_end_a_backoff(node: Master) -> None:
    """A job that waits for a retry takes the signal of an earlier wait when it runs again."""
    chunk = started(node)
    suspend(node, chunk, APPROVAL, {"name": "other", "kind": "signal", "signal": "other"})
    signal(node, chunk.ids[0], "other")
    (again,) = node.claim()
    node.settle(again, "retry", delay=3600, error="x")
    signal(node, chunk.ids[0], "approved", 1)
    assert node.claim() == []
    assert explain(node.value("select txqueue.explain_facts(%s)", chunk.ids[0])).reason == "backoff"
    node.value("select retried from txqueue.retry(%s, 'me')", chunk.ids)
    (third,) = node.claim()
    assert write(node, third, APPROVAL) == {0: "1"}

"""Undo: what an act changed is as before, or said not to be."""

import random
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.test_acting import act, ended
from tests.db.test_steps import APPROVAL, signal, started, steps, suspend, taken, write
from tests.db.test_worksets import fill, make, status, take

RESTORED = ("priority", "queue", "not_before", "rank", "attempt", "deaths", "error")


def latest(session: Master) -> int:
    """Return the number of the latest act."""
    number: int = session.value("select max(action_id) from txqueue.action")
    return number


def undo(session: Master, number: int) -> tuple[Any, ...]:
    """Undo an act; returns the jobs that are as before, and the reasons of others."""
    return act(session, "undo(%s, 'ann')", number)


def control(session: Master) -> list[Any]:
    """Return the control of the queue, if there is one."""
    return session.column("select to_jsonb(control) - 'control_id' from txqueue.control")


def seen(session: Master, job_id: int) -> tuple[object, ...]:
    """Return what undo restores of a job; whether it still waits follows from the rest."""
    row = session.job(job_id)
    is_open = row["state"] in ("waiting", "ready")
    return ("unclaimed" if is_open else row["state"], *(row[name] for name in RESTORED))


def stuck(session: Master) -> list[int]:
    """Return the jobs that wait for what is over, or do not wait for what is not."""
    return session.column(
        "select job_id from txqueue.job where state in ('waiting', 'ready') and coalesce("
        " waiting_for = 'parents', false) <> exists (select from txqueue.job_parent"
        " where child = job_id and ended is null)"
        " or state = 'ready' and not_before > clock_timestamp()"
        " or waiting_for = 'time' and not_before < now() - interval '1 minute'"
    )


def test_pauses_and_limits_are_taken_back(node: Master) -> None:
    """To what they were; once, and not if a later act has changed the same."""
    limit = "select txqueue.set_limit('queue', 'q', %s, %s, %s, null, 0.1, 'ann', '{}', 7)"
    node.value(limit, 3, 2.5, 4)
    before = control(node)
    node.value(limit, 5, None, None)
    changed = latest(node)
    node.value("select txqueue.pause('queue', 'q', 'ann')")
    paused = latest(node)
    with pytest.raises(Exception, match=f"the queue q was changed since, by act {paused}"):
        undo(node, changed)
    assert undo(node, paused) == ([], {})
    assert [each["is_paused"] for each in control(node)] == [False]
    node.value("select txqueue.set_limit('group', 'g', 2, null, null, null, null, 'ann')")
    undo(node, latest(node))
    assert len(control(node)) == len(before) == 1


def test_an_undo_names_its_acts_and_a_refused_one_its_reason(node: Master) -> None:
    """Of the reasons, the one that holds; each act of an undo names the others."""
    (job_id,) = node.enqueue({})
    node.value("select txqueue.set_limit('queue', 'q', 3, null, null, null, null, 'ann')")
    limited = latest(node)
    undo(node, limited)
    undoes, undone = limited + 1, latest(node)
    detail = "select detail from txqueue.action where action_id = any(%s) order by action_id"
    of_limit, of_inner, _ = node.column(detail, [limited, undoes, undone])
    assert (of_limit["undone_by"], of_inner["undoes"]) == (undone, limited)
    assert "cleared" not in of_inner
    node.value("select txqueue.resume('queue', 'q', 'ann')")
    act(node, "set_priority(%s::bigint[], 9, 'ann')", [job_id])
    node.cursor.execute("update txqueue.action set former = null where what = 'priority'")
    reasons = ["was undone before", f"took back act {limited}", "has no undo"]
    reasons += ["changed nothing that undo restores", "changed more than 10,000 jobs"]
    for number, reason in enumerate(reasons, limited):
        with pytest.raises(Exception, match=f"act {number} cannot be undone: it {reason}"):
            undo(node, number)


def test_acts_are_taken_back_one_after_another(node: Master) -> None:
    """The last first: one that is undone, or changed nothing, is no later act; a resume, too."""
    limit = "set_limit('queue', 'q', null, %s, null, null, null, 'ann')"
    at_most = "set_limit('queue', 'q', 5, null, null, null, null, 'ann')"
    controls, acts = [control(node)], []
    pause, resume = ("pause('queue', 'q', 'ann')", "resume('queue', 'q', 'ann')")
    calls = ((at_most, ()), (limit, (3,)), (limit, (9,)), (pause, ()), (resume, ()))
    for call, values in calls:
        for _ in range(2):
            act(node, call, *values)
            acts.append(latest(node))
        controls.append(control(node))
    for number, before in zip(acts[-2::-2], controls[-2::-1], strict=True):
        undo(node, number)
        assert control(node) == before


def test_acts_on_jobs_are_taken_back_one_after_another(node: Master) -> None:
    """The last first; an act that gives a job what it has names no job."""
    (job_id,) = node.enqueue({})
    changes = (
        "move(%s::bigint[], 'a',",
        "move(%s::bigint[], 'b',",
        "set_priority(%s::bigint[], 9,",
    )
    calls = [f"{change} 'ann')" for change in (*changes, "cancel(%s::bigint[],")]
    before, acts = [], []
    for call in calls:
        before.append(seen(node, job_id))
        act(node, call, [job_id])
        acts.append(latest(node))
        if "cancel" not in call:
            assert act(node, call, [job_id]) == ([job_id], [])
    for number, was in zip(reversed(acts), reversed(before), strict=True):
        assert undo(node, number) == ([job_id], {})
        assert seen(node, job_id) == was


def test_a_cancelled_job_is_opened_again_with_its_children(node: Master) -> None:
    """With its key and its attempts; a failed one has failed again."""
    again = ended(node, "retry")
    failed = ended(node, "failed")
    (parent,) = node.enqueue({"unique": "k", "not_before": "2100-01-01T00:00:00Z"})
    (child,) = node.enqueue({"after": [parent]})
    (grandchild,) = node.enqueue({"after": [child]})
    ids = [again, failed, parent, child, grandchild]
    before = [seen(node, each) for each in ids]
    act(node, "cancel(%s::bigint[], 'ann')", [again, failed, parent])
    assert node.states() == {"cancelled": 5}
    undone, kept = undo(node, latest(node))
    assert (sorted(undone), kept) == (sorted(ids), {})
    assert [seen(node, each) for each in ids] == before
    assert node.job(failed)["fingerprint"] is not None
    assert node.waiting("parents") == [child, grandchild]
    assert node.value("select job_id from txqueue.unique_job") == parent


@pytest.mark.parametrize(
    "wait",
    [APPROVAL, {**APPROVAL, "seconds": 3600}, {"name": "nap", "kind": "sleep", "seconds": 3600}],
    ids=["signal", "signal in time", "sleep"],
)
def test_a_job_at_a_step_waits_again(node: Master, wait: dict[str, Any]) -> None:
    """It goes on from there: what it waited for has the same end, and its steps are kept."""
    chunk = started(node)
    (job_id,) = chunk.ids
    write(node, chunk, {"name": "a", "result": 1})
    suspend(node, chunk, wait)
    was = [node.job(job_id)[name] for name in ("waiting_for", "not_before", "attempt")]
    act(node, "cancel(%s::bigint[], 'ann')", [job_id])
    assert undo(node, latest(node)) == ([job_id], {})
    assert node.claim() == []
    assert [node.job(job_id)[name] for name in ("waiting_for", "not_before", "attempt")] == was
    if "signal" in wait:
        signal(node, job_id, wait["signal"], "by Ada")
        (again,) = node.claim()
        assert taken(node, again, wait) == ["by Ada"]
    assert steps(node, job_id)["a"] == 1


def test_a_job_of_a_workset_works_again(node: Master) -> None:
    """Beside those that took its place: each item is counted once, and all of them end."""
    make(node, batch=5)
    fill(node, 20)
    node.value("select txqueue.start_workset('letters')")
    cancelled = sorted(node.ready())
    act(node, "cancel(%s::bigint[], 'ann')", cancelled)
    number = latest(node)
    node.value("select txqueue.start_workset('letters')")
    assert undo(node, number) == (cancelled, {})
    jobs = [(chunk.assignment, job_id) for chunk in node.claim() for job_id in chunk.ids]
    assert len(jobs) == 4
    parts = [take(node, job)["part"] for job in jobs]
    for job, part in zip(jobs, parts, strict=True):
        take(node, job, part)
        end = "select txqueue.end_slot(%s, %s, %s, 'letters', false)"
        assert node.value(end, node.incarnation, *job)
    assert (status(node)["done"], status(node)["jobs"]) == (20, 0)


def test_what_is_not_taken_back_is_counted(node: Master) -> None:
    """By reason: a run, a held key, a later act, an end, a deletion. It can be tried again."""
    node.enqueue({})
    [running] = node.claimed_ids()
    keyed, moved, ended_since, gone = node.enqueue({"unique": "k"}, *[{}] * 3)
    act(node, "cancel(%s::bigint[], 'ann')", [running, keyed])
    number = latest(node)
    (holder,) = node.enqueue({"unique": "k"})
    held = {f"unique key held, as by job {holder}": 1, "running then": 1}
    assert undo(node, number) == ([], held)
    act(node, "cancel(%s::bigint[], 'ann')", [holder])
    assert undo(node, number) == ([keyed], {"running then": 1})
    with pytest.raises(Exception, match=f"act {number} cannot be undone"):
        undo(node, number)
    act(node, "set_priority(%s::bigint[], 9, 'ann')", [moved, ended_since, gone])
    number = latest(node)
    act(node, "move(%s::bigint[], 'mail', 'bob')", [moved])
    act(node, "delete_jobs(%s::bigint[], 'bob')", [gone])
    (chunk,) = [chunk for chunk in node.claim() if ended_since in chunk.ids]
    node.complete(chunk)
    assert undo(node, number) == (
        [],
        {"changed by a later act": 1, "deleted since": 1, "done since": 1},
    )


def test_an_old_or_unknown_act_is_refused(node: Master) -> None:
    """And the values of jobs go with the next act."""
    (job_id,) = node.enqueue({})
    act(node, "move(%s::bigint[], 'mail', 'ann')", [job_id])
    number = latest(node)
    node.cursor.execute("update txqueue.action set at = at - interval '61 minutes'")
    with pytest.raises(Exception, match=f"act {number} is older than an hour"):
        undo(node, number)
    with pytest.raises(Exception, match="there is no act 99"):
        undo(node, 99)
    act(node, "move(%s::bigint[], 'bulk', 'ann')", [job_id])
    assert node.column("select former is null from txqueue.action order by action_id") == [1, 0]


CHANGES = (
    ("set_priority(%s::bigint[], %s, 'ann')", (0, 5, 9)),
    ("move(%s::bigint[], %s, 'ann')", ("default", "mail")),
    ("reschedule(%s::bigint[], %s, 'ann')", ("now", "2100-01-01T00:00:00Z")),
    ("cancel(%s::bigint[], 'ann')", ()),
    ("retry(%s::bigint[], 'ann')", ()),
    ("delete_jobs(%s::bigint[], 'ann')", ()),
)


@pytest.mark.parametrize("seed", range(3))
def test_undo_restores_exactly_or_says_what_not(node: Master, seed: int) -> None:
    """Random acts, runs and undos: a job that is said to be as before is; others are counted."""
    chance = random.Random(seed)
    jobs = node.enqueue(*({"group": chance.choice(("g", None))} for _ in range(12)))
    jobs += node.enqueue(*({"after": [chance.choice(jobs)]} for _ in range(4)))
    acts: dict[int, dict[int, tuple[object, ...]]] = {}
    for _ in range(60):
        step = chance.random()
        if step < 0.3:
            for chunk in node.claim(2):
                node.settle(chunk, chance.choice(("done", "failed", "retry")), error="e", delay=0)
        elif step < 0.75:
            call, values = chance.choice(CHANGES)
            ids = chance.sample(jobs, 4)
            alive = node.column("select job_id from txqueue.job")
            before = {job_id: seen(node, job_id) for job_id in alive}
            last = node.value("select coalesce(max(action_id), 0) from txqueue.action")
            act(node, call, ids, *([chance.choice(values)] if values else []))
            if node.value("select max(action_id) from txqueue.action where former is not null"):
                acts |= {latest(node): before} if latest(node) > last else {}
        elif acts:
            number = chance.choice(list(acts))
            before = acts.pop(number)
            former = node.value("select former from txqueue.action where action_id = %s", number)
            if former is None:
                continue
            undone, kept = undo(node, number)
            assert {job_id: seen(node, job_id) for job_id in undone} == {
                job_id: before[job_id] for job_id in undone
            }
            assert stuck(node) == []
            kept.pop("running then", None)
            acts |= {number: before} if kept else {}
            assert len(undone) + sum(kept.values()) == len(former)
    assert node.value("select count(*) from txqueue.action where what = 'undo'") > 0

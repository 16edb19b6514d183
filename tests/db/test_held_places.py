"""Jobs that keep their place in their group while they wait at a step."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.stored import Taken
from txqueue.policy.findings.explanation import explain

GROUP = {"group": "account 7"}
SIGNAL = {"name": "approval", "kind": "signal", "signal": "approved", "hold_group": True}
SLEEP = {"name": "pause", "kind": "sleep", "seconds": 3600.0, "hold_group": True}


def waiting(node: Master, wait: dict[str, Any] = SIGNAL, followers: int = 1) -> tuple[int, Any]:
    """Let a job of a group wait at a step, with others behind it; returns their numbers."""
    (chunk,) = started(node)
    others = node.enqueue(*[GROUP] * followers)
    assert node.claim() == []
    assert node.settle(chunk, "suspended", waits=[wait]) == chunk.ids
    return chunk.ids[0], others


def started(node: Master) -> list[Taken]:
    """Enqueue and claim a job of the group."""
    node.enqueue(GROUP)
    return node.claim()


def claimed(node: Master) -> list[int]:
    """The jobs that start now."""
    return [job_id for chunk in node.claim() for job_id in chunk.ids]


def signal(node: Master, job_id: int) -> None:
    """Send the signal."""
    assert node.value("select txqueue.signal(%s, 'approved')", job_id)


def end_sleeps(node: Master) -> None:
    """The time of all sleeps is over."""
    node.cursor.execute(
        "update txqueue.job_step set until = now() - interval '1 s' where ended_at is null;"
        "update txqueue.job_waiting set not_before = now() - interval '1 s'"
        " where waiting_for = 'time'"
    )


def holds(node: Master) -> list[int]:
    """The jobs that hold a place."""
    return node.column("select job_id from txqueue.group_hold order by job_id")


def test_without_hold_the_next_job_starts(node: Master) -> None:
    """A wait that does not hold frees the group."""
    _, others = waiting(node, SIGNAL | {"hold_group": False})
    assert claimed(node) == others


@pytest.mark.parametrize("wait", [SIGNAL, SLEEP], ids=lambda wait: wait["kind"])
def test_a_job_whose_group_is_busy_after_its_wait(node: Master, wait: dict[str, Any]) -> None:
    """It keeps its progress while it waits for its group, and no longer waits at its step."""
    (chunk,) = started(node)
    (job_id,) = chunk.ids
    others = node.enqueue(GROUP)
    node.settle(chunk, "suspended", waits=[wait | {"hold_group": False}], progress=[3, 10, "x"])
    assert claimed(node) == others
    if wait is SIGNAL:
        signal(node, job_id)
    else:
        end_sleeps(node)
    assert claimed(node) == []
    assert node.waiting("group") == [job_id]
    assert node.job(job_id)["progress"] == [3, 10, "x"]
    assert explain(node.value("select txqueue.explain_facts(%s)", job_id)).reason == "group"


def test_a_child_of_another_group_runs_meanwhile(node: Master) -> None:
    """The group is held until the child has ended."""
    (chunk,) = started(node)
    (child,) = node.enqueue({"group": "other"})
    node.enqueue(GROUP)
    call = {"name": "report", "kind": "call", "child": child, "hold_group": True}
    node.settle(chunk, "suspended", waits=[call])
    (its,) = node.claim()
    assert its.ids == [child]
    node.settle(its, "done")
    assert claimed(node) == chunk.ids


def test_a_child_of_the_same_group_is_not_kept_from_running(node: Master) -> None:
    """Its caller frees the place, or neither could ever run."""
    (chunk,) = started(node)
    (child,) = node.enqueue(GROUP)
    call = {"name": "report", "kind": "call", "child": child, "hold_group": True}
    node.settle(chunk, "suspended", waits=[call])
    assert claimed(node) == [child]


@pytest.mark.parametrize("is_parked", [False, True])
def test_a_paused_group_stops_its_holder_until_it_is_resumed(node: Master, is_parked: bool) -> None:
    """The job that holds goes on after the pause, before all others, even if it was parked."""
    holder, others = waiting(node)
    node.value("select txqueue.pause('group', 'account 7', 'me')")
    signal(node, holder)
    if is_parked:
        assert claimed(node) == []
        assert holder in node.waiting("group")
    node.value("select txqueue.resume('group', 'account 7', 'me')")
    (chunk,) = node.claim()
    assert chunk.ids == [holder]
    node.settle(chunk, "done")
    assert claimed(node) == others


def killed(node: Master, chunk: Taken) -> None:
    """The process dies before the job has started."""
    node.release(chunk.assignment, died=True)


def unread(node: Master, chunk: Taken) -> None:
    """The worker cannot read the payload."""
    node.settle(chunk, "unread", version="test.kind#1", error="x")


@pytest.mark.parametrize(("give_back", "times"), [(killed, 5), (unread, 2)])
def test_a_holder_that_fails_without_a_run_holds_nothing(
    node: Master, give_back: Callable[[Master, Taken], None], times: int
) -> None:
    """By the deaths of five processes, or as no node could read it in time."""
    holder, others = waiting(node)
    signal(node, holder)
    node.reports(unreadable_for=0)
    for _ in range(times):
        (chunk,) = node.claim()
        give_back(node, chunk)
    assert node.job(holder)["state"] == "failed"
    assert (claimed(node), holds(node)) == (others, [])


def test_the_lease_of_a_holders_node_expires(node: Master, other: Master, third: Master) -> None:
    """While the job waits, and once more while it goes on: no other job starts in its place."""
    holder, others = waiting(node)
    node.falls_silent()
    other.value("select txqueue.rescue(%s)", other.incarnation)
    assert claimed(other) == []
    signal(other, holder)
    assert claimed(other) == [holder]
    other.falls_silent()
    assert third.value("select txqueue.rescue(%s)", third.incarnation) == 1
    (again,) = third.claim()
    assert again.ids == [holder]
    third.settle(again, "done")
    assert claimed(third) == others


def test_a_holder_goes_on_although_the_rate_of_its_group_is_used_up(node: Master) -> None:
    """It has started already; the jobs behind it wait for the rate."""
    node.value("select txqueue.set_limit('group', 'account 7', null, 0.001, 1, null, null, 'me')")
    holder, _ = waiting(node)
    signal(node, holder)
    (chunk,) = node.claim()
    assert chunk.ids == [holder]
    node.settle(chunk, "done")
    assert claimed(node) == []


def test_a_holder_that_no_node_takes_keeps_only_its_own_place(node: Master) -> None:
    """The second slot of a group serves its oldest parked job meanwhile."""
    holder, (parked,) = waiting(node)
    signal(node, holder)
    node.cursor.execute(
        "update txqueue.job_waiting set queue = 'other' where waiting_for = 'signal'"
    )
    assert claimed(node) == []
    node.cursor.execute(
        "insert into txqueue.control (kind, key, concurrency) values ('group', 'account 7', 2)"
    )
    node.enqueue(GROUP)
    assert claimed(node) + claimed(node) == [parked]
    assert holds(node) == [holder]


def test_two_holders_leave_the_third_slot_to_others(node: Master) -> None:
    """Each holder takes one slot, and goes on regardless of the others."""
    node.value("select txqueue.set_limit('group', 'account 7', 3, null, null, null, null, 'me')")
    first, second, *others = node.enqueue(*[GROUP] * 6)
    chunks = node.claim()
    taken = [job for chunk in chunks for job in chunk.jobs]
    keys = {job.job_id: (chunk, job) for chunk in chunks for job in chunk.jobs}
    assert [job.job_id for job in taken] == [first, second, others[0]]
    for job_id in (first, second):
        chunk, job = keys[job_id]
        node.settle(Taken(chunk.lane, chunk.assignment, [job]), "suspended", waits=[SIGNAL])
    assert claimed(node) == []
    chunk, job = keys[others[0]]
    node.settle(Taken(chunk.lane, chunk.assignment, [job]), "done")
    signal(node, second)
    assert sorted(claimed(node)) == [second, others[1]]
    signal(node, first)
    assert claimed(node) == [first]
    assert claimed(node) == []


def test_a_parked_job_is_told_which_job_holds_its_group(node: Master) -> None:
    """The explanation names the holder and the signal that it waits for."""
    holder, (other,) = waiting(node)
    facts = node.value("select txqueue.explain_facts(%s)", other)
    blocker = explain(facts)
    assert blocker.reason == "group"
    assert f"job {holder}, which waits for the signal 'approved'" in blocker.detail

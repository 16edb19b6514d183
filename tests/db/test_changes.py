"""Acts on jobs that no node has claimed: move, reschedule and delete."""

import pytest

from tests.db.masters import Master
from tests.db.test_acting import act, actions, ended

SOON, NEVER = "2100-01-01T00:00:00Z", "infinity"


def move(session: Master, queue: str, *ids: int) -> tuple[object, ...]:
    """Move jobs; returns the two lists."""
    return act(session, "move(%s::bigint[], %s, 'ann')", list(ids), queue)


def reschedule(session: Master, moment: str, *ids: int) -> tuple[object, ...]:
    """Reschedule jobs; returns the two lists."""
    return act(session, "reschedule(%s::bigint[], %s, 'ann')", list(ids), moment)


def delete(session: Master, *ids: int) -> tuple[object, ...]:
    """Delete jobs; returns the two lists."""
    return act(session, "delete_jobs(%s::bigint[], 'ann')", list(ids))


def test_a_moved_job_is_claimed_from_its_new_queue(node: Master) -> None:
    """Ready or waiting, and no longer from its former one."""
    ready, later = node.enqueue({}, {"not_before": SOON})
    assert move(node, "mail", later, ready) == ([ready, later], [])
    assert node.claim() == []
    assert node.job(later)["queue"] == "mail"
    assert node.take(queues=("mail",)).ids == [ready]
    assert move(node, "bulk", ready) == ([], [ready])
    assert actions(node) == [("ann", "move", "2 jobs")]


@pytest.mark.parametrize("call", ["move(%s::bigint[], '', 'ann')", "reschedule(%s, null, 'ann')"])
def test_a_wrong_argument_is_refused(node: Master, call: str) -> None:
    """Before anything is written."""
    with pytest.raises(Exception, match=r"must have 1 to 200 characters|the moment is missing"):
        act(node, call, node.enqueue({}))


def test_a_rescheduled_job_waits_or_starts(node: Master) -> None:
    """By its new moment; one for never, too."""
    ready, later = node.enqueue({}, {"not_before": SOON})
    assert reschedule(node, NEVER, ready) == ([ready], [])
    assert reschedule(node, "now", later) == ([later], [])
    assert node.waiting("time") == [ready]
    assert node.claimed_ids() == [later]


def test_a_rescheduled_job_still_waits_for_others(node: Master) -> None:
    """A child for its parents, and then for its moment."""
    (parent,) = node.enqueue({})
    (child,) = node.enqueue({"after": [parent]})
    assert reschedule(node, SOON, child) == ([child], [])
    assert node.waiting("parents") == [child]
    (chunk,) = node.claim()
    node.complete(chunk)
    assert node.waiting("time") == [child]


def test_a_job_is_not_rescheduled_to_after_its_not_after(node: Master) -> None:
    """Nor one that waits at a step, whose wait has a moment of its own."""
    late, asleep = node.enqueue({"not_after": SOON}, {"not_before": SOON})
    node.cursor.execute(
        "insert into txqueue.job_step (job_id, name, kind) values (%s, 'nap', 'sleep')", (asleep,)
    )
    assert reschedule(node, SOON, late, asleep) == ([], [late, asleep])


def test_a_rescheduled_job_of_a_rate_frees_its_group(node: Master) -> None:
    """The next job of the group takes the token for which it waited."""
    node.value("select txqueue.set_limit('group', 'g', null, 0.001, 1, null, null, 'ann')")
    first, second, third = node.enqueue(*[{"group": "g"}] * 3)
    (chunk,) = node.claim()
    node.claim()
    node.complete(chunk)
    assert node.waiting("rate") == [second]
    reschedule(node, SOON, second)
    assert (node.waiting("time"), node.waiting("rate")) == ([second], [third])
    assert chunk.ids == [first]


def test_a_deleted_job_is_gone_with_what_belongs_to_it(node: Master) -> None:
    """In each state but assigned; a job that waits for it is cancelled, its key is free."""
    done = ended(node, "done")
    failed = ended(node, "failed")
    (held,) = node.enqueue({})
    node.claim()
    keyed, *_ = node.enqueue({"unique": "k"})
    (child,) = node.enqueue({"after": [keyed]})
    node.value("select txqueue.signal(%s, 'go', '1')", keyed)
    assert delete(node, done, failed, held, keyed) == ([done, failed, keyed], [held])
    assert node.column("select job_id from txqueue.job order by 1") == [held, child]
    assert node.job(child)["state"] == "cancelled"
    for table in ("job_signal", "failed_attempt", "unique_job", "request"):
        assert node.value(f"select count(*) from txqueue.{table}") == 0
    assert actions(node)[-1] == ("ann", "delete", "3 jobs")


def test_an_edited_job_runs_with_its_new_payload(node: Master) -> None:
    """What it was is recorded nowhere; a payload that no client could enqueue is refused."""
    held, ready = node.enqueue({}, {"payload": {"secret": 1}})
    node.claim(1)
    edit = "edit(%s::bigint[], %s, 'ann')"
    assert act(node, edit, [ready, held], '{"secret": 2}') == ([ready], [held])
    assert node.job(ready)["payload"] == {"secret": 2}
    assert "secret" not in node.value("select action::text from txqueue.action")
    with pytest.raises(Exception, match="is not a JSON object"):
        act(node, edit, [ready], "[]")
    node.publish("test.kind", policy={"encrypted": True})
    with pytest.raises(Exception, match="are encrypted, and this one is in clear"):
        act(node, edit, [ready], "{}")

"""A session that locks the row of a running job holds up that job, and nothing else of its node."""

from collections.abc import Iterator

import psycopg2
import pytest

from tests.db.masters import Master, master
from tests.db.test_steps import write
from tests.waiting import eventually
from txqueue.policy.findings.catalogue import warnings
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.queue_state import about_blocked

pytestmark = pytest.mark.new_sessions

LOCKS = ("share", "update")


@pytest.fixture
def stranger(dsn: str, node: Master) -> Iterator[Master]:
    """A session with an open transaction; each of its statements must not wait."""
    with master(dsn, "stranger") as session:
        node.cursor.execute("set lock_timeout = '1s'")
        session.connection.autocommit = False
        yield session
        session.connection.rollback()


def lock(stranger: Master, strength: str, job_id: int) -> None:
    """Lock the row of a job."""
    stranger.cursor.execute(f"select from txqueue.job where job_id = {job_id} for {strength}")


def held(node: Master, *ids: int) -> list[int]:
    """Which of some jobs cannot end now."""
    found: list[int] = node.value(
        "select txqueue.held_jobs(%s, %s::bigint[])", node.incarnation, list(ids)
    )
    return sorted(found)


@pytest.mark.parametrize("strength", LOCKS)
def test_the_locked_jobs_among_those_that_end_are_found(
    node: Master, stranger: Master, strength: str
) -> None:
    """Those of other runs are not among them, nor those that have ended."""
    ids = node.enqueue({}, {}, {})
    (chunk,) = node.claim()
    lock(stranger, strength, ids[1])
    assert held(node, *ids, 999) == [ids[1]]
    assert held(stranger, *ids) == []
    stranger.connection.rollback()
    assert held(node, *ids) == []
    assert node.complete(chunk) == 3


def test_a_job_whose_group_or_child_is_locked_is_found(node: Master, stranger: Master) -> None:
    """Its end would wait for the key of the group, or for the row of the child."""
    parent, grouped, free = node.enqueue({}, {"group": "g"}, {"group": "h"})
    (child,) = node.enqueue({"after": [parent]})
    node.claim()
    assert held(node, parent, grouped, free) == []
    stranger.value("select txqueue.lock_keys(array[txqueue.key_of('g')])::text")
    assert held(node, parent, grouped, free) == [grouped]
    lock(stranger, "update", child)
    assert held(node, parent, grouped, free) == [parent, grouped]


@pytest.mark.parametrize("strength", LOCKS)
@pytest.mark.parametrize("how", ["release", "leave", "mark_dead"])
def test_what_is_free_returns_to_the_queue(
    node: Master, stranger: Master, strength: str, how: str
) -> None:
    """A rescue returns the rest of a node that has ended, once it is free."""
    ids = node.enqueue({}, {"group": "g"})
    (chunk,) = node.claim()
    lock(stranger, strength, ids[0])
    if how == "release":
        assert node.release(chunk.assignment) == 1
    elif how == "leave":
        assert node.value("select txqueue.leave(%s, 'stopped')", node.incarnation) == 1
    else:
        assert node.value("select txqueue.mark_dead(array[%s])", node.incarnation) == 1
    assert node.ready() == ids[1:]
    stranger.connection.rollback()
    if how == "release":
        assert node.release(chunk.assignment) == 1
    else:
        assert node.value("select txqueue.rescue()") == 1
    assert node.ready() == ids


def test_a_job_is_rescued_however_long_it_was_locked(node: Master, stranger: Master) -> None:
    """Not each heartbeat looks for jobs of nodes that have long been gone."""
    ids = node.enqueue({})
    node.claim()
    lock(stranger, "share", ids[0])
    assert node.value("select txqueue.leave(%s, 'stopped')", node.incarnation) == 0
    node.cursor.execute("update txqueue.node_info set ended_at = now() - interval '1 day'")
    stranger.connection.rollback()
    assert any(node.value("select txqueue.rescue()") for _ in range(1000))
    assert node.ready() == ids


@pytest.mark.parametrize("strength", LOCKS)
def test_what_is_free_is_passed_on(
    node: Master, other: Master, stranger: Master, strength: str
) -> None:
    """The locked job stays where it is."""
    ids = node.enqueue({}, {})
    (chunk,) = node.claim()
    lock(stranger, strength, ids[0])
    passed = node.column(
        "select ids_passed from txqueue.pass_on(%s, array[%s]::bigint[], null, %s)",
        node.incarnation,
        chunk.assignment,
        other.incarnation,
    )
    assert passed == [ids[1:]]


@pytest.mark.parametrize("strength", LOCKS)
@pytest.mark.parametrize("has_steps", [False, True])
def test_a_step_of_a_locked_job_is_refused_at_once(
    node: Master, stranger: Master, strength: str, has_steps: bool
) -> None:
    """With those of other jobs, each of which its worker then writes by itself."""
    first, second = node.enqueue({}, {})
    (chunk,) = node.claim()
    if has_steps:
        write(node, chunk, {"name": "before"})
    lock(stranger, strength, first)
    node.cursor.execute("set lock_timeout = '100s'")
    if has_steps and strength == "share":
        assert write(node, chunk, {"name": "a"}) == {0: None}
        return
    with pytest.raises(psycopg2.errors.LockNotAvailable):
        write(node, chunk, {"name": "a"}, {"name": "a", "job_id": second})
    assert write(node, chunk, {"name": "a", "job_id": second}) == {0: None}


@pytest.mark.parametrize("strength", LOCKS)
async def test_the_session_is_named_where_the_state_of_the_queue_is_told(
    dsn: str, node: Master, stranger: Master, strength: str
) -> None:
    """By status and doctor; of the running jobs only the locked one counts."""
    ids = node.enqueue({}, {}, {})
    node.claim()
    node.cursor.execute(
        "update txqueue.job_assigned set started_at = now(), assigned_at = now() - interval '9 s'"
    )
    lock(stranger, strength, ids[1])
    with Session(dsn, "txqueue") as session:
        await eventually(lambda: session.find(about_blocked("txqueue")).reasons)
        reasons = session.find(about_blocked("txqueue")).reasons
    [warning] = warnings({"blocked_jobs": reasons})
    assert f"1 job does not run, such as job {ids[1]}" in warning["what"]
    assert f"session {stranger.connection.info.backend_pid}" in warning["what"]

"""Which session waits for which: other logins delay no one, handlers only the jobs they lock."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest

from tests.db.masters import Master, master
from tests.db.test_controls import limit

pytestmark = pytest.mark.new_sessions

# What locks were called before version 5, and what they might be called.
NAMES = (
    *("txqueue control", "txqueue rotate", "txqueue history", "txqueue gauge", "txqueue migrate"),
    *("g", "queue default", "node node", "node other"),
)
COALESCE = "select * from txqueue.coalesce_into(%s, %s, %s, 100000, %s)"


@pytest.fixture
def stranger(dsn: str, node: Master) -> Iterator[psycopg2.extensions.cursor]:
    """A session of a login that may connect, and nothing else."""
    node.cursor.execute("drop role if exists txqueue_stranger")
    node.cursor.execute("create role txqueue_stranger login")
    with closing(psycopg2.connect(dsn, user="txqueue_stranger")) as connection:
        connection.autocommit = True
        yield connection.cursor()
    node.cursor.execute("drop role txqueue_stranger")


@pytest.fixture
def handler(dsn: str, node: Master) -> Iterator[Master]:
    """A session in an open transaction, as a handler has one, for the jobs of `node`."""
    with master(dsn, "handler") as session:
        session.node_id, session.incarnation = node.node_id, node.incarnation
        session.connection.autocommit = False
        yield session


def taken_along(session: Master, later: bool = False) -> tuple[int, list[int]]:
    """Coalesce jobs into the running one; return its assignment, and their numbers."""
    session.cursor.execute(
        "select assignment, job_id from txqueue.job_assigned order by job_id limit 1"
    )
    ((assignment, job_id),) = session.cursor.fetchall()
    session.cursor.execute(COALESCE, (session.incarnation, assignment, job_id, later))
    return assignment, [row[0] for row in session.cursor.fetchall()]


def test_a_stranger_holds_up_nothing(node: Master, stranger: psycopg2.extensions.cursor) -> None:
    """Whatever advisory locks it takes: claims, completions, limits and maintenance continue."""
    for name in NAMES:
        for lock in ("pg_advisory_lock", "pg_advisory_lock_shared"):
            stranger.execute(f"select {lock}(hashtextextended(%s, 839))", (name,))
    node.cursor.execute("set lock_timeout = '2s'")
    node.value("select txqueue.set_limit('queue', 'default', 100, 50, 100, null, null, 'me')")
    node.value("select txqueue.pause('group', 'g', 'me')")
    node.value("select txqueue.resume('group', 'g', 'me')")
    ids = node.enqueue({"group": "g"}, {"group": "g"}, {})
    (chunk,) = node.claim()
    assert chunk.ids == [ids[0], ids[2]]
    assert node.complete(chunk) == 2
    assert node.claimed_ids() == [ids[1]]
    assert node.register("node")
    assert node.value("select did is not null from txqueue.rotate()")


@pytest.mark.parametrize("table", ["claiming", "key_lock", "duty", "job", "control"])
def test_a_stranger_cannot_lock_what_is_locked(
    node: Master, stranger: psycopg2.extensions.cursor, table: str
) -> None:
    """Neither the tables nor their rows."""
    assert node.value(f"select count(*) from pg_class where oid = 'txqueue.{table}'::regclass")
    for statement in ("lock table txqueue.{} in access share mode", "select from txqueue.{}"):
        stranger.execute("begin")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            stranger.execute(statement.format(table))
        stranger.execute("rollback")


def test_completions_do_not_wait_for_what_a_handler_takes_along(
    node: Master, handler: Master
) -> None:
    """Nor does the session that pauses its group, nor a claim."""
    limit(node, "group", "g", concurrency=2)
    ids = node.enqueue(*[{"group": "g"} for _ in range(5)])
    chunks = node.claim(workers=2)
    assert [job_id for chunk in chunks for job_id in chunk.ids] == ids[:2]
    assert taken_along(handler)[1] == ids[2:]
    node.cursor.execute("set lock_timeout = '1s'")
    assert node.complete(chunks[1]) == 1
    node.value("select txqueue.pause('group', 'g', 'me')")
    node.value("select txqueue.resume('group', 'g', 'me')")
    (other,) = node.enqueue({})
    assert node.claimed_ids() == [other]


def test_what_was_not_taken_along_after_all_runs(node: Master, handler: Master) -> None:
    """The end of the job that had it locked wakes its group."""
    limit(node, "group", "g", concurrency=2)
    ids = node.enqueue(*[{"group": "g"} for _ in range(4)])
    first, second = node.claim(workers=2)
    taken_along(handler)
    assert node.complete(second) == 1
    assert node.claimed_ids() == []
    handler.connection.rollback()
    assert node.settle(first, "failed", error="x") == ids[:1]
    assert sorted(node.claimed_ids()) == ids[2:]


def test_siblings_are_found_however_many_others_rank_before_them(
    node: Master, handler: Master
) -> None:
    """The first ten thousand of a queue were all that was looked at."""
    node.enqueue({})
    (chunk,) = node.claim()
    node.publish("other.kind")
    node.cursor.execute(
        "select txqueue.enqueue('other.kind', '{}', priority => 9) from generate_series(1, 10050)"
    )
    like = node.enqueue({}, {})
    assert taken_along(handler) == (chunk.assignment, like)


@pytest.mark.parametrize("group", [None, "g"])
def test_what_is_due_later_is_taken_along_by_choice(
    node: Master, handler: Master, group: str | None
) -> None:
    """It would have had its turn later."""
    node.enqueue({"group": group})
    node.claim()
    now, later = node.enqueue({"group": group}, {"group": group, "not_before": "2999-01-01"})
    assert taken_along(handler)[1] == [now]
    handler.connection.rollback()
    assert sorted(taken_along(handler, later=True)[1]) == [now, later]


def test_lifting_a_rate_does_not_deadlock_with_completions(node: Master, other: Master) -> None:
    """Both take the group's key before its bucket."""
    limit(node, "group", "g", rate=1.0, burst=5)
    (job_id,) = node.enqueue({"group": "g"})
    (chunk,) = node.claim()
    other.node_id, other.incarnation = node.node_id, node.incarnation
    other.connection.autocommit = False
    other.cursor.execute("select txqueue.free_groups('{g}')")
    with ThreadPoolExecutor(1) as thread:
        lifting = thread.submit(limit, node, "group", "g", "rate")
        with pytest.raises(TimeoutError):
            lifting.result(0.3)
        other.cursor.execute("set lock_timeout = '2s'")
        assert other.settle(chunk, "done") == [job_id]
        other.connection.commit()
        lifting.result(30)


@pytest.mark.parametrize(
    "call",
    ["set_priority('{1}', 9, 'me')", "cancel('{1}', 'me')", "retry('{1}', 'me')"],
    ids=["priority", "cancel", "retry"],
)
def test_acts_in_a_transaction_that_sees_an_old_state_are_refused(node: Master, call: str) -> None:
    """Jobs parked since would be missed, and wait without end."""
    node.enqueue({})
    node.connection.set_session(isolation_level="REPEATABLE READ")
    with pytest.raises(psycopg2.Error, match="in a transaction that is repeatable read"):
        node.cursor.execute(f"select * from txqueue.{call}")
    node.connection.set_session(isolation_level="READ COMMITTED")


def test_a_request_of_a_former_run_does_not_cancel_a_new_one(node: Master) -> None:
    """It was asked for a run that has failed by itself since."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.claim()
    node.cursor.execute("select * from txqueue.cancel(%s, 'me')", ([job_id],))
    assert node.settle(chunk, "failed", error="its own") == [job_id]
    node.cursor.execute("select * from txqueue.retry(%s, 'me')", ([job_id],))
    node.value("select owned from txqueue.heartbeat(%s, 0)", node.incarnation)
    assert node.job(job_id)["state"] == "ready"


MANY = 3_000
# Of an empty transaction that reads them, and of all tables and indexes of the schema.
MOST_LOCKS = 300


@pytest.mark.parametrize("what", ["claim and complete", "rescue", "coalesce"])
def test_locks_do_not_grow_with_the_number_of_groups(
    node: Master, other: Master, what: str
) -> None:
    """Those of a server are for all of its sessions together."""
    group = (lambda n: f"g{n}") if what != "coalesce" else (lambda _: None)
    node.enqueue(*[{"group": group(n)} for n in range(MANY)])
    chunks = node.claim(1 if what == "coalesce" else MANY)
    while what != "coalesce" and (more := node.claim(MANY)):
        chunks += more
    other.connection.autocommit = False
    if what == "rescue":
        other.value("select txqueue.release(%s, '{}', true, true)", node.incarnation)
    elif what == "coalesce":
        other.incarnation = node.incarnation
        assert len(taken_along(other)[1]) == MANY - 1
    else:
        other.incarnation = node.incarnation
        assert sum(other.complete(chunk) for chunk in chunks) == MANY
    locks = other.value("select count(*) from pg_locks where pid = pg_backend_pid()")
    other.connection.rollback()
    assert locks <= MOST_LOCKS

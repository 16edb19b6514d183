"""Jobs that wait for others: readied when all have ended, cancelled when one was not done."""

from collections.abc import Iterator

import psycopg2
import pytest

from tests.db.masters import Master, master
from tests.db.test_explain import explained


def put(session: Master, after: list[int], **options: object) -> int:
    """Enqueue a job that waits for others; returns its number."""
    names = "".join(f', "{name}" => %s' for name in options)
    sql = f"select txqueue.enqueue('test.kind', '{{}}', after => %s::bigint[]{names})"
    job_id: int = session.value(sql, after, *options.values())
    return job_id


def end(session: Master, outcome: str, job_id: int) -> None:
    """Take the jobs that are ready and end one of them; the others go back."""
    for chunk in session.claim():
        for number in chunk.ids:
            said = {"job_id": number, "assignment": chunk.assignment, "delay": 0}
            chosen = outcome if number == job_id else "snooze"
            session.value(
                "select settled from txqueue.settle(%s, jsonb_build_array(%s::jsonb))",
                session.incarnation,
                psycopg2.extras.Json({**said, "outcome": chosen}),
            )


def links(session: Master) -> int:
    """How many rows of job_parent and late_end exist."""
    session.value("select owned from txqueue.heartbeat(%s, 0)", session.incarnation)
    tables = ("job_parent", "late_end")
    return sum(session.value(f"select count(*) from txqueue.{table}") for table in tables)


@pytest.fixture
def open_one(dsn: str, node: Master) -> Iterator[Master]:
    """Another session, with a transaction that stays open until the test ends it."""
    with master(dsn, "open") as session:
        session.connection.autocommit = False
        yield session


def test_parents_of_the_same_transaction(node: Master, open_one: Master) -> None:
    """A pipeline enqueued at once runs in its order, and its first job may be taken at once."""
    (first,) = open_one.enqueue({})
    second = put(open_one, [first])
    third = put(open_one, [second])
    assert node.value("select count(*) from txqueue.late_end") == 0
    open_one.connection.commit()
    for job_id in (first, second, third):
        (chunk,) = node.claim()
        assert chunk.ids == [job_id]
        node.complete(chunk)
    assert links(node) == 0


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_parent_that_is_not_done_cancels_all_that_wait_for_it(node: Master, outcome: str) -> None:
    """Its children and theirs, each with a reason; children of others are not affected."""
    first, other = node.enqueue({}, {})
    child = put(node, [first, other])
    grandchild = put(node, [child])
    unrelated = put(node, [other])
    end(node, outcome, first)
    said = {"failed": "failed", "cancelled": "was cancelled"}[outcome]
    assert node.job(child)["error"] == f"cancelled: parent {first} {said}"
    assert node.job(grandchild)["error"] == f"cancelled: parent {child} was cancelled"
    assert node.waiting("parents") == [unrelated]
    end(node, "done", other)
    assert node.job(unrelated)["state"] == "ready"
    assert links(node) == 0


def test_cancelling_by_hand_cancels_what_waits(node: Master) -> None:
    """However long the chain."""
    ids = node.enqueue({})
    for _ in range(300):
        ids.append(put(node, ids[-1:]))
    node.value("select cancelled from txqueue.cancel(%s, 'ann')", ids[:1])
    assert node.states() == {"cancelled": 301}
    assert links(node) == 0


def test_a_child_that_takes_any_end(node: Master) -> None:
    """It gets the outcomes of its parents."""
    ids = node.enqueue({}, {}, {}, {})
    child = put(node, ids, after_any_end=True)
    for job_id, outcome in zip(ids, ["done", "failed", "cancelled", "done"], strict=True):
        assert node.waiting("parents") == [child]
        end(node, outcome, job_id)
    (chunk,) = node.claim()
    assert chunk.ids == [child]
    assert chunk.jobs[0].terms["parents"] == {"done": 2, "failed": 1, "cancelled": 1}


def test_a_child_still_waits_for_its_moment(node: Master) -> None:
    """Once its parents are done."""
    (first,) = node.enqueue({})
    child = put(node, [first], not_before="2999-01-01")
    end(node, "done", first)
    assert node.waiting("time") == [child]


def test_a_child_without_existing_parents_is_refused(node: Master) -> None:
    """So no job can wait for a later one, and no two for each other."""
    (first,) = node.enqueue({})
    following = first + 1
    with pytest.raises(psycopg2.Error, match=f"no job {following + 1} to wait for") as caught:
        put(node, [first, following + 1])
    assert caught.value.pgcode == "TXQ01"
    with pytest.raises(psycopg2.Error, match="null"):
        node.value("select txqueue.enqueue('test.kind', '{}', after => array[null::bigint])")
    with pytest.raises(psycopg2.Error, match="after_any_end without after"):
        node.value("select txqueue.enqueue('test.kind', '{}', after_any_end => true)")
    assert links(node) == 0


def test_explain_names_the_parents(node: Master) -> None:
    """The parents that have not ended, the first of them; and who has its unique key."""
    ids = node.enqueue(*[{}] * 8)
    child = put(node, ids)
    end(node, "done", ids[0])
    why = explained(node, child)
    assert (why.state, why.reason) == ("waiting", "parents")
    assert f"until these are done: {ids[1]} (waiting), {ids[2]} (waiting)" in why.detail
    assert why.detail.endswith("and 2 more")
    assert why.remedy.endswith(f"txqueue explain {ids[1]}")
    anyway = put(node, ids[1:2], after_any_end=True)
    assert "until these have ended" in explained(node, anyway).detail


def test_explain_names_the_holder_of_its_unique_key(node: Master) -> None:
    """One that waits because of a unique key."""
    keyed = {"unique": "k", "unique_mode": "again"}
    (first,) = node.enqueue(keyed)
    node.claim()
    (second,) = node.enqueue(keyed)
    why = explained(node, second)
    assert (why.reason, why.detail) == (
        "unique",
        f"it waits for job {first}, which holds the same unique key",
    )


def test_what_one_of_many_parents_reads(node: Master) -> None:
    """A callback of thousands of jobs costs each of them no more than one of a few does."""
    ids = node.enqueue(*[{} for _ in range(3000)])
    put(node, ids, after_any_end=True)
    (chunk, *_) = node.claim(10)
    node.connection.autocommit = False
    reading = (
        "select idx_tup_fetch + seq_tup_read from pg_stat_xact_user_tables"
        " where relid = 'txqueue.job_parent'::regclass"
    )
    before = node.value(reading)
    assert node.complete(chunk) == 10
    assert node.value(reading) - before < 300


def history_looked_through(session: Master) -> int:
    """How many days of history the open transaction has read or planned to read."""
    count: int = session.value(
        "select count(*) from pg_locks join pg_class on pg_class.oid = relation"
        " where pid = pg_backend_pid() and relkind = 'r' and relname ~ '^job_cancelled_'"
    )
    return count


def test_followed_jobs_cost_no_look_through_history(node: Master) -> None:
    """Neither to wait for a job that has not ended nor to settle one that others wait for."""
    (parent,) = node.enqueue({})
    node.connection.autocommit = False
    child = put(node, [parent])
    assert history_looked_through(node) == 0
    node.connection.commit()
    (chunk,) = node.claim()
    node.connection.commit()
    assert node.settle(chunk, "done") == [parent]
    assert history_looked_through(node) == 0
    node.connection.commit()
    assert node.claimed_ids() == [child]

"""What a node asks and does for operators over its pool: bounded, and one thing at a time."""

from collections.abc import Iterator
from typing import Any

import pytest
from twisted.internet.defer import Deferred, gatherResults

from tests.db.masters import Master
from tests.waiting import running_reactor
from txqueue.errors import JobNotFound, Refused
from txqueue.store import nonblocking_reader as asking
from txqueue.store.actions import Acting
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.nonblocking_reader import Asking
from txqueue.store.queries import Inquiry, Question, about_job, about_jobs, about_obstacles


@pytest.fixture
def pool(node: Master, dsn: str) -> Iterator[ConnectionPool]:
    """Connections as a node's, of which there are two."""
    assert node.incarnation
    pool = ConnectionPool(running_reactor(), dsn, 2, "test", patience=60)
    yield pool
    pool.close()


def bare(sql: str) -> Inquiry[list[dict[str, Any]]]:
    """Ask with a statement of the test's own."""
    return (yield Question(sql))


async def test_nothing_is_changed_by_asking(pool: ConnectionPool) -> None:
    """Whatever the question; and the connection can write again afterwards."""
    with pytest.raises(Refused, match="read-only"):
        await Asking(pool).find(bare("delete from txqueue.work_type returning work_type"))
    assert await Acting(pool, "txqueue").pause("queue", "mail", "ann")


async def test_a_question_that_takes_too_long_is_given_up(
    pool: ConnectionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With an error that says so; the next question is answered, without that limit elsewhere."""
    monkeypatch.setattr(asking, "_BOUNDED", "set local statement_timeout = 50; ")
    with pytest.raises(Refused, match="did not answer within"):
        await Asking(pool).find(bare("select pg_sleep(60)"))
    assert await Asking(pool).find(bare("select 1 as one")) == [{"one": 1}]
    assert await pool.query("show statement_timeout") == [("0",)]


async def test_operators_take_one_connection(pool: ConnectionPool) -> None:
    """However many ask at a time."""
    several = Asking(pool)
    count = "select count(*) as n from pg_stat_activity where application_name = 'test'"
    answers = await gatherResults(
        [Deferred.fromCoroutine(several.find(bare(count))) for _ in range(5)]
    )
    assert [rows[0]["n"] for rows in answers] == [1] * 5


async def test_acts_and_what_they_answer(pool: ConnectionPool, node: Master) -> None:
    """Each as Python values."""
    acting = Acting(pool, "txqueue")
    first, second = node.enqueue({}, {})
    node.claim(1)
    done = await acting.cancel([first, second, 99], "ann")
    assert (done.ended, done.refused) == ([second], [99])
    assert [(run, job_id) for run, _, job_id in done.requested] == [(node.incarnation, first)]
    assert await acting.retry([first, second], "ann") == ([second], [first])
    assert await acting.set_priority([second, 99], 9, "ann") == ([second], [99])
    control = await acting.set_limit("queue", "q", {"rate": 2.5}, [], "ann")
    assert control is not None
    assert control["rate"] == 2.5
    assert await acting.set_limit("queue", "q", {}, ["rate"], "ann") is None
    assert [await acting.drain("node", "ann"), await acting.undrain("node", "ann")] == [True, True]
    assert await acting.resume("queue", "q", "ann") is False
    with pytest.raises(Refused, match="no live node is named nobody"):
        await acting.drain("nobody", "ann")


async def test_a_job_and_what_was_done_to_it(pool: ConnectionPool, node: Master) -> None:
    """By its own number or among others."""
    asks, acting = Asking(pool), Acting(pool, "txqueue")
    first, second = node.enqueue({"payload": {"a": [1]}, "tenant": "t"}, {})
    await acting.cancel([first, second], "ann")
    await acting.retry([first], "bob")
    job = await asks.find(about_job("txqueue", first))
    assert (job["payload"], job["state"]) == ({"a": [1]}, "ready")
    assert [(act["who"], act["what"]) for act in job["actions"]] == [
        ("bob", "retry"),
        ("ann", "cancel"),
    ]
    rows, now = await asks.find(about_jobs("txqueue", {"tenant": "t", "after": None}, 5))
    assert [row["job_id"] for row in rows] == [first]
    assert now >= job["enqueued_at"]
    assert (await asks.find(about_obstacles("txqueue", first))).job_id == first
    for about in (about_job, about_obstacles):
        inquiry: Inquiry[Any] = about("txqueue", 10**12)
        with pytest.raises(JobNotFound):
            await asks.find(inquiry)

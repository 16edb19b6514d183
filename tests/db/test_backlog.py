"""Back-pressure: a queue whose backlog is limited refuses what comes beyond it."""

from typing import Any

import psycopg2
import pytest

from tests.db.masters import Master
from tests.db.stored import Taken
from txqueue.errors import QueueFull
from txqueue.store.driver.connection_pool import ConnectionPool

SET = "select txqueue.set_limit(%s, %s, null, null, null, null, null, 'ann', %s, %s)"


def limit(node: Master, backlog: int | None, *cleared: str, kind: str = "queue") -> None:
    """Limit the default queue's backlog, or lift that."""
    node.value(SET, kind, "default", list(cleared), backlog)


def is_full(node: Master) -> bool:
    """Look once more, as nodes do, and say what was seen."""
    node.value("select txqueue.refresh_backlog_flags()")
    return node.column("select is_full from txqueue.control where key = 'default'") == [True]


def test_a_full_queue_refuses_and_others_do_not(node: Master) -> None:
    """With an error of its own, one by one and in bulk; nothing of the call is written."""
    limit(node, 3)
    node.enqueue({}, {}, {})
    assert is_full(node)
    with pytest.raises(psycopg2.Error, match="the queue default is full") as one:
        node.value("select txqueue.enqueue('test.kind', '{}')")
    assert one.value.pgcode == "TXQ02"
    with pytest.raises(psycopg2.Error, match="is full"):
        node.enqueue({"queue": "other"}, {})
    node.enqueue({"queue": "other"})
    assert node.states() == {"ready": 4}


@pytest.mark.parametrize(
    ("queue", "shown"),
    [("mail", "mail"), ("a mail", "'a mail'"), ("-x", "NAME"), ("x\ny", "NAME")],
)
def test_the_remedy_is_a_command_for_a_shell(node: Master, queue: str, shown: str) -> None:
    """Which has no name that a shell, or the command, would take for something else."""
    with pytest.raises(psycopg2.Error) as refused:
        node.value("select txqueue.refuse_full_queue(%s)", queue)
    hint = refused.value.diag.message_hint or ""
    assert hint.endswith(f"txqueue limit queue {shown} --backlog N")


def test_a_limit_holds_from_the_moment_that_it_is_set(node: Master) -> None:
    """And is gone with its lifting."""
    node.enqueue({}, {})
    limit(node, 2)
    with pytest.raises(psycopg2.Error, match="is full"):
        node.enqueue({})
    limit(node, None, "backlog")
    assert node.column("select key from txqueue.control") == []
    node.enqueue({})


def test_it_opens_again_when_a_tenth_is_worked_off(node: Master) -> None:
    """Not with each job that is taken, so that nothing flutters."""
    limit(node, 20)
    node.enqueue(*({} for _ in range(20)))
    assert is_full(node)
    node.claim(1)
    assert is_full(node)
    node.claim(2)
    assert not is_full(node)
    node.enqueue({})


def test_a_heartbeat_looks(node: Master) -> None:
    """So that a queue without claims is marked as full."""
    limit(node, 1)
    node.enqueue({})
    assert node.beats()
    assert node.column("select is_full from txqueue.control") == [True]


def test_a_backlog_alone_keeps_no_job_from_the_short_road(node: Master) -> None:
    """Until the queue is full; then the job is refused there too."""
    call = "select assignment is not null from txqueue.enqueue_assigned(%s, %s, 'test.kind', '{}')"
    limit(node, 1)
    assert node.value(call, node.node_id, node.incarnation)
    node.enqueue({})
    assert is_full(node)
    with pytest.raises(psycopg2.Error, match="is full"):
        node.value(call, node.node_id, node.incarnation)


JOBS = {
    "ready": {},
    "of a tenant": {"tenant": "a"},
    "later": {"not_before": "2100-01-01"},
    "unknown": {"work_type": "test.unknown", "queue": "default"},
    "unique": {"unique_mode": "keep"},
    "behind another": {},
}


def varied(kind: str, number: int) -> dict[str, Any]:
    """One of several jobs of a kind."""
    return JOBS[kind] | ({"unique": str(number)} if kind == "unique" else {})


@pytest.mark.parametrize("kind", JOBS)
def test_no_kind_of_jobs_gets_past_the_limit(node: Master, kind: str) -> None:
    """One by one and at once, without a claim or a heartbeat that counts."""
    (first,) = node.enqueue({"queue": "other"})
    after = {"after": [first]} if kind == "behind another" else {}
    node.value("select txqueue.pause('queue', 'default', 'me')")
    limit(node, 20)
    with pytest.raises(psycopg2.Error, match="the queue default is full"):
        node.enqueue(*(varied(kind, number) | after for number in range(21)))
    for number in range(20):
        node.enqueue(varied(kind, number) | after)
    with pytest.raises(psycopg2.Error, match="the queue default is full"):
        node.enqueue(varied(kind, 21) | after)
    assert node.value("select txqueue.backlog('default')") == 20
    assert is_full(node)


def test_jobs_that_wait_after_a_run_count(node: Master) -> None:
    """For a retry, for a signal, or for their group; running ones do not."""
    limit(node, 3)
    node.enqueue({"group": "a"}, {}, {})
    taken = [
        Taken(chunk.lane, chunk.assignment, [job]) for chunk in node.claim() for job in chunk.jobs
    ]
    assert node.value("select txqueue.backlog('default')") == 0
    node.enqueue({"group": "a"})
    assert node.claim() == []
    node.settle(taken[1], "retry", delay=60, error="x")
    node.settle(taken[2], "suspended", waits=[{"name": "a", "kind": "signal", "signal": "a"}])
    assert node.value("select txqueue.backlog('default')") == 3
    with pytest.raises(psycopg2.Error, match="the queue default is full"):
        node.value("select txqueue.enqueue('test.kind', '{}')")


def test_waiting_jobs_have_an_index_by_queue_with_the_first_limit_only(node: Master) -> None:
    """Which each of them would pay for."""
    index = "select to_regclass('txqueue.job_waiting_queue_idx') is not null"
    node.cursor.execute("drop index if exists txqueue.job_waiting_queue_idx")
    node.value(SET, "queue", "other", ["backlog"], None)
    assert not node.value(index)
    limit(node, 3)
    assert node.value(index)


def test_only_queues_have_a_backlog(node: Master) -> None:
    """And one of at least one job."""
    with pytest.raises(psycopg2.Error, match="a tenant has no backlog"):
        limit(node, 5, kind="tenant")
    with pytest.raises(psycopg2.Error, match="a backlog of 0 is below 1"):
        limit(node, 0)


async def test_applications_get_an_error_of_its_own(node: Master, pool: ConnectionPool) -> None:
    """One that says when to try again."""
    limit(node, 1)
    node.enqueue({})
    assert is_full(node)
    with pytest.raises(QueueFull, match="enqueue it again later"):
        await pool.query("select txqueue.enqueue('test.kind', '{}')")

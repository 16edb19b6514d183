"""The demand for nodes: the weight of what runs in a queue or could run."""

import pytest

from tests.db.masters import Master

pytestmark = pytest.mark.new_sessions

READ = (
    "select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::integer"
    " from pg_stat_xact_user_tables where relname ~ '^job_'"
)


def demand(node: Master, queue: str | None = "default") -> int:
    """Call `demand()`."""
    found: int = node.value("select txqueue.demand(%s)", queue)
    return found


def test_ready_and_assigned_jobs_count_by_weight(node: Master) -> None:
    """With and without a tenant; jobs of other queues and jobs that have ended do not count."""
    assert demand(node) == 0
    node.enqueue({"weight": 5}, {"tenant": "acme", "weight": 7}, {"queue": "other", "weight": 90})
    assert demand(node) == 12
    (chunk,) = node.claim(5)
    assert demand(node) == 12
    node.complete(chunk)
    assert demand(node) < 12
    assert demand(node, "other") == 90


@pytest.mark.parametrize("queue", [None, "", "unknown"])
def test_no_such_queue(queue: str | None, node: Master) -> None:
    """No error: a scaler may start before the first job."""
    node.enqueue({})
    assert demand(node, queue) == 0


def test_due_jobs_count_while_no_node_promotes_them(node: Master) -> None:
    """So that a fleet without nodes grows again for a job whose time has come."""
    node.enqueue({"not_before": "2999-01-01T00:00:00Z", "weight": 3})
    assert demand(node) == 0
    node.value(
        "update txqueue.job set not_before = now() - interval '1 minute'"
        " where state = 'waiting' returning 1"
    )
    assert demand(node) == 3
    assert demand(node, "other") == 0


def test_it_is_capped_and_reads_no_more_than_that(node: Master) -> None:
    """Whatever waits in the queue."""
    node.enqueue(*({} for _ in range(12_000)))
    node.connection.autocommit = False
    before = node.value(READ)
    assert demand(node) == 10_000
    assert node.value(READ) - before <= 10_000
    node.connection.rollback()
    node.connection.autocommit = True
    node.enqueue({"queue": "heavy", "weight": 50_000})
    assert demand(node, "heavy") == 10_000

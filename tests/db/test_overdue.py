"""A backlog that became due while nothing claimed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tests.db.masters import Master

OVERDUE = 6000
LONG_AGO = "2020-01-01T00:00:00Z"


def backlog(
    node: Master, count: int = OVERDUE, priority: int = 4, due: str = LONG_AGO
) -> list[int]:
    """Have jobs that became due at one moment, none of them promoted; returns their numbers."""
    return node.column(
        "insert into txqueue.job_waiting (job_id, rank, not_before, enqueued_at, weight, priority,"
        " attempt, deaths, lane, state, waiting_for, work_type, queue, payload)"
        " select nextval('txqueue.job_id'), %s::timestamptz - %s * interval '1 min', %s, now(),"
        " 1, %s, 0, 0, 0, 'waiting', 'time', 'test.kind', 'default', '{}'"
        " from generate_series(1, %s) returning job_id",
        *(due, priority, due, priority, count),
    )


def claim(node: Master, since: datetime | None) -> tuple[datetime, float | None]:
    """Claim nothing but promote, as a master with little room does; returns seen_at and due_in."""
    node.cursor.execute(
        "select seen_at, due_in from txqueue.next_job(%s, %s, array['default'], array['test.kind'],"
        " 1, 1, 1, 1, 1, since => %s) order by assignment nulls last",
        (node.node_id, node.incarnation, since),
    )
    seen_at, due_in = node.cursor.fetchall()[-1]
    return seen_at, due_in


def test_claims_that_follow_each_other_promote_an_old_backlog(node: Master) -> None:
    """The moment that a claim returns does not pass what it left waiting."""
    backlog(node)
    since = None
    for _ in range(OVERDUE // 1000 + 1):
        seen_at, due_in = claim(node, since)
        since = seen_at - timedelta(seconds=60)
    assert node.waiting("time") == []
    assert due_in is None


def test_a_claim_that_leaves_none_overdue_moves_on(node: Master) -> None:
    """The moment is the claim's own when all that was due is ready."""
    backlog(node, 10)
    seen_at, _ = claim(node, None)
    assert datetime.now(UTC) - seen_at < timedelta(minutes=1)


def test_an_urgent_job_does_not_wait_for_an_older_backlog(node: Master) -> None:
    """A job of priority 9 that became due last is made ready by the first claim."""
    backlog(node)
    [urgent] = backlog(node, 1, 9, "2025-01-01T00:00:00Z")
    claim(node, None)
    assert urgent not in node.waiting("time")
    assert len(node.waiting("time")) == OVERDUE - 1000

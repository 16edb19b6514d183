"""Tenants take turns by their shares."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.db.masters import Master


def share(node: Master, tenant: str, of: float) -> None:
    """Give a tenant a share as an operator does."""
    node.value(
        "select txqueue.set_limit('tenant', %s, null, null, null, %s, null, 'me')", tenant, of
    )


def took(node: Master, weight: int, **options: object) -> Counter[str | None]:
    """Claim once; returns how many jobs of each tenant that took."""
    ids = node.take(weight).ids
    return Counter(node.column("select tenant from txqueue.job where job_id = any(%s)", ids))


def test_a_claim_is_shared_evenly(node: Master) -> None:
    """A tenant that came late, with few jobs, gets its part of the first claim."""
    node.enqueue(*[{"tenant": "large"} for _ in range(500)])
    node.enqueue(*[{"tenant": "small"} for _ in range(50)])
    assert took(node, 40) == {"large": 20, "small": 20}


def test_jobs_of_no_tenant_are_one_tenant_more(node: Master) -> None:
    """They neither starve nor are starved."""
    node.enqueue(*[{"tenant": "a"} for _ in range(100)], *[{"tenant": "b"} for _ in range(100)])
    node.enqueue(*[{} for _ in range(100)])
    assert took(node, 60) == {"a": 20, "b": 20, None: 20}


def test_shares_weigh(node: Master) -> None:
    """A tenant of share 3 gets three times as much."""
    share(node, "a", 3.0)
    node.enqueue(*[{"tenant": "b"} for _ in range(100)], *[{"tenant": "a"} for _ in range(100)])
    assert took(node, 40) == {"a": 30, "b": 10}


def test_shares_hold_in_the_mean_when_there_is_room_for_one(node: Master) -> None:
    """One job a claim, 400 claims: each tenant's part is within a few deviations of its share."""
    share(node, "a", 3.0)
    node.enqueue(*[{"tenant": "b"} for _ in range(400)], *[{"tenant": "a"} for _ in range(400)])
    total: Counter[str | None] = Counter()
    for _ in range(400):
        total += took(node, 1)
    assert total["a"] + total["b"] == 400
    assert abs(total["a"] - 300) < 60


def test_unused_shares_of_a_tenant_go_to_the_others(node: Master) -> None:
    """The claims that follow at once fill the room."""
    node.enqueue(
        *[{"tenant": "small"} for _ in range(3)], *[{"tenant": "large"} for _ in range(50)]
    )
    first = node.take(40)
    assert first.reached is not None
    assert len(first.ids) == 23
    assert len(node.take(17).ids) == 17


def test_inside_a_tenant_the_rank_decides(node: Master) -> None:
    """Priority and age count among a tenant's own jobs."""
    low, high = node.enqueue({"tenant": "a", "priority": 1}, {"tenant": "a", "priority": 8})
    assert node.take(1).ids == [high]
    assert node.take(1).ids == [low]


def test_a_tenants_groups_run_one_at_a_time(node: Master) -> None:
    """A tenant's jobs are parked like others."""
    ids = node.enqueue(*[{"tenant": "a", "group": "g"} for _ in range(3)])
    assert node.claimed_ids() == ids[:1]
    assert node.waiting("group") == ids[1:]


def test_all_of_many_tenants_get_their_turn(node: Master) -> None:
    """More tenants than have a turn in one claim are gone through claim by claim."""
    node.enqueue(*[{"tenant": f"t{n:03}"} for n in range(100) for _ in range(3)])
    seen: set[str | None] = set()
    after = ""
    for _ in range(4):
        node.cursor.execute(
            "select assignment, last_tenant from txqueue.next_job"
            "(%s, %s, '{default}', '{test.kind}', 32, 32, 100, 1000, 1, after_tenant => %s)",
            (node.node_id, node.incarnation, after),
        )
        *taken, last = node.cursor.fetchall()
        after = last[1] or ""
        numbers = [row[0] for row in taken]
        seen |= set(
            node.column("select tenant from txqueue.job where assignment = any(%s)", numbers)
        )
    assert len(seen) == 100


@pytest.mark.parametrize("lane", [0, 3])
def test_a_tenants_jobs_come_in_order_over_lanes(node: Master, lane: int) -> None:
    """A lane is only where a job lies."""
    node.lane_is(lane)
    first = node.enqueue(*[{"tenant": "a"} for _ in range(3)])
    node.lane_is(1)
    second = node.enqueue(*[{"tenant": "a"} for _ in range(3)])
    assert [*first, *second] == node.claimed_ids(6)


def test_a_claim_says_when_all_is_taken(node: Master) -> None:
    """So that its caller may sleep."""
    node.enqueue(*[{"tenant": "a"} for _ in range(3)])
    assert node.take(100).reached is None
    assert node.take(100).ids == []


def test_a_job_heavier_than_a_turn_is_taken(node: Master) -> None:
    """One a turn, as far as there is room: a short turn must not starve heavy work."""
    node.enqueue(*[{"tenant": "light"} for _ in range(200)])
    heavy = node.enqueue(*[{"tenant": "heavy", "weight": 60} for _ in range(2)])
    taken = node.take(100).ids
    assert heavy[0] in taken
    assert heavy[1] not in taken
    assert len(taken) == 1 + 40

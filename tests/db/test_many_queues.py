"""Claims of nodes that serve very many queues: they cost what is ready, not what is served."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.db.masters import Master, emptied

SERVED = [f"queue {number:04}" for number in range(5_000)]
SCANS = """
    select coalesce(sum(idx_scan), 0) from pg_stat_xact_user_tables where relname like 'job_ready_%'
"""
MOST_SCANS = 1_000
queues = st.sampled_from([*SERVED[::500], "elsewhere"])
tenants = st.sampled_from([None, None, "a", "b", "c"])
jobs_wanted = st.lists(
    st.fixed_dictionaries({"queue": queues, "tenant": tenants, "priority": st.integers(0, 9)}),
    min_size=1,
    max_size=20,
)


def scans_of_a_claim(node: Master, served: list[str] = SERVED, weight: int = 100) -> int:
    """How many searches of indexes one claim makes among the ready jobs; it takes some."""
    node.cursor.execute("begin")
    before = node.value(SCANS)
    assert node.take(weight, queues=served).ids
    scans: int = node.value(SCANS) - before
    node.cursor.execute("rollback")
    return scans


def enqueue_in_lanes(node: Master, *jobs: dict[str, Any]) -> None:
    """Enqueue the same jobs into three lanes."""
    for lane in range(3):
        node.lane_is(lane)
        node.enqueue(*jobs)


@pytest.mark.parametrize("limit", [None, SERVED[500], SERVED[501]])
@pytest.mark.parametrize("tenant", [None, "acme"])
def test_few_of_many_queues_have_jobs(node: Master, limit: str | None, tenant: str | None) -> None:
    """With or without tenants and limits."""
    enqueue_in_lanes(node, *({"queue": name, "tenant": tenant} for name in SERVED[::500]))
    if limit is not None:
        node.value("select txqueue.set_limit('queue', %s, 5, null, null, null, null, 'me')", limit)
    assert scans_of_a_claim(node) < MOST_SCANS


def test_each_queue_has_a_tenant_of_its_own(node: Master) -> None:
    """The next tenant is not searched for in each of the queues."""
    jobs = [{"queue": name, "tenant": f"of {name}"} for name in SERVED[:1_500]]
    enqueue_in_lanes(node, *jobs)
    assert scans_of_a_claim(node, SERVED[:1_500], weight=4) < 10 * 3 * 1_500


def test_jobs_of_many_queues_of_other_nodes_are_ready(node: Master) -> None:
    """A claim soon gives up going from one to the next, and searches its own in each lane."""
    node.enqueue(*({"queue": f"other {number}"} for number in range(2_000)))
    node.enqueue({"queue": SERVED[7]})
    assert scans_of_a_claim(node) < 1.2 * 8 * len(SERVED)


@given(jobs=jobs_wanted, weight=st.integers(1, 20), has_reserve=st.booleans())
def test_many_queues_change_no_claim(
    node: Master, jobs: list[dict[str, Any]], weight: int, has_reserve: bool
) -> None:
    """It takes what a node takes that serves only those of them that have jobs."""
    emptied(node)
    node.cursor.execute("delete from txqueue.control")
    enqueue_in_lanes(node, *jobs)
    if has_reserve:
        node.value(
            "select txqueue.set_limit('queue', %s, null, null, null, null, 0.5, 'me')", SERVED[0]
        )
    # How many of a tenant are taken first is up to chance, as long as there is not room for all.
    has_tenants = any(job["tenant"] for job in jobs)
    taken = []
    for served in (SERVED[::500], SERVED):
        node.cursor.execute("begin")
        ids = node.take(1_000 if has_tenants else weight, queues=served, capacity=10).ids
        taken.append(sorted(ids) if has_tenants else ids)
        node.cursor.execute("rollback")
    assert taken[0] == taken[1]

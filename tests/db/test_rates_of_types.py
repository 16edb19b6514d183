"""The rates that work types declare for their groups, and handlers that raise Throttled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.stored import Taken
from tests.db.test_explain import explained
from tests.db.test_limits import limit, resume
from tests.waiting import eventually

HOURLY = {"rate": 1 / 3600, "burst": 1}


def declare(node: Master, work_type: str = "test.kind", **rate: float) -> None:
    """Publish a work type with a rate for its groups, of which a hundred jobs may run at a time."""
    node.publish(work_type, policy={"group_limit": 100, "group_rate": {**HOURLY, **rate}})


def at_once(node: Master) -> list[int]:
    """Claim until there is nothing to claim; return the numbers of the jobs."""
    taken: list[int] = []
    while ids := node.take(work_types=["test.kind", "test.other"]).ids:
        taken += ids
    return taken


def throttle(node: Master, chunk: Taken, delay: float = 60.0) -> None:
    """End the only job of a chunk as a handler that raises Throttled."""
    node.settle(chunk, "snooze", delay=delay, throttled=True)


def end_holds(node: Master) -> None:
    """Have the time pass until no key is held, and what waits for that is due."""
    node.cursor.execute("update txqueue.control set held_until = clock_timestamp()")
    node.cursor.execute("update txqueue.job_waiting set not_before = clock_timestamp()")


def test_each_group_has_the_rate_of_its_type(node: Master) -> None:
    """Its burst starts at once, of each group, and jobs without a group have no rate."""
    declare(node, burst=2)
    groups = [{"group": group} for group in "ab" for _ in range(3)]
    ids = node.enqueue(*groups, {}, {}, {})
    assert sorted(at_once(node)) == [*ids[:2], *ids[3:5], *ids[6:]]
    assert node.waiting("rate") == [ids[2], ids[5]]
    assert explained(node, ids[2]).reason == "rate"


@pytest.mark.parametrize("source", ["type", "operator"])
async def test_the_next_job_starts_while_others_run(node: Master, source: str) -> None:
    """When a token is there, not when a job of the group ends."""
    if source == "type":
        declare(node, rate=10)
    else:
        limit(node, "group", "g", rate=10.0, concurrency=10)
    ids = node.enqueue(*[{"group": "g"} for _ in range(3)])
    taken: list[int] = []

    def took() -> bool:
        taken.extend(node.claimed_ids())
        return len(taken) == 3

    await eventually(took)
    assert taken == ids


def test_an_operators_rate_takes_the_place_of_that_of_the_type(node: Master) -> None:
    """It counts jobs, whatever they cost."""
    declare(node)
    limit(node, "group", "g", rate=HOURLY["rate"], burst=3, concurrency=10)
    ids = node.enqueue(*[{"group": "g", "weight": 5} for _ in range(5)])
    assert at_once(node) == ids[:3]


def test_types_of_one_group_have_rates_of_their_own(node: Master) -> None:
    """A type without a rate is not held up, but by a job of the group that goes first."""
    declare(node)
    node.publish("test.other", policy={"group_limit": 100})
    other = {"work_type": "test.other", "group": "g"}
    first, token, waits, _ = node.enqueue(other, {"group": "g"}, {"group": "g"}, other)
    assert sorted(at_once(node)) == [first, token]
    assert node.waiting("rate") == [waits]


@pytest.mark.parametrize(("cost", "started"), [(0, 2), (1, 1), (3, 0)])
def test_a_handler_settles_what_its_job_has_cost(node: Master, cost: float, started: int) -> None:
    """What it did not use is given back at once; what it used more delays the next ones, and
    explain says so.
    """
    declare(node, burst=2)
    first, *others = node.enqueue(*[{"group": "g"} for _ in range(4)])
    (chunk,) = node.claim(1)
    assert chunk.ids == [first]
    node.settle(chunk, "done", cost=cost)
    assert at_once(node) == others[:started]
    told = explained(node, others[started])
    assert ("former ones cost 1 more than that; this job may start" in told.detail) == (cost == 3)
    assert ("what former ones cost is then forgotten" in told.remedy) == (cost == 3)


@pytest.mark.parametrize(
    ("key", "others", "held"),
    [
        ({"group": "g", "tenant": "t"}, [{"group": "g"}, {"tenant": "t"}, {}], 1),
        ({"tenant": "t"}, [{"tenant": "t"}, {"tenant": "u"}, {}], 1),
        ({}, [{}, {"tenant": "t"}, {"group": "g"}], 3),
    ],
    ids=["group", "tenant", "queue"],
)
def test_a_throttled_job_holds_its_key(
    node: Master, key: Mapping[str, Any], others: list[dict[str, Any]], held: int
) -> None:
    """Its group, else its tenant, else its queue: until the delay is over, on all nodes."""
    (job,) = node.enqueue(dict(key))
    (chunk,) = node.claim()
    throttle(node, chunk)
    ids = node.enqueue(*others)
    assert sorted(at_once(node)) == ids[held:]
    for each in (job, *ids[:held]):
        told = explained(node, each)
        assert told.reason == "throttled"
        assert f"by job {job}" in told.detail
        assert (f"which raised it: txqueue retry {job}" in told.remedy) == (each == job)
    end_holds(node)
    assert sorted(at_once(node)) == [job, *ids[:held]] if "group" not in key else [job]


def test_a_resumed_key_leaves_the_throttled_job_its_delay(node: Master) -> None:
    """Until it is retried, as explain says."""
    job, other = node.enqueue({"tenant": "t"}, {"tenant": "t"})
    throttle(node, node.claim(1)[0])
    resume(node, "tenant", "t")
    assert at_once(node) == [other]
    assert f"txqueue retry {job}" in explained(node, job).remedy
    node.value("select retried from txqueue.retry(%s, 'ann')", [job])
    assert at_once(node) == [job]


def test_an_operators_rate_forgets_what_jobs_have_cost(node: Master) -> None:
    """As explain tells, also when it is cleared; an act that leaves it does not."""
    declare(node)
    _, *waits = node.enqueue(*[{"group": "g"} for _ in range(3)])
    node.settle(node.claim(1)[0], "done", cost=9)
    limit(node, "group", "g", concurrency=10)
    assert at_once(node) == []
    limit(node, "group", "g", rate=HOURLY["rate"])
    assert at_once(node) == waits[:1]
    cleared = "select txqueue.set_limit('group', 'g', null, null, null, null, null, 'me', '{rate}')"
    node.value(cleared)
    assert at_once(node) == waits[1:]


def test_direct_dispatch_obeys_a_hold(node: Master) -> None:
    """Of the queue: a job of it is not assigned when it is enqueued, nor taken without limits."""

    def is_direct() -> bool:
        sql = "select assignment is not null from txqueue.enqueue_assigned(%s, %s, %s, '{}')"
        return bool(node.value(sql, node.node_id, node.incarnation, "test.kind"))

    node.enqueue({"group": "g"}, {})
    for chunk in node.claim(1) + node.claim(1):
        assert is_direct()
        throttle(node, chunk)
    assert not is_direct()
    assert node.take_ordinary() is None


def test_a_groups_hold_leaves_other_jobs_ordinary(node: Master) -> None:
    """They are claimed as fast as without any limit."""
    node.enqueue({"group": "g"})
    throttle(node, node.claim()[0])
    ids = node.enqueue({}, {})
    assert node.take_ordinary() == ids


def test_the_lowest_rate_and_the_largest_costs(node: Master) -> None:
    """No moment is too far for the server."""
    declare(node, rate=1e-6)
    waits = node.enqueue(*[{"group": "g", "weight": 1_000_000} for _ in range(2)])[1:]
    (chunk,) = node.take(2_000_000, capacity=2_000_000).chunks
    node.settle(chunk, "snooze", delay=1e300, cost=1e300, throttled=True)
    (quick,) = node.enqueue({})
    assert node.claimed_ids() == [quick]
    assert node.waiting("rate") == waits


def test_a_job_that_its_own_transaction_completes_settles_its_cost(node: Master) -> None:
    """With its end."""
    declare(node, burst=2)
    _, *others = node.enqueue(*[{"group": "g"} for _ in range(3)])
    (chunk,) = node.claim(1)
    sql = "select txqueue.complete_one(%s, %s, %s, null, 'null', %s, 0)::text"
    node.value(sql, node.incarnation, chunk.assignment, chunk.ids[0], chunk.lane)
    assert at_once(node) == others


def test_a_throttled_run_spends_no_attempt(node: Master) -> None:
    """The worker gets how many there were in a row, so that it can end them."""
    (job,) = node.enqueue({"options": {"attempts": 2}})
    for times in (None, 1, 2):
        (chunk,) = node.claim()
        assert chunk.jobs[0].terms.get("throttled") == times
        assert chunk.jobs[0].attempt == 1
        throttle(node, chunk, 0)
    node.settle(node.claim()[0], "retry", delay=0)
    assert node.job(job)["options"] == {"attempts": 2}


@pytest.mark.parametrize("key", [{"tenant": "t"}, {}], ids=["tenant", "queue"])
def test_a_claim_says_when_a_hold_ends(node: Master, key: dict[str, Any]) -> None:
    """So that an idle node wakes for it. The longest of several holds counts."""
    node.enqueue(*[dict(key) for _ in range(3)])
    chunks = [node.claim(1)[0] for _ in range(2)]
    for chunk, delay in zip(chunks, (30, 20), strict=True):
        throttle(node, chunk, delay)
    node.cursor.execute("delete from txqueue.job_waiting")
    assert 20 < (node.take().due_in or 0) <= 30


def test_resuming_ends_a_hold(node: Master) -> None:
    """As it ends a pause."""
    node.enqueue({"group": "g"})
    throttle(node, node.claim()[0])
    (job,) = node.enqueue({"group": "g"})
    assert node.claimed_ids() == []
    resume(node, "group", "g")
    assert node.claimed_ids() == [job]


def test_nothing_is_kept_of_what_is_over(node: Master) -> None:
    """Holds that have ended, and rates that are paid for, are forgotten by a heartbeat."""
    declare(node)
    node.enqueue({"group": "g"})
    throttle(node, node.claim()[0])
    limit(node, "group", "other", concurrency=2)
    node.cursor.execute(
        "update txqueue.control set held_until = now() where held_until is not null"
    )
    node.cursor.execute("update txqueue.spent_rate set paid_at = now() - interval '1 hour'")
    node.value("select txqueue.forget_spent()")
    assert node.column("select key from txqueue.control") == ["other"]
    assert node.value("select count(*) from txqueue.spent_rate") == 0

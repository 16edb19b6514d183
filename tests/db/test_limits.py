"""What limits, rates, pauses and reserves let a claim take."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.db.masters import Master
from tests.waiting import eventually


def limit(node: Master, kind: str, key: str, **limits: object) -> None:
    """Set limits as an operator does."""
    given: Mapping[str, Any] = {
        "concurrency": None,
        "rate": None,
        "burst": None,
        "share": None,
        "reserve": None,
        **limits,
    }
    node.value(
        "select txqueue.set_limit(%s, %s, %s, %s, %s, %s, %s, 'me')", kind, key, *given.values()
    )


def pause(node: Master, kind: str, key: str) -> None:
    """Pause as an operator does."""
    node.value("select txqueue.pause(%s, %s, 'me')", kind, key)


def resume(node: Master, kind: str, key: str) -> None:
    """Resume as an operator does."""
    node.value("select txqueue.resume(%s, %s, 'me')", kind, key)


def test_a_queue_runs_no_more_than_its_limit(node: Master, other: Master) -> None:
    """All nodes together take as many as the limit says, and one more for each that ends."""
    limit(node, "queue", "default", concurrency=3)
    ids = node.enqueue(*[{} for _ in range(8)])
    (chunk,) = node.claim()
    assert chunk.ids == ids[:3]
    assert other.claimed_ids() == node.claimed_ids() == []
    node.complete(chunk)
    assert other.claimed_ids() == ids[3:6]


def test_another_queue_is_not_held_up(node: Master) -> None:
    """What is limited leaves room to what is not, however late that was enqueued."""
    limit(node, "queue", "narrow", concurrency=1)
    narrow = node.enqueue(*[{"queue": "narrow"} for _ in range(5)])
    wide = node.enqueue(*[{} for _ in range(5)])
    assert node.take(queues=("narrow", "default")).ids == [*narrow[:1], *wide]


def test_a_claim_goes_on_at_the_first_job_that_a_limit_has_left(node: Master) -> None:
    """Not behind the jobs of another queue that it took: the next end makes room for that job."""
    limit(node, "queue", "narrow", concurrency=1)
    _, left, _ = node.enqueue({"queue": "narrow"}, {"queue": "narrow"}, {})
    queues = ("narrow", "default")
    claimed = node.take(queues=queues)
    node.complete(claimed.chunks[0])
    assert claimed.reached is not None
    assert node.take(queues=queues, reached=claimed.reached).ids == [left]


def test_a_completion_says_that_a_limited_queue_has_room(node: Master) -> None:
    """The node that completes learns that others may run; of another queue's jobs it does not."""
    node.enqueue({}, {"queue": "narrow"})
    limit(node, "queue", "narrow", concurrency=1)

    def freed(queue: str) -> bool:
        chunk = node.take(queues=(queue,)).chunks[0]
        return bool(
            node.value(
                "select freed from txqueue.complete"
                "(%s, array[%s]::smallint[], array[%s]::bigint[], array[%s])",
                *(node.incarnation, chunk.lane, chunk.assignment, f"{{{chunk.ids[0]}}}"),
            )
        )

    assert (freed("narrow"), freed("default")) == (True, False)


async def test_a_rate_gives_its_burst_and_then_so_many_a_second(node: Master) -> None:
    """At most burst + rate * t are taken in t seconds, and a claim says when to ask again."""
    limit(node, "queue", "default", rate=10.0, burst=4)
    began = node.value("select extract(epoch from clock_timestamp())::float8")
    node.enqueue(*[{} for _ in range(20)])
    first = node.take()
    assert len(first.ids) == 4
    empty = node.take()
    assert empty.ids == []
    assert empty.due_in is not None
    assert 0 < empty.due_in <= 0.1
    taken = [4]

    def took() -> bool:
        taken[0] += len(node.take().ids)
        now = node.value("select extract(epoch from clock_timestamp())::float8")
        assert taken[0] <= 4 + 10.0 * (now - began)
        return taken[0] >= 12

    await eventually(took)


def test_a_paused_queue_gives_nothing(node: Master) -> None:
    """Its jobs stay ready, and run when it is resumed."""
    pause(node, "queue", "default")
    ids = node.enqueue({}, {})
    assert node.claimed_ids() == []
    assert node.ready() == ids
    resume(node, "queue", "default")
    assert node.claimed_ids() == ids


def test_a_paused_tenant_gives_nothing(node: Master) -> None:
    """Other tenants continue."""
    pause(node, "tenant", "late")
    node.enqueue({"tenant": "late"})
    ids = node.enqueue({"tenant": "early"}, {})
    assert node.claimed_ids() == ids


def test_a_tenant_runs_no_more_than_its_limit(node: Master, other: Master) -> None:
    """Its limit holds over all queues and nodes."""
    limit(node, "tenant", "narrow", concurrency=2)
    ids = node.enqueue(*[{"tenant": "narrow", "queue": f"{n % 2}"} for n in range(6)])
    queues = ("0", "1")
    taken = node.take(queues=queues)
    assert len(taken.ids) == 2
    assert other.take(queues=queues).ids == []
    node.complete(taken.chunks[0])
    assert set(other.take(queues=queues).ids) < set(ids)


def test_a_tenants_rate(node: Master) -> None:
    """A tenant's bucket is its own."""
    limit(node, "tenant", "slow", rate=0.001, burst=2)
    node.enqueue(*[{"tenant": "slow"} for _ in range(5)], *[{"tenant": "quick"} for _ in range(5)])
    taken: list[int] = []
    for _ in range(5):
        taken += node.claimed_ids()
    tenants = node.column("select tenant from txqueue.job where state = 'assigned' order by 1")
    assert tenants == ["quick"] * 5 + ["slow"] * 2


@pytest.mark.parametrize("rate", [1e-6, 1e-14, 1e-300])
@pytest.mark.parametrize("kind", ["queue", "group", "tenant"])
def test_the_lowest_rates(node: Master, kind: str, rate: float) -> None:
    """The lowest rate that is accepted, and those of older rows, hold up only their own jobs."""
    limit(node, kind, "slow", rate=1.0, burst=2)
    node.value("update txqueue.control set rate = %s returning 1", rate)
    slow = node.enqueue(*[{kind: "slow"} for _ in range(5)])
    limit(node, "group", "slow", concurrency=3)
    queues, taken = ("slow", "default"), []
    for _ in range(3):
        (quick,) = node.enqueue({})
        taken += (ids := node.take(queues=queues).ids)
        assert quick in ids
    assert [job for job in taken if job in slow] == slow[:2]


def test_the_largest_burst_of_the_lowest_rate(node: Master) -> None:
    """What is charged for it has a moment that the bucket can hold."""
    limit(node, "queue", "default", rate=1e-6, burst=1_000_000)
    node.value("select txqueue.charge_control('queue', 'default', 1000000)")
    (job,) = node.enqueue({})
    assert node.claimed_ids() == []
    limit(node, "queue", "default", rate=1.0)
    assert node.claimed_ids() == [job]


def test_shares_of_older_rows(node: Master) -> None:
    """The smallest share still has its turn, beside the largest one and alone."""
    for tenant, share in (("small", 5e-324), ("large", 1e6)):
        limit(node, "tenant", tenant, share=2)
        sql = "update txqueue.control set share = %s where key = %s returning 1"
        node.value(sql, share, tenant)
    ids = node.enqueue(*[{"tenant": tenant} for tenant in ("small", "large") for _ in range(3)])
    taken: list[int] = []
    for _ in range(3):
        taken += node.claimed_ids()
    assert sorted(taken) == ids


def test_the_group_limit_of_an_older_policy(node: Master) -> None:
    """One that is too large for a number of jobs limits no group."""
    node.publish("test.kind", policy={"group_limit": 3_000_000_000})
    ids = node.enqueue(*[{"group": "g"} for _ in range(3)])
    assert node.claimed_ids() == ids


def test_as_many_of_a_group_run_as_its_type_declares(node: Master, other: Master) -> None:
    """The oldest ones, and the next as one ends."""
    node.publish("test.kind", policy={"group_limit": 3})
    ids = node.enqueue(*[{"group": "g"} for _ in range(6)])
    chunks = node.claim(workers=3)
    assert [chunk.ids for chunk in chunks] == [[each] for each in ids[:3]]
    assert other.claimed_ids() == []
    assert node.waiting("group") == ids[3:]
    node.complete(chunks[1])
    assert other.claimed_ids() == [ids[3]]
    node.complete(chunks[0])
    node.complete(chunks[2])
    assert other.claimed_ids() == ids[4:]


def test_a_group_goes_on_while_some_of_its_jobs_are_not_parked_yet(node: Master) -> None:
    """The ready ones, which rank behind, do not count as the next ones."""
    limit(node, "group", "g", concurrency=2)
    ids = node.enqueue(*[{"group": "g"} for _ in range(2500)])
    (chunk,) = node.claim(10)
    assert chunk.ids == ids[:2]
    assert 0 < len(node.waiting("group")) < 2000
    node.complete(chunk)
    assert node.claimed_ids(2) == ids[2:4]


def test_an_operator_sets_a_groups_limit_at_run_time(node: Master) -> None:
    """Parked jobs become ready when the limit is raised."""
    ids = node.enqueue(*[{"group": "g"} for _ in range(6)])
    assert node.claimed_ids() == ids[:1]
    limit(node, "group", "g", concurrency=4)
    assert node.claimed_ids() == ids[1:4]


async def test_a_groups_rate(node: Master) -> None:
    """Its next job waits for the next token and not for longer, and its order stays."""
    limit(node, "group", "g", rate=2.0)
    ids = node.enqueue(*[{"group": "g"} for _ in range(4)])
    taken: list[int] = []
    (first,) = node.claim()
    taken += first.ids
    node.complete(first)
    assert node.claimed_ids() == []
    assert node.waiting("rate") == [ids[1]]

    def took() -> bool:
        for chunk in node.claim():
            taken.extend(chunk.ids)
            node.complete(chunk)
        return len(taken) == 4

    await eventually(took)
    assert taken == ids


@pytest.mark.parametrize("rate", [None, 1000.0])
def test_a_job_does_not_wait_for_a_groups_former_rate(node: Master, rate: float | None) -> None:
    """When the rate is lifted or raised, the job that waits for its next token starts."""
    limit(node, "group", "g", rate=0.001)
    ids = node.enqueue({"group": "g"}, {"group": "g"})
    (first,) = node.claim()
    node.complete(first)
    assert node.claimed_ids() == []
    assert node.waiting("rate") == ids[1:]
    sql = "select txqueue.set_limit('group', 'g', null, %s, null, null, null, 'me', '{rate}')"
    node.value(sql, rate)
    assert node.claimed_ids() == ids[1:]


def test_a_groups_next_token_is_for_its_first_job(node: Master) -> None:
    """The job that waits for it does not keep one back that has come since and ranks before."""
    limit(node, "group", "g", rate=0.001)
    waits = node.enqueue(*[{"group": "g"} for _ in range(2)])[1:]
    (first,) = node.claim()
    node.complete(first)
    assert node.claimed_ids() == []
    assert node.waiting("rate") == waits
    sooner = node.enqueue({"group": "g", "priority": 9})
    assert node.claimed_ids() == []
    node.value(
        "select setval('txqueue.' || format('bucket_%s', control_id), 0) from txqueue.control"
    )
    node.cursor.execute(
        "update txqueue.job_waiting set not_before = now() where waiting_for = 'rate'"
    )
    assert node.claimed_ids() == sooner


def test_a_paused_group_is_parked(node: Master) -> None:
    """Its jobs wait, others continue, and resuming it makes the oldest ready."""
    pause(node, "group", "g")
    ids = node.enqueue({"group": "g"}, {"group": "g"})
    free = node.enqueue({})
    assert node.claimed_ids() == free
    assert node.waiting("group") == ids
    resume(node, "group", "g")
    assert node.claimed_ids() == ids[:1]


@pytest.mark.parametrize(("free", "low"), [(100, 6), (96, 2), (40, 0)])
def test_a_reserve_is_kept_for_high_priorities(node: Master, free: int, low: int) -> None:
    """Of a node's capacity of 100 only priorities from 7 on take the last 94 free."""
    limit(node, "queue", "default", reserve=0.94)
    lows = node.enqueue(*[{"not_before": "2020-01-01T00:00:00Z"} for _ in range(200)])
    highs = node.enqueue(*[{"priority": 7} for _ in range(200)])
    assert node.take(free, capacity=100).ids == lows[:low] + highs[: free - low]


@pytest.mark.parametrize(("free", "low"), [(140, 50), (100, 10), (90, 0)])
def test_a_reserve_is_kept_where_quick_jobs_have_ended(node: Master, free: int, low: int) -> None:
    """Ordinary jobs, which may be long, do not take what a node may hold beyond its capacity."""
    limit(node, "queue", "default", reserve=0.5)
    lows = node.enqueue(*[{"not_before": "2020-01-01T00:00:00Z"} for _ in range(150)])
    highs = node.enqueue(*[{"priority": 7} for _ in range(150)])
    assert node.take(free, capacity=100, ahead=40).ids == lows[:low] + highs[: free - low]


def test_a_node_that_holds_quick_jobs_is_not_idle(node: Master) -> None:
    """It does not take a job that is too heavy beside the reserve, however much room it has."""
    limit(node, "queue", "default", reserve=0.5)
    (heavy,) = node.enqueue({"weight": 100})
    assert node.take(139, largest=100, capacity=100, ahead=40).ids == []
    assert node.take(140, largest=100, capacity=100, ahead=40).ids == [heavy]


@pytest.mark.parametrize("what", [None, "concurrency", "rate"])
def test_a_reserve_is_not_for_tenants_that_are_paused_or_limited(
    what: str | None, node: Master
) -> None:
    """Its turn does not count what tenants may take: they ran in spite of a pause."""
    limit(node, "queue", "default", reserve=0.5)
    if what is None:
        pause(node, "tenant", "ann")
    else:
        limit(node, "tenant", "ann", **{what: 1})
    ann = node.enqueue(*[{"tenant": "ann", "priority": 9} for _ in range(3)])
    (bob,) = node.enqueue({"tenant": "bob", "priority": 9})
    taken = {job_id for _ in range(4) for job_id in node.take(weight=100, capacity=100).ids}
    assert taken == {bob} | ({ann[0]} if what else set())


def test_a_group_at_the_head_does_not_hide_the_others(node: Master) -> None:
    """Once a claim has met the jobs of a busy group, no later claim does."""
    busy = node.enqueue(*[{"group": "busy"} for _ in range(300)])
    others = node.enqueue(*[{"group": f"g{n}"} for n in range(5)])
    assert node.claimed_ids(4) == [busy[0], *others[:3]]
    assert node.ready() == others[3:]
    assert node.claimed_ids(4) == others[3:]


@pytest.mark.parametrize(("kind", "what"), [("queue", "concurrency"), ("tenant", "concurrency")])
def test_a_limit_counts_jobs_and_not_their_weight(kind: str, what: str, node: Master) -> None:
    """A job heavier than the number that may run at a time runs all the same."""
    limit(node, kind, "default", **{what: 2})
    ids = node.enqueue(*[{"weight": 10, "tenant": "default"} for _ in range(4)])
    taken: list[int] = []
    for _ in range(4):
        taken += node.take(100).ids
    assert taken == ids[:2]


def test_a_group_pays_only_for_what_is_taken(node: Master) -> None:
    """A job that is too heavy for now leaves the token of its group where it is."""
    limit(node, "group", "g", rate=0.001, burst=1)
    (heavy,) = node.enqueue({"group": "g", "weight": 5})
    assert node.claimed_ids(3) == []
    assert node.claimed_ids(10) == [heavy]


def test_a_limit_counts_what_is_being_taken(node: Master, other: Master) -> None:
    """The session that sets it waits for earlier claims."""
    node.enqueue(*[{} for _ in range(4)])
    other.connection.autocommit = False
    assert len(other.claimed_ids(2)) == 2
    with ThreadPoolExecutor(1) as thread:
        setting = thread.submit(limit, node, "queue", "default", concurrency=2)
        with pytest.raises(TimeoutError):
            setting.result(0.2)
        other.connection.commit()
        setting.result(30)
    assert node.claimed_ids() == []


def test_what_counts_for_a_limit_is_marked(node: Master) -> None:
    """The worker must end it when its node's lease has expired: others run in its place then."""
    node.enqueue({})
    assert node.claim()[0].jobs[0].terms is None
    limit(node, "queue", "default", concurrency=3)
    node.enqueue({})
    assert node.claim()[0].jobs[0].terms == {"grouped": True}


@pytest.mark.parametrize(("weight", "reserve"), [(100, 0.1), (100, 0.999), (5000, 0.1), (1, 0.999)])
def test_a_job_too_heavy_for_what_a_reserve_leaves(
    weight: int, reserve: float, node: Master
) -> None:
    """An empty node takes it, one that runs something does not, and what follows waits for it."""
    limit(node, "queue", "default", reserve=reserve)
    heavy, light = node.enqueue({"weight": weight}, {})
    if weight > 1:
        assert node.take(99, capacity=100).ids == []
    assert node.take(100, capacity=100).ids == [heavy]
    assert node.ready() == [light]


def test_a_job_for_which_a_reserve_never_leaves_room_stops_no_other_queue(node: Master) -> None:
    """Where not all of a node's workers start jobs, it waits, and other queues go on."""
    limit(node, "queue", "default", reserve=0.5)
    heavy, other = node.enqueue({"weight": 31}, {"queue": "mail"})
    room = {"capacity": 50, "attainable": 50}
    node.reports(workers=2, closed={}, room=room, left={"weight": 20})
    assert node.take(80, queues=["default", "mail"], capacity=50, workers=2).ids == [other]
    assert node.ready() == [heavy]


def test_a_reserve_holds_whatever_an_empty_node_takes(node: Master) -> None:
    """Light jobs leave it free."""
    limit(node, "queue", "default", reserve=0.1)
    ids = node.enqueue(*[{"weight": 30} for _ in range(4)])
    assert node.take(100, capacity=100).ids == ids[:3]


@pytest.mark.parametrize("tenant", [None, "ann"])
def test_a_reserve_does_not_put_the_jobs_it_is_for_behind_other_queues(
    tenant: str | None, node: Master
) -> None:
    """A node that other queues keep busy takes urgent jobs in rank order, not what these leave."""
    limit(node, "queue", "mail", reserve=0.5)
    urgent = {"queue": "mail", "priority": 9, **({"tenant": tenant} if tenant else {})}
    low, *others = node.enqueue({"queue": "mail"}, *[{} for _ in range(50)])
    first = node.enqueue(*[urgent for _ in range(3)])
    taken = node.take(10, queues=["default", "mail"], capacity=100).ids
    assert taken == [*first, *others[:7]]
    assert low in node.ready()

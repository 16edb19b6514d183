"""What `next_job()` takes: in rank order, up to the room there is, and nothing else."""

import base64
import json
import os
from datetime import UTC, datetime, timedelta

import pytest
from attrs import frozen
from hypothesis import given
from hypothesis import strategies as st

from tests.db.masters import Master, emptied
from txqueue.model.assignment import FIELDS, AssignedJob

LANES = st.integers(0, 7)


@frozen
class Wanted:
    """A job to be enqueued into a lane, due so many seconds from now."""

    lane: int
    priority: int
    weight: int
    due_in: int
    queue: str


jobs_wanted = st.lists(
    st.builds(
        Wanted,
        lane=LANES,
        priority=st.integers(0, 9),
        weight=st.sampled_from([1, 1, 1, 2, 5, 50]),
        due_in=st.sampled_from([-3000, -100, 0, 0, 0, 1000]),
        queue=st.sampled_from(["default", "mail", "elsewhere"]),
    ),
    min_size=1,
    max_size=8,
)


def test_what_is_behind_a_job_that_is_passed_over_overtakes_no_other_queue(node: Master) -> None:
    """Where threads keep the room of a heavy job, a later one of its queue is not taken for it."""
    _, urgent, later = node.enqueue(
        {"queue": "mail", "weight": 50, "priority": 9},
        {"priority": 7},
        {"queue": "mail", "priority": 0},
    )
    left = {"jobs": [1], "weight": 60, "crowded": 1}
    node.reports(workers=1, closed={}, left=left, room={"capacity": 100, "attainable": 40})
    queues = ["default", "mail"]
    assert node.take(1, queues=queues).ids == [urgent]
    assert node.take(1, queues=queues).ids == [later]
    assert node.take(1, queues=queues).ids == []


@pytest.mark.parametrize("moment", ["infinity", "2999-01-01"])
def test_a_job_that_is_run_now_does_not_keep_a_later_rank(node: Master, moment: str) -> None:
    """An operator has brought it forward: it goes before what is enqueued afterwards."""
    (later,) = node.enqueue({"not_before": moment})
    assert node.value("select retried from txqueue.retry(%s, 'me')", [later]) == [later]
    (other,) = node.enqueue({})
    assert node.take(1).ids == [later]
    assert node.take(1).ids == [other]


def enqueue_into_lanes(node: Master, wanted: list[Wanted]) -> list[int]:
    """Enqueue each job where it is wanted; returns their numbers."""
    now = node.value("select now()")
    ids = []
    for job in wanted:
        node.lane_is(job.lane)
        due = (now + timedelta(seconds=job.due_in)).isoformat()
        ids += node.enqueue(
            {
                **({"not_before": due} if job.due_in else {}),
                **{"priority": job.priority, "weight": job.weight, "queue": job.queue},
            }
        )
    return ids


def claimable(node: Master) -> list[tuple[int, int]]:
    """What a master of two queues could take now, in rank order: numbers and weights."""
    node.cursor.execute(
        "select job_id, weight from txqueue.job where not_before <= now()"
        " and queue in ('default', 'mail') order by rank, job_id"
    )
    return node.cursor.fetchall()


def prefix(jobs: list[tuple[int, int]], weight: int) -> list[int]:
    """The first jobs that one worker of this capacity has room for."""
    taken, total = [], 0
    for job_id, its_weight in jobs:
        total += min(its_weight, weight)
        if total > weight:
            break
        taken.append(job_id)
    return taken


@given(jobs_wanted, st.integers(1, 31))
def test_claims_follow_the_rank(node: Master, wanted: list[Wanted], weight: int) -> None:
    """Each takes the first that fit, across lanes, priorities and queues, until none is left.

    A claim for less than 32 takes nothing out of order; a job heavier than the worker fills it.
    """
    emptied(node)
    enqueue_into_lanes(node, wanted)
    left = claimable(node)
    while left:
        expected = prefix(left, weight)
        claimed = node.take(weight, queues=["default", "mail"], capacity=weight)
        assert expected == claimed.ids
        left = left[len(expected) :]
    assert node.take(weight, queues=["default", "mail"]).ids == []


@given(jobs_wanted, st.integers(32, 200), st.integers(1, 3))
def test_a_large_claim_is_nearly_in_order(
    node: Master, wanted: list[Wanted], weight: int, workers: int
) -> None:
    """What it takes out of order is at most a sixteenth of it; weight is never exceeded."""
    emptied(node)
    enqueue_into_lanes(node, wanted)
    queues = ["default", "mail"]
    claimed = node.take(weight, queues=queues, capacity=weight, workers=workers)
    order = [job_id for job_id, _ in claimable(node)]
    overtaken = [a for a in order if a not in claimed.ids and order[-1] in claimed.ids]
    assert sum(claimed.weights) <= weight or len(claimed.ids) == 1
    assert len(overtaken) <= max(1, weight // 16)
    assert set(claimed.ids) <= set(order)


@pytest.mark.parametrize("lane", [0, 3])
def test_a_heavy_job_is_not_overtaken(node: Master, lane: int) -> None:
    """While no worker has room for it, what comes after it waits as well, in every lane."""
    (first,) = node.enqueue({"weight": 2})
    (heavy,) = node.enqueue({"weight": 8})
    node.lane_is(lane)
    (light,) = node.enqueue({"weight": 1})
    assert node.take(6).ids == [first]
    assert node.take(6).ids == []
    assert node.take(6, largest=6, capacity=10).ids == []
    assert node.take(20, largest=6, capacity=10).ids == []
    assert node.take(20, largest=10, capacity=10).ids == [heavy, light]


def keeps(node: Master, weight: int) -> None:
    """Threads of ended jobs keep so much of one of two workers for 50, and all of the other."""
    room = {"capacity": 50, "attainable": 50 - weight}
    node.reports(workers=2, closed={"stuck": 1}, room=room, left={"weight": weight})


def test_a_job_for_which_no_end_makes_room_stops_no_other(node: Master) -> None:
    """It is left until the threads end; one that waits only for jobs to end is not overtaken."""
    heavy, middle, light = node.enqueue({"weight": 31}, {"weight": 30}, {})
    keeps(node, 20)
    assert node.take(29, capacity=50, workers=2).ids == []
    claimed = node.take(30, capacity=50, workers=2)
    assert claimed.ids == [middle]
    assert claimed.reached is not None
    assert node.take(1, capacity=50, workers=2).ids == [light]
    assert node.take(29, capacity=50, workers=2).reached is not None
    keeps(node, 19)
    assert node.take(31, capacity=50, workers=2).ids == [heavy]


def test_only_known_types_and_served_queues_are_taken(node: Master) -> None:
    """The rest stays for the nodes that know it."""
    node.publish("claims.other")
    (mine,) = node.enqueue({})
    (foreign,) = node.enqueue({"work_type": "claims.other"})
    (elsewhere,) = node.enqueue({"queue": "mail"})
    assert node.take().ids == [mine]
    assert node.take(work_types=["claims.other"]).ids == [foreign]
    assert node.take(queues=["mail", "none"]).ids == [elsewhere]
    assert node.take(queues=[]).ids == []


def test_open_claims_take_different_jobs(node: Master, other: Master) -> None:
    """Neither waits for the other."""
    ids = node.enqueue(*[{} for _ in range(10)])
    other.cursor.execute("set lock_timeout = '5s'")
    for session in (node, other):
        session.connection.autocommit = False
    first = node.take(4).ids
    second = other.take(4).ids
    third = node.take(4).ids
    for session in (node, other):
        session.connection.commit()
    assert (first, second, third) == (ids[:4], ids[4:8], ids[8:])


def test_chunks_are_spread_and_bounded(node: Master) -> None:
    """At least one for each worker, each with a number, a weight and a token of its own."""
    ids = node.enqueue(*[{"weight": 2} for _ in range(10)])
    claimed = node.take(workers=4)
    assert [len(chunk.jobs) for chunk in claimed.chunks] == [3, 3, 3, 1]
    assert claimed.weights == [6, 6, 6, 2]
    assert claimed.ids == ids
    assert len({chunk.assignment for chunk in claimed.chunks}) == 4


def test_a_claim_has_so_many_bytes(node: Master) -> None:
    """Large payloads come in several claims, the largest alone."""
    node.cursor.execute("update txqueue.setting set payload_limit = 8000000")
    sizes = [1_900_000, 1_900_000, 1_900_000, 5_000_000, 10]
    ids = [
        node.enqueue({"payload": {"a": base64.b64encode(os.urandom(size * 3 // 4)).decode()}})[0]
        for size in sizes
    ]
    taken = []
    while claimed := node.take().ids:
        taken.append(claimed)
    assert taken == [ids[:2], ids[2:3], ids[3:4], ids[4:]]


def test_suspects_travel_by_themselves(node: Master) -> None:
    """Jobs that ran as two workers died go in a chunk of their own, once a claim."""
    ids = node.enqueue(*[{} for _ in range(4)])
    for _ in range(2):
        for chunk in node.take().chunks:
            node.release(chunk.assignment, died=True, ids=ids[1:3])
            node.release(chunk.assignment)
    taken = sorted(chunk.ids for chunk in node.take(workers=2).chunks)
    assert taken == [[ids[0]], ids[1:3], [ids[3]]]
    assert node.take(workers=2).chunks == []


def have_died(node: Master, job_id: int) -> None:
    """Two processes died that ran it."""
    node.cursor.execute("update txqueue.job_ready set deaths = 2 where job_id = %s", (job_id,))


def test_a_suspect_is_not_overtaken_where_one_worker_has_room(node: Master) -> None:
    """What ranks before it is taken, then it, then what ranks after it."""
    first, suspect, last = node.enqueue({}, {}, {})
    have_died(node, suspect)
    assert [node.take(2).ids for _ in range(3)] == [[first], [suspect], [last]]


def test_a_suspect_too_heavy_for_now_is_not_overtaken(node: Master) -> None:
    """What ranks after it waits, as behind any other job."""
    first, suspect, last = node.enqueue({}, {"weight": 2}, {})
    have_died(node, suspect)
    assert node.take(2, capacity=2, workers=2).ids == [first]
    assert node.take(1, capacity=2, workers=2).ids == []
    assert node.take(3, capacity=2, workers=2).ids == [suspect, last]


def test_it_says_how_far_it_came(node: Master) -> None:
    """The next claim may begin there; what has come in before it is found by one that does not."""
    ids = node.enqueue(*[{} for _ in range(4)])
    first = node.take(2)
    assert ids[:2] == first.ids
    assert first.reached is not None
    assert first.reached[1] == ids[1]
    urgent = node.enqueue({"priority": 9})
    second = node.take(1, reached=first.reached)
    assert ids[2:3] == second.ids
    assert urgent == node.take(1).ids
    last = node.take(2)
    assert (ids[3:], None) == (last.ids, last.reached)
    assert node.take(reached=("infinity", 0)).reached is None


@pytest.mark.parametrize("weight", [1, 3, 40])
def test_a_claim_that_continues_from_there_misses_nothing(weight: int, node: Master) -> None:
    """However finely the lanes interleave, and whether jobs came together or one by one."""
    ids: list[int] = []
    for turn in range(12):
        node.lane_is(turn % 3)
        ids += node.enqueue(*[{} for _ in range(1 + turn % 4)])
    found = (claimed := node.take(weight)).ids
    while claimed.reached:
        claimed = node.take(weight, reached=claimed.reached)
        found += claimed.ids
    assert sorted(found) == ids


def test_it_says_that_what_is_left_is_too_heavy(node: Master) -> None:
    """So that a master claims again as soon as a worker has room, not at its next look."""
    (heavy,) = node.enqueue({"weight": 50})
    refused = node.take(10)
    assert ([], True) == (refused.ids, refused.reached is not None)
    assert [heavy] == node.take(50).ids


def test_it_says_when_the_next_job_is_due(node: Master) -> None:
    """None while nothing waits for time; seconds by the database's clock."""
    assert node.take().due_in is None
    soon = datetime.now(UTC) + timedelta(seconds=50)
    (late, sooner) = node.enqueue(
        {"not_before": (soon + timedelta(days=1)).isoformat()}, {"not_before": soon.isoformat()}
    )
    due_in = node.take().due_in
    assert due_in is not None
    assert 0 < due_in <= 50
    node.cursor.execute("update txqueue.job set not_before = now() where job_id = %s", (sooner,))
    claimed = node.take()
    assert claimed.ids == [sooner]
    assert claimed.due_in is not None
    assert 80_000 < claimed.due_in < 90_000
    assert node.waiting("time") == [late]


def test_what_was_promoted_before_is_not_read_again(node: Master) -> None:
    """A master passes the moment up to which it looked; now and then it looks at all."""
    (job_id,) = node.enqueue({"not_before": "2999-01-01T00:00:00Z"})
    node.cursor.execute("update txqueue.job set not_before = now() - interval '1 hour'")
    sql = (
        "select count(assignment) from txqueue.next_job"
        "(%s, %s, '{default}', '{test.kind}', 9, 9, 9, 9, 1, %s)"
    )
    token = (node.node_id, node.incarnation)
    assert node.value(sql, *token, datetime.now(UTC) - timedelta(minutes=1)) == 0
    assert node.waiting("time") == [job_id]
    assert node.value(sql, *token, None) == 1


@pytest.mark.parametrize("state", ["draining", "stopped", "dead"])
def test_who_is_not_alive_takes_nothing(node: Master, state: str) -> None:
    """Its room does not count."""
    ids = node.enqueue({})
    node.cursor.execute("update txqueue.node_info set state = %s", (state,))
    assert node.take().ids == []
    node.cursor.execute("update txqueue.node_info set state = 'alive'")
    assert node.take().ids == ids


def test_two_sessions_never_wait_for_one_another(node: Master, other: Master) -> None:
    """An enqueue, a claim and a completion go on beside an open one of each."""
    ids = node.enqueue(*[{"group": "g"}, {}, {}])
    node.connection.autocommit = False
    claimed = node.take(2)
    node.enqueue({"group": "g"})
    other.cursor.execute("set lock_timeout = '1s'")
    other.cursor.execute("set statement_timeout = '10s'")
    other.enqueue({"group": "g"}, {})
    assert ids[2] in other.take().ids
    node.connection.rollback()
    assert claimed.ids == ids[:2]


def test_the_chunk_names_the_fields_that_workers_read(node: Master) -> None:
    """In the order in which they are written."""
    empty = json.loads(node.value("select txqueue.chunk_of('')"))
    assert empty == {"fields": FIELDS, "jobs": []}
    (job_id,) = node.enqueue({"payload": {"a": 1}, "weight": 2, "options": {"timeout": 3}})
    for attempt in (1, 2):
        (chunk,) = node.claim()
        job = AssignedJob(job_id, "test.kind", attempt, 2, {"a": 1}, {"timeout": 3})
        assert chunk.jobs == [job]
        node.settle(chunk, "retry", delay=0)

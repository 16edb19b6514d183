"""What the death of a process does to the jobs it held: run again, found out, or left alone."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.db.masters import Claimed, Master, emptied

DEATHS = 5
STARTED = "select txqueue.started(%s, %s::bigint[], %s::bigint[], %s::double precision[])"


def die(node: Master) -> list[int]:
    """Claim all jobs, and let the process die with them; return their numbers."""
    claimed = node.take()
    for chunk in claimed.chunks:
        node.release(chunk.assignment, died=True)
    return claimed.ids


def test_the_fifth_death_is_the_last(node: Master) -> None:
    """Until then the job runs again each time; then it is failed, and the error says why."""
    (job_id,) = node.enqueue({})
    assert [die(node) for _ in range(DEATHS + 1)] == [[job_id]] * DEATHS + [[]]
    job = node.job(job_id)
    assert (job["state"], job["deaths"]) == ("failed", DEATHS)
    assert job["error"] == "poison: 5 worker processes died while they held this job"


def test_one_death_less_is_forgiven(node: Master) -> None:
    """A job that comes through after four deaths is done."""
    (job_id,) = node.enqueue({})
    for _ in range(DEATHS - 1):
        die(node)
    (chunk,) = node.take().chunks
    node.complete(chunk)
    job = node.job(job_id)
    assert (job["state"], job["deaths"]) == ("done", DEATHS - 1)


def test_innocents_are_in_its_company_three_times(node: Master) -> None:
    """However many run with the one that kills, none of the others is failed or burned."""
    poison, *innocents = node.enqueue(*[{} for _ in range(40)])
    while node.job(poison)["state"] != "failed":
        for chunk in node.take().chunks:
            if poison in chunk.ids:
                node.release(chunk.assignment, died=True)
            else:
                node.complete(chunk)
    while chunks := node.take().chunks:
        for chunk in chunks:
            node.complete(chunk)
    rows = [node.job(job_id) for job_id in innocents]
    assert {row["state"] for row in rows} == {"done"}
    assert {row["attempt"] for row in rows} == {1}
    assert max(row["deaths"] for row in rows) <= 3


@pytest.mark.parametrize(("seconds", "burned"), [(None, 0), (2.0, 1)])
def test_only_what_ran_spends_an_attempt(node: Master, seconds: float | None, burned: int) -> None:
    """A job that was noted as running when its process died has used an attempt; no other has."""
    (job_id,) = node.enqueue({})
    (chunk,) = node.take().chunks
    if seconds is not None:
        node.value(STARTED, node.incarnation, [chunk.assignment], [job_id], [seconds])
    node.release(chunk.assignment, died=True)
    job = node.job(job_id)
    assert (job["attempt"], job["deaths"], job["started_at"]) == (burned, 1, None)


def test_what_is_given_back_has_not_died(node: Master) -> None:
    """A node that drains or stops leaves no mark on its jobs, however often."""
    (job_id,) = node.enqueue({})
    for _ in range(2 * DEATHS):
        (chunk,) = node.take().chunks
        node.release(chunk.assignment)
    assert (node.job(job_id)["attempt"], node.job(job_id)["deaths"]) == (0, 0)


def test_a_poison_job_run_again_by_hand(node: Master) -> None:
    """It starts over: the operator may have fixed the cause of the deaths."""
    (job_id,) = node.enqueue({})
    for _ in range(DEATHS):
        die(node)
    node.value("select retried from txqueue.retry(%s::bigint[], 'me')", [job_id])
    assert node.job(job_id)["deaths"] == 0
    assert node.take().ids == [job_id]


def test_a_group_continues_after_its_poison(node: Master) -> None:
    """The next of the group runs once the one that kills has failed."""
    first, second = node.enqueue({"group": "g"}, {"group": "g"})
    assert [die(node) for _ in range(DEATHS)] == [[first]] * DEATHS
    assert node.take().ids == [second]


def test_a_claim_that_commits_after_its_node_was_found_dead(node: Master, other: Master) -> None:
    """Its jobs are rescued: no node has them, and no lease protects them."""
    (job_id,) = node.enqueue({})
    node.connection.autocommit = False
    assert node.take().ids == [job_id]
    other.cursor.execute(
        "update txqueue.node_info set state = 'dead', ended_at = now() where incarnation = %s",
        (node.incarnation,),
    )
    node.connection.commit()
    other.value("select owned from txqueue.heartbeat(%s, 0)", other.incarnation)
    assert other.take().ids == [job_id]
    assert other.job(job_id)["deaths"] == 0


def test_a_claim_that_commits_after_its_node_registered_again(node: Master, other: Master) -> None:
    """No node has its incarnation any more; its jobs are given back all the same."""
    (job_id,) = node.enqueue({})
    node.connection.autocommit = False
    assert node.take().ids == [job_id]
    other.register("node")
    node.connection.commit()
    other.value("select owned from txqueue.heartbeat(%s, 0)", other.incarnation)
    assert other.take().ids == [job_id]
    assert other.job(job_id)["deaths"] == 0


def test_suspects_are_taken_ten_at_a_time_and_then_alone(node: Master) -> None:
    """So that many innocent ones do not wait for each other."""
    ids = node.enqueue(*[{} for _ in range(30)])
    for _ in range(2):
        for chunk in node.take().chunks:
            node.release(chunk.assignment, died=True)
    (ten,) = node.take().chunks
    assert ten.ids == ids[:10]
    node.release(ten.assignment, died=True)
    (one,) = node.take().chunks
    assert one.ids == ids[:1]


def test_suspicion_is_lifted_once_the_one_that_kills_is_found(node: Master) -> None:
    """And from what came to an end of its own."""
    poison, *innocents = node.enqueue({}, {}, {})
    node.cursor.execute("update txqueue.job set deaths = 2 where job_id = any (%s)", (innocents,))
    node.cursor.execute("update txqueue.job set deaths = 4 where job_id = %s", (poison,))
    (alone,) = node.take().chunks
    assert alone.ids == [poison]
    node.release(alone.assignment, died=True)
    assert [node.job(job_id)["deaths"] for job_id in innocents] == [1, 1]


def test_what_fails_by_itself_is_no_suspect_any_more(node: Master) -> None:
    """Its process lives."""
    (job_id,) = node.enqueue({})
    for _ in range(2):
        die(node)
    (chunk,) = node.take().chunks
    node.settle(chunk, "retry")
    assert node.job(job_id)["deaths"] == 0


def rescue(node: Master, other: Master) -> None:
    """Let a node's lease expire and another node take its jobs; the node registers again."""
    node.falls_silent()
    assert other.beats()
    node.node_id, node.incarnation = node.register("node")


def start(node: Master, claimed: Claimed) -> None:
    """Note the starts of suspects, as a node does before it runs them."""
    for chunk in claimed.chunks:
        if node.job(chunk.ids[0])["deaths"] > 1:
            seconds = [0.0 for _ in chunk.ids]
            assignments = [chunk.assignment for _ in chunk.ids]
            node.value(STARTED, node.incarnation, assignments, chunk.ids, seconds)


def test_jobs_that_never_start_are_no_poison(node: Master, other: Master) -> None:
    """However often the lease of the node to which they are assigned expires."""
    ids = node.enqueue({}, {})
    for _ in range(2 * DEATHS):
        assert node.take().ids == ids
        rescue(node, other)
    jobs = [node.job(job_id) for job_id in ids]
    assert [(job["state"], job["deaths"], job["attempt"]) for job in jobs] == [("ready", 2, 0)] * 2


def test_a_job_that_ends_its_host_at_once_is_poison(node: Master, other: Master) -> None:
    """Nothing of its first runs is noted but that it was assigned; it counts as tried later on."""
    (job_id,) = node.enqueue({})
    for _ in range(DEATHS):
        start(node, node.take())
        # As the lease expires, it was long ago.
        node.cursor.execute(
            "update txqueue.job_assigned set started_at = started_at - interval '10 s'"
        )
        rescue(node, other)
    job = node.job(job_id)
    assert (job["state"], job["deaths"], job["attempt"]) == ("failed", DEATHS, 3)


@given(st.integers(0, 12), st.lists(st.booleans(), max_size=15))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
def test_leases_that_expire_beside_a_job_that_ends_its_host(
    node: Master, other: Master, before: int, lapses: list[bool]
) -> None:
    """It is poison after its fifth run; no job beside it is, wherever it stands among them."""
    emptied(node)
    ids = node.enqueue(*[{} for _ in range(13)])
    killer, runs = ids[before], 0
    for lapses_first in [*lapses, *[False] * 40]:
        claimed = node.take(workers=2)
        if lapses_first:
            rescue(node, other)
            continue
        start(node, claimed)
        if killer in claimed.ids:
            runs += 1
            rescue(node, other)
            continue
        for chunk in claimed.chunks:
            node.complete(chunk)
    assert (runs <= DEATHS, node.job(killer)["state"]) == (True, "failed")
    assert node.states() == {"failed": 1, "done": 12}

"""What the death of a process does to the jobs it held: run again, found out, or left alone."""

from __future__ import annotations

import pytest

from tests.db.masters import Master

DEATHS = 5


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
        node.value(
            "select txqueue.started(%s, %s::bigint[], %s::bigint[], %s::double precision[])",
            *(node.incarnation, [chunk.assignment], [job_id], [seconds]),
        )
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


def test_one_worker_is_given_what_ranks_before_a_suspect(node: Master) -> None:
    """It has a process for either, and urgent jobs are not to wait for suspects."""
    suspects = node.enqueue({}, {})
    for _ in range(2):
        die(node)
    urgent = node.enqueue({"priority": 9})
    after = node.enqueue({"priority": 0})
    first = node.take(workers=1)
    assert first.ids[:1] == urgent
    assert set(first.ids) <= {*urgent, *after}
    assert node.take(workers=1).ids == suspects


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

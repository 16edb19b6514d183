"""The promises of the queue, each held by the stored functions on real PostgreSQL."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg2
import pytest

from tests.db.stored import Stored, stored

PATIENCE = 60.0


@pytest.fixture
def queue(dsn: str) -> Iterator[Stored]:
    """A session."""
    with stored(dsn) as session:
        yield session


def test_nothing_runs_before_its_time(queue: Stored) -> None:
    """A job is taken only when its not_before has come, by the database's clock."""
    (job_id,) = queue.enqueue({"not_before": "2999-01-01T00:00:00Z"})
    assert queue.claimed_ids() == []
    assert ("waiting", "time") == (queue.job(job_id)["state"], queue.job(job_id)["waiting_for"])
    queue.cursor.execute("update txqueue.job set not_before = now() - interval '1 s'")
    assert [job_id] == queue.claimed_ids()


def test_jobs_are_taken_in_rank_order_across_lanes(queue: Stored) -> None:
    """Priority goes first, then age, then the number, in whichever lane they are.

    A claim for more than 16 may take a sixteenth of its batch out of order.
    """
    normal = queue.enqueue(*[{} for _ in range(3)])
    queue.value("select setval('txqueue.lane', 1)")
    normal += queue.enqueue(*[{} for _ in range(3)])
    high = queue.enqueue({"priority": 7}, {"priority": 7})
    low = queue.enqueue({"priority": 2})
    assert [*high, *normal, *low] == queue.claimed_ids(16)


def test_rank_ages_and_not_after_bumps(queue: Stored) -> None:
    """Waiting for the aging time weighs as much as one priority; not_after ranks as a top job."""
    (old, bumped) = queue.enqueue({}, {"priority": 0, "not_after": "2999-01-01T00:00:00Z"})
    assert queue.value(
        "select rank = not_before - 4 * interval '10 minutes' from txqueue.job where job_id = %s",
        old,
    )
    assert queue.value(
        "select rank = least(not_before, not_after - 9 * interval '10 minutes')"
        " from txqueue.job where job_id = %s",
        bumped,
    )


@pytest.mark.parametrize(
    ("priority", "minutes", "goes_first"),
    [(7, 15, True), (7, 19, True), (7, 21, False), (4, 49, True), (4, 51, False), (9, 1, False)],
)
def test_a_not_after_counts_before_its_moment(
    queue: Stored, priority: int, minutes: int, goes_first: bool
) -> None:
    """As a job of priority 9 that becomes due then, against jobs that are due now."""
    soon = queue.value("select (now() + make_interval(mins => %s))::text", minutes)
    plain, hurried = queue.enqueue({"priority": priority}, {"priority": 0, "not_after": soon})
    assert queue.claimed_ids(1) == [hurried if goes_first else plain]


def test_one_of_a_group_at_a_time_in_order(queue: Stored) -> None:
    """While a job of a group is assigned the others are parked; ending it readies the oldest."""
    ids = queue.enqueue(*[{"group": "g"} for _ in range(4)], {})
    (chunk,) = queue.claim()
    assert [ids[0], ids[4]] == chunk.ids
    assert ["group"] * 3 == queue.column("select waiting_for from txqueue.job_waiting")
    order = [ids[0]]
    while len(order) < 4:
        assert [] == queue.claim()
        queue.complete(chunk)
        (chunk,) = queue.claim()
        order += chunk.ids
    assert ids[:4] == order


@pytest.mark.parametrize("outcome", ["retry", "snooze", "failed", "cancelled", "done"])
def test_any_end_of_a_groups_job_readies_the_next(queue: Stored, outcome: str) -> None:
    """A group continues however its running job ended."""
    (_, second) = queue.enqueue({"group": "g"}, {"group": "g"})
    (chunk,) = queue.claim()
    assert chunk.ids == queue.settle(chunk, outcome, delay=1000)
    assert [second] == queue.claimed_ids()


def test_a_completed_job_is_history(queue: Stored) -> None:
    """Completing moves the row to history once; doing it again changes nothing."""
    (job_id,) = queue.enqueue({"payload": {"text": 'it\'s "100 %" <b> 🎉'}})
    (chunk,) = queue.claim()
    assert (1, 0) == (queue.complete(chunk), queue.complete(chunk))
    job = queue.job(job_id)
    assert ("done", 1, {"text": 'it\'s "100 %" <b> 🎉'}) == (
        job["state"],
        job["attempt"],
        job["payload"],
    )
    assert [] == queue.claim()


def test_outcomes_are_written_unchanged(queue: Stored) -> None:
    """Retry spends an attempt and waits, snooze spends none, the rest is final."""
    queue.enqueue(*[{} for _ in range(5)])
    chunks = queue.claim(workers=5)
    outcomes = ("retry", "snooze", "failed", "cancelled", "done")
    for chunk, outcome in zip(chunks, outcomes, strict=True):
        queue.settle(chunk, outcome, delay=100, error="because", result={"a": 1})
    seen = [queue.job(chunk.ids[0]) for chunk in chunks]
    assert [("waiting", 1), ("waiting", 0), ("failed", 1), ("cancelled", 1), ("done", 1)] == [
        (job["state"], job["attempt"]) for job in seen
    ]
    assert ("because", {"a": 1}) == (seen[2]["error"], seen[4]["result"])


def test_a_stale_token_changes_nothing(queue: Stored, dsn: str) -> None:
    """Once a job has a new assignment, the former owner's writes change no row."""
    queue.enqueue({})
    (stale,) = queue.claim()
    with stored(dsn, "node") as successor:
        (fresh,) = successor.claim()
        assert stale.ids == fresh.ids
        assert (0, []) == (queue.complete(stale), queue.settle(stale, "failed"))
        assert not queue.value("select owned from txqueue.heartbeat(%s, 0)", queue.incarnation)
        assert [] == queue.claim()
        assert 1 == successor.complete(fresh)


def test_a_dead_nodes_jobs_are_rescued(queue: Stored, dsn: str) -> None:
    """When a lease has expired, the next heartbeat of any node gives the jobs back."""
    (job_id,) = queue.enqueue({})
    queue.claim()
    with stored(dsn, "other") as other:
        assert [] == other.claim()
        queue.falls_silent(11.5)
        assert other.beats()
        assert [job_id] == other.claimed_ids()


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ({"priority": 10}, "priority 10 is not within 0 to 9"),
        ({"priority": -1}, "priority -1 is not within 0 to 9"),
        ({"weight": 0}, "weight 0 is not within 1 to 1000000"),
        ({"queue": ""}, "a queue name must have 1 to 200 characters"),
        ({"group": ""}, "a group must have 1 to 1000 characters"),
        ({"work_type": ""}, "a work type must have 1 to 200 characters"),
        ({"payload": [1]}, "the payload of test.kind is not a JSON object"),
        ({"payload": None}, "the payload of test.kind is not a JSON object"),
        ({"payload": {"a": "x" * 1_100_000}}, "more than the limit of 1048576"),
        ({"not_after": "2000-01-01T00:00:00Z"}, "is not later than not_before"),
        ({"payload": {"a": "\0"}}, "unsupported Unicode escape sequence"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value.replace(" ", "_")[:30],
)
def test_bad_input_is_refused_whole(queue: Stored, job: dict[str, Any], said: str) -> None:
    """What is wrong is said, and nothing of the call is written."""
    with pytest.raises(psycopg2.Error, match=said) as refused:
        queue.enqueue({}, job)
    assert "DETAIL:  Failing row" not in str(refused.value)
    assert {} == queue.states()


def test_many_claimers_share_without_a_job_taken_twice(queue: Stored, dsn: str) -> None:
    """Five nodes at once: each job runs once, each group strictly in order, none is stuck."""
    ids = queue.enqueue(*[{"group": f"g{number % 10}"} for number in range(100)])
    ids += queue.enqueue(*[{} for _ in range(100)])

    def work(name: str) -> list[int]:
        taken: list[int] = []
        with stored(dsn, name) as node:
            deadline = time.monotonic() + PATIENCE
            while set(node.states()) != {"done"}:
                assert time.monotonic() < deadline, node.states()
                for chunk in node.claim(7):
                    taken += chunk.ids
                    node.complete(chunk)
        return taken

    with ThreadPoolExecutor(5) as threads:
        taken = list(threads.map(work, ["a", "b", "c", "d", "e"]))
    assert Counter(ids) == Counter(job_id for each in taken for job_id in each)
    for number in range(10):
        finished = queue.column(
            'select job_id from txqueue.job where "group" = %s order by finished_at', f"g{number}"
        )
        assert sorted(finished) == finished

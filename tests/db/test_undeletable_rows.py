"""Damaged rows that cannot be deleted: their jobs fail, and the statements that move jobs go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.db.damage import LARGE, delete_large_values, lose_files
from tests.db.masters import Master, master
from txqueue.errors import Refused
from txqueue.model.assignment import CompletedJobs, ReturnedJobs
from txqueue.policy.placement.room import Room
from txqueue.store.node.functions import StoredFunctions

Damaged = Callable[[Master], None]
KINDS = [delete_large_values, lose_files]
PAYLOAD = {"text": LARGE}
LATER = {"not_before": "2100-01-01T00:00:00Z"}


def has_failed(node: Master, job_id: int) -> bool:
    """Whether a job has failed because its row is damaged, and is counted once."""
    rows = node.column("select state::text from txqueue.job where job_id = %s", job_id)
    listed = node.value("select sum(jobs) from txqueue.live_jobs where queue = ''")
    error = node.job(job_id)["error"]
    return rows == ["failed"] and listed is None and "it cannot be given to a worker: " in error


@pytest.mark.parametrize("damage", KINDS)
@pytest.mark.parametrize("is_due", [False, True])
async def test_a_claim_goes_on(
    node: Master, functions: StoredFunctions, damage: Damaged, is_due: bool
) -> None:
    """After one attempt, also if the job waited for a time that has come."""
    bad, good = node.enqueue({"payload": PAYLOAD, **(LATER if is_due else {})}, {})
    node.cursor.execute("update txqueue.job set not_before = now() where job_id = %s", (bad,))
    damage(node)
    with pytest.raises(Refused, match=f"cannot be read have failed: {bad};"):
        await functions.next_job(
            *(node.node_id, node.incarnation, ["default"], ["test.kind"]),
            Room(free=8, limit=8, largest=8, capacity=8, workers=1),
            chunk_jobs=8,
            since=None,
        )
    assert has_failed(node, bad)
    assert node.claimed_ids() == [good]
    assert node.beats()


@pytest.mark.parametrize("damage", KINDS)
async def test_a_completion_goes_on(
    node: Master, functions: StoredFunctions, damage: Damaged
) -> None:
    """The damaged job of the same assignment fails, the others are done."""
    bad, good = node.enqueue({"payload": PAYLOAD}, {})
    (chunk,) = node.claim()
    damage(node)
    done = [CompletedJobs(chunk.lane, chunk.assignment, f"{bad},{good}")]
    with pytest.raises(Refused, match=f"cannot be read have failed: {bad};"):
        await functions.complete(node.incarnation, done)
    assert (await functions.complete(node.incarnation, done)).jobs == 1
    assert has_failed(node, bad)


@pytest.mark.parametrize(
    "options",
    [{"after": [1]}, {"after": [1], "after_any_end": True}, {"group": "g"}, {"unique": "k"}],
)
async def test_a_job_ends_before_a_damaged_follower(
    node: Master, functions: StoredFunctions, options: dict[str, Any]
) -> None:
    """The follower fails; the end is written with the next attempt."""
    own = {} if "after" in options else options
    (first,) = node.enqueue(own)
    (chunk,) = node.claim()
    mode = {"unique_mode": "again"} if "unique" in options else {}
    (bad,) = node.enqueue({**options, **mode, "payload": PAYLOAD})
    assert node.claim() == []
    (last,) = node.enqueue({"after": [bad], "after_any_end": True})
    delete_large_values(node)
    done = [CompletedJobs(chunk.lane, chunk.assignment, str(first))]
    with pytest.raises(Refused, match=f"cannot be read have failed: {bad};"):
        await functions.complete(node.incarnation, done)
    assert (await functions.complete(node.incarnation, done)).jobs == 1
    assert has_failed(node, bad)
    assert node.claimed_ids() == [last]


@pytest.mark.parametrize("damage", KINDS)
async def test_heartbeats_rescue_the_other_jobs_of_a_dead_node(
    node: Master, functions: StoredFunctions, dsn: str, damage: Damaged
) -> None:
    """The heartbeat that meets the row is repeated at once."""
    bad, good = node.enqueue({"payload": PAYLOAD}, {})
    node.claim()
    damage(node)
    with master(dsn, "other") as other:
        node.falls_silent()
        assert (await functions.heartbeat(other.incarnation, 0.0, {})).rescued == 1
        assert has_failed(other, bad)
        assert other.claimed_ids() == [good]


async def test_a_worker_s_jobs_are_returned(node: Master, functions: StoredFunctions) -> None:
    """The others of its assignment run again."""
    bad, good = node.enqueue({"payload": PAYLOAD}, {})
    (chunk,) = node.claim()
    delete_large_values(node)
    await functions.release(node.incarnation, [ReturnedJobs(chunk.assignment, died=True)])
    assert has_failed(node, bad)
    assert node.claimed_ids() == [good]


@pytest.mark.parametrize("damage", KINDS)
def test_what_is_left_of_a_row_keeps_no_lane(node: Master, damage: Damaged) -> None:
    """The lane is truncated, with the row in it."""
    (bad,) = node.enqueue({"payload": PAYLOAD})
    lane = node.job(bad)["lane"]
    damage(node)
    assert node.value("select txqueue.set_aside(%s, '{default}')", node.incarnation) == [bad]
    assert node.column("select job_id from txqueue.job_ready") == [-bad]
    assert node.value(f"select txqueue.count_lane_rows('job_ready_{lane}', 9)") == 0
    assert node.value(f"select txqueue.truncate_if_empty('job_ready_{lane}')")
    assert node.column("select job_id from txqueue.job order by 1") == [bad]


def test_what_is_left_of_a_waiting_row_goes_after_vacuum(node: Master) -> None:
    """Until then each look leaves it as it is."""
    (bad,) = node.enqueue({"payload": PAYLOAD, **LATER})
    delete_large_values(node)
    assert node.value("select txqueue.set_aside(%s, '{}')", node.incarnation) == [bad]
    node.value("select txqueue.ensure_history()")
    assert node.column("select job_id from txqueue.job_waiting") == [-bad]
    node.cursor.execute("vacuum txqueue.job_waiting")
    node.value("select txqueue.ensure_history()")
    assert node.column("select job_id from txqueue.job_waiting") == []
    assert has_failed(node, bad)

"""Damaged rows that statements about other jobs must move: these jobs fail, and stop nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.db.damage import LARGE, LOST, large_json, lose_large_values
from tests.db.masters import Master, master
from txqueue.errors import Refused
from txqueue.model.assignment import CompletedJobs, SettledJob
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.outcomes import as_settled_jobs

MARK = "txqueue cannot read this"
COLUMNS = ("payload", "options", "error")
# The options of a job, and those of one that follows it.
FOLLOWERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "child": ({}, {"after": [1]}),
    "child of any end": ({}, {"after": [1], "after_any_end": True}),
    "unique key": ({"unique": "k"}, {"unique": "k", "unique_mode": "again"}),
    "group": ({"group": "g"}, {"group": "g"}),
}


def lose(node: Master, job_id: int, column: str) -> None:
    """Lose a value of a job."""
    value = f"boom {LARGE}" if column == "error" else large_json()
    node.cursor.execute(f"update txqueue.job set {column} = %s where job_id = %s", (value, job_id))
    lose_large_values(node)


def is_failed(node: Master, job_id: int) -> bool:
    """Whether a job has failed because its row is damaged."""
    row = node.job(job_id)
    return row["state"] == "failed" and set(row["payload"]) <= {MARK} and LOST in row["error"]


@pytest.mark.parametrize("kind", FOLLOWERS)
@pytest.mark.parametrize(
    ("outcome", "column"), [("done", "payload"), ("done", "options"), ("failed", "error")]
)
def test_a_job_ends_before_a_damaged_follower(
    node: Master, kind: str, outcome: str, column: str
) -> None:
    """The follower fails, and the jobs behind it go on."""
    own, options = FOLLOWERS[kind]
    (first,) = node.enqueue(own)
    (chunk,) = node.claim()
    (bad,) = node.enqueue(options)
    # A job of the group is parked by the claim that meets it.
    assert node.claim() == []
    assert node.job(bad)["state"] == "waiting"
    (last,) = node.enqueue({"after": [bad], "after_any_end": True})
    (beside,) = node.enqueue({"group": own["group"]} if own.get("group") else {})
    if own.get("group"):
        assert node.claim() == []
    lose(node, bad, column)
    if outcome == "done":
        assert node.complete(chunk) == 1
    else:
        assert node.settle(chunk, outcome, error="x") == [first]
    assert node.job(first)["state"] == outcome
    assert is_failed(node, bad)
    assert node.beats()
    assert sorted(node.claimed_ids()) == [last, beside]


@pytest.mark.parametrize(
    ("how", "column"),
    [
        ("heartbeat", "payload"),
        ("heartbeat", "options"),
        ("leave", "payload"),
        ("register", "error"),
        ("release", "payload"),
    ],
)
def test_a_node_s_damaged_job_is_returned(node: Master, dsn: str, how: str, column: str) -> None:
    """It fails; the others of a node that has died, stops or starts anew run again."""
    bad, good = node.enqueue({}, {})
    (chunk,) = node.claim()
    lose(node, bad, column)
    with master(dsn, "other") as other:
        if how == "heartbeat":
            node.falls_silent()
            assert other.beats()
        elif how == "leave":
            node.value("select txqueue.leave(%s, 'stopped')", node.incarnation)
        elif how == "register":
            node.register("node")
        else:
            sql = "select txqueue.release(%s, array[%s]::bigint[], false)"
            assert node.value(sql, node.incarnation, chunk.assignment) == 2
        assert is_failed(other, bad)
        assert other.claimed_ids() == [good]


async def test_a_heartbeat_goes_on_past_a_damaged_job_of_a_new_type(
    node: Master, functions: StoredFunctions
) -> None:
    """The job that the heartbeat had to move fails, and the heartbeat is repeated at once."""
    (bad,) = node.enqueue({"work_type": "later.kind"})
    lose(node, bad, "payload")
    node.cursor.execute(
        "insert into txqueue.work_type (work_type, queue, priority, weight)"
        " values ('later.kind', 'default', 4, 1)"
    )
    assert (await functions.heartbeat(node.incarnation, 0.0, {})).owned
    assert is_failed(node, bad)


@pytest.mark.parametrize("column", COLUMNS)
async def test_a_running_job_whose_row_is_damaged_ends(
    node: Master, functions: StoredFunctions, column: str
) -> None:
    """As failed; the ends that were to be written with its own are written next."""
    bad, good, other = node.enqueue({}, {}, {})
    (chunk,) = node.claim()
    lose(node, bad, column)
    completed = [CompletedJobs(chunk.lane, chunk.assignment, f"{bad},{good}")]
    settled = [as_settled_jobs([SettledJob(other, chunk.assignment, "done")])]
    with pytest.raises(Refused, match=f"cannot be read have failed: {bad};"):
        await functions.complete(node.incarnation, completed)
    assert (await functions.complete(node.incarnation, completed)).jobs == 1
    assert (await functions.settle(node.incarnation, settled)).jobs == 1
    assert is_failed(node, bad)
    assert node.job(good)["state"] == "done"


def test_a_damaged_job_does_not_keep_its_lane(node: Master) -> None:
    """The last jobs of a lane move to the next one, so that the first can be emptied."""
    bad, good = node.enqueue({}, {})
    lose(node, bad, "payload")
    lane = node.value("select lane from txqueue.job where job_id = %s", good)
    moved = "select txqueue.move_stragglers('ready', %s::smallint, %s::smallint, 10)"
    assert node.value(moved, lane, 1 - lane) == 2
    assert is_failed(node, bad)
    assert node.value("select lane from txqueue.job where job_id = %s", good) == 1 - lane

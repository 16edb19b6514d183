"""Where the first of the jobs is that an end of others makes ready."""

import json

import pytest

from tests.db.masters import Master
from tests.db.stored import Taken

COMPLETE = (
    "select freed, freed_rank, freed_job"
    " from txqueue.complete(%s, %s::smallint[], %s::bigint[], %s::text[])"
)
SETTLE = "select freed, freed_rank, freed_job from txqueue.settle(%s, %s)"
PLACE = "select true, rank::text, job_id from txqueue.job where job_id = %s"
ENDS = ["done", "failed", "cancelled"]


def freed(node: Master, chunk: Taken, end: str) -> tuple[bool, str | None, int | None]:
    """End the jobs of a chunk; returns whether that made jobs ready, and where the first one is."""
    if end == "complete":
        ids = f"{{{','.join(map(str, chunk.ids))}}}"
        node.cursor.execute(COMPLETE, (node.incarnation, [chunk.lane], [chunk.assignment], [ids]))
    else:
        outcomes = [
            {"job_id": job_id, "assignment": chunk.assignment, "outcome": end}
            for job_id in chunk.ids
        ]
        node.cursor.execute(SETTLE, (node.incarnation, json.dumps(outcomes)))
    [(is_freed, rank, job_id)] = node.cursor.fetchall()
    return is_freed, rank, job_id


def place_of(node: Master, job_id: int) -> tuple[bool, str, int]:
    """The answer that names a job."""
    node.cursor.execute(PLACE, (job_id,))
    [(is_freed, rank, number)] = node.cursor.fetchall()
    return is_freed, rank, number


@pytest.mark.parametrize("end", ["complete", *ENDS])
def test_of_groups_the_first_job_of_any(end: str, node: Master) -> None:
    """By rank, of what one statement ends: a job of a higher priority goes before older ones."""
    node.enqueue({"group": "a"}, {"group": "b"})
    (chunk,) = node.take(10).chunks
    node.enqueue({"group": "a"})
    (urgent,) = node.enqueue({"group": "b", "priority": 9})
    assert node.take(10).ids == []
    assert freed(node, chunk, end) == place_of(node, urgent)


@pytest.mark.parametrize("end", ["complete", *ENDS])
def test_a_child(end: str, node: Master) -> None:
    """That waits for any end of its parent."""
    (parent,) = node.enqueue({})
    (child,) = node.enqueue({"after": [parent], "after_any_end": True})
    (chunk,) = node.take(1).chunks
    assert freed(node, chunk, end) == place_of(node, child)


@pytest.mark.parametrize("end", ["complete", *ENDS])
def test_the_next_job_of_a_unique_key(end: str, node: Master) -> None:
    """It waited for the running one."""
    node.enqueue({"unique": "key"})
    (chunk,) = node.take(1).chunks
    (following,) = node.enqueue({"unique": "key", "unique_mode": "replace"})
    assert freed(node, chunk, end) == place_of(node, following)


@pytest.mark.parametrize("end", ["complete", *ENDS])
def test_the_end_of_a_job_that_none_waits_for(end: str, node: Master) -> None:
    """Names no place, also beside other ready jobs."""
    node.enqueue({}, {})
    (chunk,) = node.take(1).chunks
    assert freed(node, chunk, end) == (False, None, None)

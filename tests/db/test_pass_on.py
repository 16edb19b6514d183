"""Jobs passed on from one node to another: each transfer is one fenced statement."""

from collections.abc import Sequence
from typing import Any

import pytest

from tests.db.masters import Master
from tests.db.stored import Taken
from txqueue.model.assignment import AssignedJob, read_chunk


def passed(
    node: Master,
    to: Master,
    chunks: Sequence[Taken],
    ids: Sequence[int] | None = None,
    parts: int = 1,
) -> list[dict[str, Any]]:
    """Pass jobs of chunks on; returns what the function returned."""
    node.cursor.execute(
        "select assignment, jobs, weight, ids_passed from txqueue.pass_on"
        "(%s, %s::bigint[], %s::bigint[], %s, %s)",
        (
            *(node.incarnation, [chunk.assignment for chunk in chunks]),
            *(None if ids is None else list(ids), to.incarnation, parts),
        ),
    )
    names = ("assignment", "jobs", "weight", "ids")
    return [dict(zip(names, row, strict=True)) for row in node.cursor.fetchall()]


def handed(node: Master, assignment: int) -> list[int]:
    """The numbers of the jobs that a node reads under an assignment."""
    node.cursor.execute(
        "select chunk from txqueue.direct_jobs(%s, %s)", (node.incarnation, assignment)
    )
    return [job.job_id for (chunk,) in node.cursor.fetchall() for job in read_chunk(chunk)]


def test_what_is_passed_on_is_the_other_node_s(node: Master, other: Master) -> None:
    """It reads it under a new assignment and completes it; the first node's token is void."""
    ids = node.enqueue({"weight": 2}, {"weight": 3})
    (chunk,) = node.claim()
    (said,) = passed(node, other, [chunk])
    assert (sorted(said["ids"]), said["jobs"], said["weight"]) == (ids, 2, 5)
    assert said["assignment"] > chunk.assignment
    assert handed(other, said["assignment"]) == ids
    assert handed(node, said["assignment"]) == []
    assert node.complete(chunk) == 0
    jobs = [AssignedJob(job_id, "test.kind", 1, 1, {}) for job_id in ids]
    assert other.complete(Taken(chunk.lane, said["assignment"], jobs)) == 2


def test_only_those_named(node: Master, other: Master) -> None:
    """The rest of the assignment stays where it is."""
    ids = node.enqueue(*[{} for _ in range(4)])
    (chunk,) = node.claim()
    (said,) = passed(node, other, [chunk], ids[2:])
    assert sorted(said["ids"]) == ids[2:]
    assert node.complete(chunk) == 2


def test_in_parts_for_so_many_workers(node: Master, other: Master) -> None:
    """Jobs go under several assignments, none of them twice."""
    ids = node.enqueue(*[{} for _ in range(10)])
    found = passed(node, other, node.claim(), parts=3)
    assert sorted(job_id for each in found for job_id in each["ids"]) == ids
    assert {each["jobs"] for each in found} == {3, 4}
    assert [handed(other, each["assignment"]) for each in found] == [
        sorted(each["ids"]) for each in found
    ]


@pytest.mark.parametrize("parts", [None, 0, -1, 2**31 - 1])
def test_no_more_parts_than_jobs(node: Master, other: Master, parts: Any) -> None:
    """Whatever number is asked for: an assignment's number is drawn for none that holds nothing."""
    node.enqueue({}, {})
    found = passed(node, other, node.claim(), parts=parts)
    assert sum(each["jobs"] for each in found) == 2
    drawn: int = node.value("select last_value from txqueue.assignment")
    assert drawn - found[0]["assignment"] <= 16


@pytest.mark.parametrize(
    "reason",
    [
        "update txqueue.node_info set queues = '{mail}' where incarnation = %(to)s",
        "update txqueue.node_info set work_types = '{mail}' where incarnation = %(to)s",
        "update txqueue.node_info set state = 'draining' where incarnation = %(to)s",
        "update txqueue.node_info set heartbeat_at = 'epoch' where incarnation = %(to)s",
        "update txqueue.job set started_at = now()",
        "update txqueue.job set deaths = 2",
        "update txqueue.job set assignment = assignment + 1",
    ],
)
def test_what_cannot_go_stays(node: Master, other: Master, reason: str) -> None:
    """Jobs that the other node does not serve, or cannot accept; running jobs, suspects, and jobs
    of other assignments.
    """
    (job_id,) = node.enqueue({})
    chunks = node.claim()
    node.cursor.execute(reason, {"to": other.incarnation})
    assert passed(node, other, chunks) == []
    assert node.job(job_id)["incarnation"] == node.incarnation


def test_a_group_stays_busy(node: Master, other: Master) -> None:
    """A job of a group that is passed on still is the one that runs."""
    first, second = node.enqueue({"group": "a"}, {"group": "a"})
    chunks = node.claim()
    (said,) = passed(node, other, chunks)
    assert (said["ids"], node.claimed_ids()) == ([first], [])
    assert node.job(second)["waiting_for"] == "group"


def test_one_pass_has_one_moment(node: Master, other: Master) -> None:
    """However many it passes on."""
    node.enqueue(*[{} for _ in range(500)])
    passed(node, other, node.claim())
    assert node.value("select count(distinct assigned_at) from txqueue.job_assigned") == 1


def test_what_is_assigned_can_be_compared(node: Master) -> None:
    """By assignments and their sizes first, then job by job."""
    ids = node.enqueue({}, {}, {})
    (chunk,) = node.claim()
    look = "select txqueue.assignments_of(%s, %s)::text"
    assert node.column(look, node.incarnation, 0) == [f"({chunk.assignment},3)"]
    assert node.column(look, node.incarnation, 60) == []
    jobs = "select job_id from txqueue.jobs_of(%s, %s::bigint[])"
    assert sorted(node.column(jobs, node.incarnation, [chunk.assignment])) == ids

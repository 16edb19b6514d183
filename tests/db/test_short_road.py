"""Jobs that are enqueued already assigned, and what their node learns of them."""

from contextlib import suppress
from typing import Any

import psycopg2
import pytest
from attrs import frozen

from tests.db.letters import Note, opened
from tests.db.masters import Master
from tests.db.test_roles import playing
from txqueue import Transaction, WorkQueue
from txqueue.errors import ConfigurationError, Refused
from txqueue.model.assignment import AssignedJob, read_chunk


@frozen
class Put:
    """What `enqueue_assigned()` returned."""

    job_id: int
    assignment: int | None
    lane: int | None
    weight: int | None


def put(session: Master, to: Master, **job: Any) -> Put:
    """Enqueue a job of the kind of the tests, assigned to a node."""
    job = {"work_type": "test.kind", "payload": "{}", **job}
    names = "".join(f', "{name}" => %s' for name in job)
    session.cursor.execute(
        f"select job_id, assignment, lane, its_weight from txqueue.enqueue_assigned(%s, %s{names})",
        (to.node_id, to.incarnation, *job.values()),
    )
    return Put(*session.cursor.fetchall()[0])


def handed(session: Master, assignment: int | None) -> list[AssignedJob]:
    """Read the jobs of an assignment that was handed to a node."""
    session.cursor.execute(
        "select chunk from txqueue.direct_jobs(%s, %s)", (session.incarnation, assignment)
    )
    return [job for (chunk,) in session.cursor.fetchall() for job in read_chunk(chunk)]


def test_the_poll_of_a_node_of_the_alpha_returns_nothing(node: Master, other: Master) -> None:
    """And is no error: such nodes run on during an upgrade; the reconciliation returns the jobs."""
    put(other, node)
    node.cursor.execute(
        "select * from txqueue.direct_jobs(%s, null, %s::bigint[])", (node.incarnation, [])
    )
    assert node.cursor.fetchall() == []


def test_a_job_is_assigned_at_once(node: Master, other: Master) -> None:
    """It is its node's, no claim finds it, and its token completes it."""
    job = put(other, node, payload='{"a": 1}', options='{"attempts": 2}')
    row = node.job(job.job_id)
    assert (row["state"], row["handed"], row["lane"]) == ("assigned", 1, job.lane)
    assert (row["node_id"], row["incarnation"]) == (node.node_id, node.incarnation)
    assert (row["assignment"], row["assigned_at"] is None) == (job.assignment, False)
    assert node.claimed_ids() == other.claimed_ids() == []
    ids = f"{{{job.job_id}}}"
    done = node.value(
        "select total from txqueue.complete"
        "(%s, array[%s]::smallint[], array[%s]::bigint[], array[%s])",
        *(node.incarnation, job.lane, job.assignment, ids),
    )
    assert (done, node.job(job.job_id)["state"]) == (1, "done")


def test_it_is_as_the_ordinary_one(node: Master) -> None:
    """In all that enqueue() fills in, the policy of its type as well."""
    node.publish("test.kind", priority=6, weight=3)
    job = put(node, node, payload='{"a": 1}')
    ordinary = node.job(node.value("select txqueue.enqueue('test.kind', '{\"a\": 1}')"))
    same = ("work_type", "queue", "priority", "weight", "attempt", "deaths", "payload", "options")
    row = node.job(job.job_id)
    assert {name: row[name] for name in same} == {name: ordinary[name] for name in same}
    assert (job.weight, row["not_before"] - row["rank"]) == (
        3,
        ordinary["not_before"] - ordinary["rank"],
    )


def test_a_job_with_nothing_but_a_payload_is_as_one_whose_policy_is_named(node: Master) -> None:
    """Each of them is written by a statement of its own."""
    bare, named = (
        put(node, node, payload='{"a": 1}'),
        put(node, node, payload='{"a": 1}', queue="default"),
    )
    rows = [node.job(job.job_id) for job in (bare, named)]
    for row, job in zip(rows, (bare, named), strict=True):
        assert (row.pop("job_id"), row.pop("assignment")) == (job.job_id, job.assignment)
        assert row.pop("assigned_at") >= row["enqueued_at"]
        assert row["lane"] == job.lane
        assert row.pop("rank") - row.pop("not_before") == -4 * node.value(
            "select aging from txqueue.setting"
        )
        row.pop("enqueued_at")
    assert rows[0] == rows[1]
    assert bare.weight == named.weight == 1


@pytest.mark.parametrize(
    "job",
    [
        {"group": "a"},
        {"tenant": "a"},
        {"not_before": "2999-01-01"},
        {"queue": "unserved"},
        {"work_type": "test.unknown"},
    ],
)
def test_jobs_that_need_a_decision(node: Master, job: dict[str, Any]) -> None:
    """They take the ordinary way."""
    done = put(node, node, **job)
    assert (done.assignment, done.lane) == (None, None)
    assert node.job(done.job_id)["state"] in ("ready", "waiting")


@pytest.mark.parametrize(
    "change",
    [
        "update txqueue.node_info set state = 'draining'",
        "update txqueue.node_info set heartbeat_at = now() - interval '1 minute'",
        "update txqueue.node_info set incarnation = incarnation + 1000",
        "update txqueue.node_info set work_types = '{}'",
        "select txqueue.set_limit('queue', 'default', 9, null, null, null, null, 'ann')",
    ],
)
def test_a_node_that_may_not_have_it(node: Master, change: str) -> None:
    """Dead, or limited: the job becomes ready for any node."""
    node.cursor.execute(change)
    try:
        job = put(node, node)
        assert job.assignment is None
        assert node.job(job.job_id)["state"] == "ready"
    finally:
        node.cursor.execute("truncate txqueue.control")


@pytest.mark.parametrize(
    "job", [{"payload": "[]"}, {"priority": 10}, {"weight": 0}, {"not_after": "1999-01-01"}]
)
def test_what_cannot_be_a_job(node: Master, job: dict[str, Any]) -> None:
    """Is refused as enqueue() does."""
    with pytest.raises(psycopg2.Error) as error:
        put(node, node, **job)
    assert error.value.pgcode == "TXQ01"


def test_a_node_reads_what_it_was_handed(node: Master, other: Master) -> None:
    """Not what another node was, nor what it has claimed itself."""
    first, second = put(other, node, payload='{"n": 1}'), put(other, node, options='{"timeout": 1}')
    foreign = put(other, other)
    node.enqueue({})
    [claimed] = node.claim()
    assert handed(node, first.assignment) == [
        AssignedJob(first.job_id, "test.kind", 1, 1, {"n": 1})
    ]
    assert handed(node, second.assignment) == [
        AssignedJob(second.job_id, "test.kind", 1, 1, {}, {"timeout": 1})
    ]
    assert handed(node, foreign.assignment) == handed(node, claimed.assignment) == []


def test_one_assignment_that_rotation_took_apart(node: Master) -> None:
    """Is still one chunk."""
    jobs = [put(node, node), put(node, node)]
    node.cursor.execute(
        "update txqueue.job set assignment = %s, lane = case job_id when %s then 3 else 5 end",
        (jobs[0].assignment, jobs[0].job_id),
    )
    found = handed(node, jobs[0].assignment)
    assert [job.job_id for job in found] == [job.job_id for job in jobs]


def test_roles(node: Master) -> None:
    """The enqueue role may use direct dispatch; only a node may read jobs handed to it."""
    with playing(node, "txqueue_enqueue"):
        assert put(node, node).assignment is not None
        assert node.value("select txqueue.identity()")
        with pytest.raises(psycopg2.errors.InsufficientPrivilege):
            handed(node, 1)
    with playing(node, "txqueue_worker"):
        assert put(node, node).assignment is not None
        handed(node, 1)


def test_lanes_turn(node: Master, other: Master) -> None:
    """Even if all jobs are enqueued assigned: the lane they leave is truncated, and used again."""
    jobs = [put(other, node) for _ in range(300)]
    assert node.value("select last_value from txqueue.lane") == 0
    node.cursor.execute("select txqueue.rotate(least_bytes => 8192)")
    assert node.value("select last_value from txqueue.lane") == 1
    later = put(other, node)
    assert later.lane == 1
    ids = f"{{{','.join(str(job.job_id) for job in jobs)}}}"
    node.cursor.execute(
        "delete from txqueue.job_assigned where job_id = any (%s::bigint[])", (ids,)
    )
    did = node.value("select did from txqueue.rotate(least_bytes => 1024)")
    assert "truncated job_assigned_0" in did


async def test_an_error_that_was_swallowed(dsn: str) -> None:
    """The server rolls such a transaction back at its commit, which raises an error."""
    async with opened(dsn) as queue:
        with pytest.raises(Refused, match="was rolled back"):
            await swallowing(queue)
        assert await queue.run_interaction(jobs) == [(0,)]


async def swallowing(queue: WorkQueue) -> None:
    """Continue after a statement has failed."""
    async with queue.transaction() as txn:
        await txn.enqueue(Note())
        with suppress(psycopg2.Error):
            await txn.execute("select 1 / 0")


async def jobs(txn: Transaction) -> list[tuple[int]]:
    """Count them."""
    return await txn.execute("select count(*) from txqueue.job")


@pytest.mark.parametrize("node", ["auto", "unix:absent.sock"])
async def test_a_node_that_is_away(dsn: str, node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Is no error: jobs are enqueued as ever."""
    monkeypatch.setenv("TXQUEUE_STATE_DIR", "/nonexistent")
    queue = await WorkQueue.connect(dsn, node=node)
    try:
        job = await queue.job(await queue.enqueue(Note()))
    finally:
        await queue.close()
    assert job.node_id is None


async def test_no_node_whatever_is_configured(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty text goes before the environment."""
    monkeypatch.setenv("TXQUEUE_NODE", "tcp:4000")
    with pytest.raises(ConfigurationError, match="cannot join a node at tcp:4000"):
        await WorkQueue.connect(dsn)
    queue = await WorkQueue.connect(dsn, node="")
    await queue.close()
    assert queue.membership is None

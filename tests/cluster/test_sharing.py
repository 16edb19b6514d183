"""Several nodes on one database: what each of them takes."""

from typing import Any

import pytest

from tests.cluster.app import Grouped, Noted, OnOtherQueue
from tests.cluster.app_of_one import KnownToOne
from tests.cluster.database import Database
from tests.cluster.nodes import Nodes
from tests.cluster.peers import inspected, meshed, place
from tests.waiting import eventually
from txqueue import WorkQueue

LIMIT = 240.0
# By chance each of two nodes gets about half of them.
HEAVY, LEAST = 30, 27


async def test_two_nodes_share(nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """Jobs of one queue run on both nodes, each job once."""
    first = nodes.start("--workers", "1", "--capacity", "5")
    second = nodes.start("--workers", "1", "--capacity", "5")
    await first.up()
    await second.up()
    ids = await queue.enqueue_many([Noted(0.02) for _ in range(200)])
    await eventually(lambda: db.states() == {"done": 200}, LIMIT)
    assert db.runs() == dict.fromkeys(ids, 1)
    served = {row["node"] for row in db.rows("select distinct node from run")}
    assert served == {first.name, second.name}


async def heard_of_all(db: Database, node: str) -> None:
    """Wait until a heartbeat of a node has told it who the others are: the next one has come."""
    beat = "select heartbeat_at > %s as has_beaten from txqueue.node_info"
    for _ in range(2):
        moment = db.rows("select clock_timestamp() as at")[0]["at"]

        def has_beaten(moment: Any = moment) -> bool:
            return bool(db.rows(f"{beat} where name = %s", moment, node)[0]["has_beaten"])

        await eventually(has_beaten, LIMIT)


async def test_a_loaded_node_leaves_heavy_jobs_to_an_idle_one(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Though it has room for them, and is as quick to claim."""
    words = ("--workers", "1", "--capacity", "10")
    loaded = await nodes.start("--listen", place(0), *words, TXQUEUE_LEASE="3").up()
    light = await queue.enqueue_many([Noted(LIMIT) for _ in range(6)])
    await eventually(lambda: set(db.runs()) == set(light), LIMIT)
    idle = nodes.start("--listen", place(1), *words)
    await meshed([loaded, idle])

    async def has_reported() -> bool:
        (peer,) = (await inspected(loaded))["peers"]
        return bool(peer["outstanding"] == 0)

    await heard_of_all(db, loaded.name)
    heavy = []
    for _ in range(HEAVY):
        await eventually(has_reported, LIMIT)
        heavy.append(await queue.enqueue(Noted(0.01), weight=4))
        await queue.wait(heavy[-1], LIMIT)
    where = db.rows("select node from run where job_id = any(%s) and what = 'start'", heavy)
    for job_id in light:
        db.rows(f"select txqueue.cancel(array[{job_id}]::bigint[], 'test')")
    await eventually(lambda: db.states() == {"done": HEAVY, "cancelled": 6}, LIMIT)
    assert sum(row["node"] == idle.name for row in where) >= LEAST


async def test_queues_and_types(nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """A node serves only its queues and the types it knows."""
    first = nodes.start("--workers", "1", "--queues", "default,mail")
    second = nodes.start("--workers", "1", "--queues", "other, default", app=KnownToOne.__module__)
    await first.up()
    await second.up()
    both = await queue.enqueue_many([Noted(0.02) for _ in range(20)])
    mail = await queue.enqueue_many([Noted() for _ in range(10)], queue="mail")
    other = await queue.enqueue_many([OnOtherQueue() for _ in range(10)])
    known = await queue.enqueue_many([KnownToOne() for _ in range(10)])
    unserved = await queue.enqueue(Noted(), queue="unserved")
    for job_id in (*both, *mail, *other, *known):
        await queue.wait(job_id, LIMIT)

    def runners(ids: list[int]) -> set[str]:
        rows = db.rows("select distinct node from run where job_id = any(%s)", ids)
        return {row["node"] for row in rows}

    assert runners(mail) == {first.name}
    assert runners(other) == {second.name}
    assert runners(known) == {second.name}
    assert db.job(unserved)["state"] == "ready"


@pytest.mark.parametrize("keys", [1, 10])
async def test_groups(keys: int, nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """Jobs of one group never overlap and run in order, on two nodes with two workers each."""
    started = [nodes.start("--workers", "2") for _ in range(2)]
    works = [Grouped(f"key {n % keys}", n, 0.001) for n in range(200)]
    await queue.enqueue_many(works[:100])
    for node in started:
        await node.up(2)
    for work in works[100:]:
        await queue.enqueue(work)
    await eventually(lambda: db.states() == {"done": 200}, LIMIT)
    for key in range(keys):
        notes = db.rows(
            "select what from run join txqueue.job using (job_id)"
            ' where "group" = %s order by run.at, what desc',
            f"key {key}",
        )
        expected = [
            f"{what} {n}" for n in range(200) if n % keys == key for what in ("start", "end")
        ]
        assert [row["what"] for row in notes] == expected


async def test_one_name_for_two(nodes: Nodes, db: Database, queue: WorkQueue) -> None:
    """The later started of two nodes of one name continues; the other stops and logs why."""
    older = await nodes.start("--workers", "1", TXQUEUE_LEASE="4").up()
    younger = nodes.start("--workers", "1", name=older.name, TXQUEUE_LEASE="4")
    ids = await queue.enqueue_many([Noted(0.05) for _ in range(100)])
    older.ended()
    assert f"another node runs under the name {older.name}" in older.log
    await younger.up()
    await eventually(lambda: db.states() == {"done": 100}, LIMIT)
    assert set(db.runs("end")) == set(ids)

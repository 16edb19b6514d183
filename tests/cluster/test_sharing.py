"""Several nodes on one database: what each of them takes."""

from typing import Any

from tests.cluster.app import Noted
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

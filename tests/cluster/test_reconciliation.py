"""Jobs that are assigned to a live node which does not hold them are given back, and run."""

import json

from tests.cluster.app import Noted
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.waiting import eventually

# What a claim does that commits after its master has given it up.
CLAIM_LATE = """do $$ begin
    perform txqueue.enqueue_many({jobs});
    perform from txqueue.next_job(
        {node}, {incarnation}, '{{default}}', '{{{kind}}}', 100, 100, 100, 1000, 1);
end $$"""


async def test_a_claim_that_commits_late_strands_nothing(nodes: Nodes, db: Database) -> None:
    """Its jobs run within a few heartbeats, each once, and the node says what happened."""
    node = await nodes.start("--workers", "1", TXQUEUE_LEASE="2").up()
    info = node.info
    jobs = json.dumps([{"work_type": Noted.work_type, "payload": {}} for _ in range(20)])
    claim = CLAIM_LATE.format(
        jobs=f"$jobs${jobs}$jobs$",
        node=info["node_id"],
        incarnation=info["incarnation"],
        kind=Noted.work_type,
    )
    db.execute(claim)
    assert db.states() == {"assigned": 20}
    await eventually(lambda: db.states() == {"done": 20}, PATIENCE)
    assert set(db.runs().values()) == {1}
    await node.logged("returned 20 jobs that were assigned to this node but not held by it")


async def test_a_node_whose_name_is_taken_ends_as_failed(nodes: Nodes, db: Database) -> None:
    """Its exit status makes a supervisor restart it; the other node continues."""
    node = await nodes.start("--workers", "1", TXQUEUE_LEASE="2").up()
    db.value(
        "select incarnation from txqueue.register_node"
        "(%s, 'elsewhere', 1, null, 60, 1, '{default}', '[]', '', null)",
        node.name,
    )
    assert node.ended() == 1, node.log
    assert f"another node runs under the name {node.name}" in node.log
    assert node.remaining() == set()

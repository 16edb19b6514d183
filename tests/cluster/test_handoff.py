"""Work that goes from node to node: stolen by idle ones, passed on by those that drain."""

from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.peers import hand, meshed, share_of, start_mesh
from tests.waiting import eventually

SMALL = ("--workers", "1", "--capacity", "10")


async def test_what_one_node_holds_spreads_over_four(nodes: Nodes, db: Database) -> None:
    """Idle nodes take what waits at the one that it was handed to, each its part."""
    started = start_mesh(nodes, 4, *SMALL)
    await meshed(started)
    ids = hand(db, started[0], 600, 0.1)
    await eventually(lambda: db.states() == {"done": 600}, PATIENCE)
    assert db.runs() == dict.fromkeys(ids, 1)
    shares = share_of(db)
    print(shares)
    assert all(120 <= shares[node.name] <= 180 for node in started), shares

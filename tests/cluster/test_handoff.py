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
    # A quarter each, unless the machine stops a node for a part of these seconds.
    assert all(90 <= shares[node.name] <= 240 for node in started), shares


async def test_a_node_that_drains_passes_on_what_it_has_not_started(
    nodes: Nodes, db: Database
) -> None:
    """It ends when what runs has ended; all it held runs once, at its peer."""
    first, second = started = start_mesh(nodes, 2, *SMALL)
    await meshed(started)
    ids = hand(db, first, 60, 0.5)
    await eventually(lambda: share_of(db)[first.name] > 0, PATIENCE)
    first.stop()
    assert first.info["state"] == "stopped"
    await eventually(lambda: db.states() == {"done": 60}, PATIENCE)
    assert db.runs() == dict.fromkeys(ids, 1)
    assert share_of(db)[second.name] >= 40


async def test_a_node_without_peers_takes_its_part(nodes: Nodes, db: Database) -> None:
    """A node without connections shares work through the database."""
    started = start_mesh(nodes, 2, *SMALL)
    alone = nodes.start(*SMALL)
    await meshed(started)
    await alone.up()
    for _ in range(300):
        db.enqueue("tests.cluster.app.Noted", '{"seconds": 0.05}')
    await eventually(lambda: db.states() == {"done": 300}, PATIENCE)
    assert share_of(db)[alone.name] > 0

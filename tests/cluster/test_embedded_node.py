"""A node that brings its own database."""

import re
from functools import partial
from pathlib import Path

from tests.cluster.app import Says
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually
from txqueue import WorkQueue

LIMIT = 120.0
SAID = re.compile(r"TXQUEUE_DSN='([^']+)'")


def said(node: Node) -> list[str]:
    """The DSN that a node has printed."""
    return SAID.findall(node.log)


async def test_a_node_starts_a_server_of_its_own(nodes: Nodes, tmp_path: Path) -> None:
    """It says where, ends the server with itself, and finds its data again the next time."""
    folder = tmp_path / "state"
    for number in (1, 2):
        settings = {"TXQUEUE_DSN": "", "TXQUEUE_STATE_DIR": str(folder)}
        node = nodes.start("--embedded", "--workers", "1", name="its-own", **settings)
        (dsn,) = await eventually(partial(said, node), LIMIT)
        queue = await WorkQueue.connect(dsn)
        assert await queue.enqueue(Says("hello")) == number
        assert await queue.wait(number, LIMIT) == "hello"
        await queue.close()
        node.stop()
        assert not (folder / "embedded" / "data" / "postmaster.pid").exists()

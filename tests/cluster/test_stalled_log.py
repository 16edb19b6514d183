"""Nodes whose log cannot be written: its pipe is not read or is closed, or the disk is full."""

from collections import Counter

import pytest

from tests.cluster.app_of_logs import Chatty
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node, Nodes
from tests.waiting import eventually
from txqueue import WorkQueue

APP = Chatty.__module__
# Seconds: without heartbeats, the jobs of a node with it would soon run again.
LEASE = "4"


def beats(node: Node) -> int:
    """How many heartbeats the database has counted of a node."""
    return int(node.info["beats"])


def runs(node: Node) -> Counter[str]:
    """How often each job has run."""
    return Counter((node.folder / "ran").read_text().split())


@pytest.mark.parametrize(
    "log_format", ["json", pytest.param("text", marks=pytest.mark.slow("txqueue/logs"))]
)
async def test_a_log_that_is_not_read_keeps_no_node_from_its_work(
    nodes: Nodes, db: Database, queue: WorkQueue, log_format: str
) -> None:
    """Its heartbeats go on, each job runs once, and it drains; a line says what was dropped."""
    nodes.is_piped = True
    nodes.reading.clear()
    options = "--workers", "2", "--lease", LEASE, "--log-format", log_format
    node = await nodes.start(*options, app=APP, PYTHONFAULTHANDLER="1").up(2)
    incarnation = node.info["incarnation"]
    ids = await queue.enqueue_many([Chatty() for _ in range(40)])
    await eventually(lambda: db.states() == {"done": 40}, PATIENCE)
    before = beats(node)
    await eventually(lambda: beats(node) > before + 3, PATIENCE)
    assert runs(node) == dict.fromkeys(map(str, ids), 1)
    assert node.info["incarnation"] == incarnation
    assert node.log == ""
    nodes.reading.set()
    await eventually(lambda: "lines of the log were dropped" in node.log, PATIENCE)
    nodes.reading.clear()
    await queue.enqueue_many([Chatty() for _ in range(20)])
    await eventually(lambda: db.states() == {"done": 60}, PATIENCE)
    node.stop()
    assert runs(node).total() == 60


async def test_a_log_without_a_reader_or_a_disk_fails_no_handler(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Its pipe is closed, or its disk full."""
    closed = ("sh", "-c", '"$0" "$@" | true')
    full = ("sh", "-c", 'exec "$0" "$@" >/dev/full 2>&1')
    for within in (closed, full):
        node = nodes.start("--workers", "1", app=APP, within=within)
        await queue.wait(await queue.enqueue(Chatty()), PATIENCE)
        node.destroy()

"""``txqueue doctor`` beside real nodes."""

import json

from tests.cluster.app import Noted
from tests.cluster.commands import called
from tests.cluster.nodes import PATIENCE, Node, Nodes
from tests.waiting import eventually
from txqueue import WorkQueue


def examined(node: Node) -> tuple[int, dict[str, str]]:
    """Run the command; returns its exit status, and the checks that find something."""
    place = {"TXQUEUE_DSN": node.database.dsn, "TXQUEUE_STATE_DIR": str(node.folder)}
    done = called("doctor", "--json", **place)
    assert not done.stderr
    document = json.loads(done.stdout)
    checks, database = document["checks"], document["database"]
    assert database["source"] == "TXQUEUE_DSN"
    assert "dbname=" in database["location"]
    skipped = {each["unchecked"] for each in checks if each["unchecked"] is not None}
    found = {each["check"]: each["findings"][0]["what"] for each in checks if each["findings"]}
    # Without a node, what follows from that is not checked.
    follows = {"what it finds follows from running-nodes"}
    assert skipped == (follows if "running-nodes" in found else set())
    # The server of the tests is not durable.
    assert found.pop("durability")
    return done.returncode, found


async def test_a_running_node_is_healthy_and_a_dead_one_is_found(
    nodes: Nodes, queue: WorkQueue
) -> None:
    """Together with the jobs that no node runs then."""
    node = await nodes.start("--workers", "1", "--lease", "2").up()
    await queue.enqueue(Noted(60.0))
    assert examined(node)[1] == {}
    (node.folder / f"{node.name}.sock").chmod(0o666)
    assert set(examined(node)[1]) == {"admin-sockets"}
    node.kill()
    await queue.enqueue(Noted(0.0))

    def is_found() -> bool:
        status, found = examined(node)
        said = "no node has run for"
        what = found.get("running-nodes", "")
        return status == 1 and what.startswith(said) and what.endswith("; 2 jobs wait for one")

    await eventually(is_found, PATIENCE)

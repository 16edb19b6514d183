"""What a node answers about itself, and where it listens."""

import json
import signal
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.cluster.app import Noted
from tests.cluster.commands import called
from tests.cluster.nodes import PATIENCE, TLS, Node, Nodes
from tests.cluster.peers import free_port
from tests.waiting import eventually, running_reactor
from txqueue import WorkQueue
from txqueue.admin import Admin, AdminRefused
from txqueue.admin.client import AdminLink
from txqueue.wire.certificate_authority import issue, make_authority
from txqueue.wire.endpoints import parsed_endpoint
from txqueue.wire.tls import NODE, OPERATOR, Credentials


def socket_of(node: Node) -> Path:
    """Its admin endpoint."""
    return node.folder / f"{node.name}.sock"


def asked(endpoint: str) -> CompletedProcess[str]:
    """Run `txqueue nodes --node ENDPOINT`, without any database to ask."""
    return called("nodes", "--node", endpoint, "--json", TXQUEUE_DSN="host=/nowhere")


async def test_a_node_describes_itself(nodes: Nodes, queue: WorkQueue) -> None:
    """Its processes and what they hold, whether its database answers or not."""
    node = await nodes.start("--workers", "2").up(2)
    assert socket_of(node).stat().st_mode & 0o777 == 0o600
    await queue.enqueue(Noted(60.0))

    def jobs(state: str) -> list[int]:
        (said,) = json.loads(asked(f"unix:{socket_of(node)}").stdout)["nodes"]
        assert (said["name"], said["pid"]) == (node.name, node.pid)
        assert {worker["pid"] for worker in said["workers"]} == node.workers
        assert node.database.dsn not in json.dumps(said)
        return sorted(worker["jobs"] for worker in said["workers"] if said["state"] == state)

    await eventually(lambda: jobs("alive") == [0, 1], PATIENCE)
    node.signal(signal.SIGTERM)
    await eventually(lambda: jobs("draining") == [0, 1], PATIENCE)
    node.stop_at_once()
    assert not socket_of(node).exists()


async def test_over_tls_only_operators_act(nodes: Nodes, tmp_path: Path) -> None:
    """Under the name that their certificate says; a node's certificate may not, none gets in."""
    folder = tmp_path / "certificates"
    make_authority(folder)
    issue(folder, NODE, "venus")
    issue(folder, NODE, "mars")
    issue(folder, OPERATOR, "ann")
    endpoint = f"tcp:{free_port()}:interface=127.0.0.1"
    started = nodes.start("--admin", endpoint, "--tls-dir", str(folder), name="venus", **TLS)
    venus = await started.up()

    def pause(operator: str, **more: str) -> CompletedProcess[str]:
        told = {"TXQUEUE_NODE": endpoint, "TXQUEUE_OPERATOR": operator, **TLS, **more}
        return called("pause", "mail", **told)

    tls = {"TXQUEUE_TLS_DIR": str(folder)}
    assert pause("ann", **tls).stdout == "Queue mail is paused.\n"
    assert venus.database.rows("select who, what from txqueue.action") == [
        {"who": "ann", "what": "pause"}
    ]
    assert "mars.pem is not the certificate of operator mars" in pause("mars", **tls).stderr
    bare = pause("ann")
    assert (bare.returncode, bare.stdout) == (1, "")
    assert "no node answers at" in bare.stderr
    async with await as_node("mars", folder, endpoint) as admin:
        with pytest.raises(AdminRefused, match="the certificate is not an operator's"):
            await admin.pause("sms")
    assert venus.database.value("select count(*) from txqueue.action") == 1


async def as_node(name: str, folder: Path, endpoint: str) -> Admin:
    """Connect with the certificate of a node."""
    credentials = Credentials(folder, name, NODE)
    link = AdminLink(running_reactor(), parsed_endpoint(endpoint, credentials))
    await link.open()
    return Admin(link)


async def test_a_killed_node_s_socket_is_taken_over(nodes: Nodes) -> None:
    """Its successor listens there."""
    killed = await nodes.start("--workers", "1").up()
    killed.kill()
    endpoint = f"unix:{socket_of(killed)}"
    alone = asked(endpoint)
    assert (alone.returncode, alone.stdout) == (1, "")
    assert f"no node answers at {endpoint}" in alone.stderr
    successor = await nodes.start("--workers", "1", "--admin", endpoint).up()
    said = {node["name"]: node for node in json.loads(asked(endpoint).stdout)["nodes"]}
    assert said.keys() == {killed.name, successor.name}
    assert said[successor.name]["pid"] == successor.pid
    assert "workers" in said[successor.name]

"""Nodes that listen for each other: their addresses, their certificates, and who is connected."""

import socket
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Node, Nodes
from tests.fixtures.node_inspection import inspect_node
from tests.waiting import eventually, running_reactor
from txqueue.wire.certificate_authority import issue, make_authority
from txqueue.wire.endpoints import parsed_endpoint


def free_port(address: str = "127.0.0.1") -> int:
    """Return a free port of an address of this host."""
    with closing(socket.socket()) as trial:
        trial.bind((address, 0))
        port: int = trial.getsockname()[1]
        return port


def place(number: int) -> str:
    """Where the node of a number listens: each has an address of its own, as on several hosts."""
    address = f"127.0.0.{number + 1}"
    return f"tcp:{free_port(address)}:interface={address}"


def certificates(folder: Path, *names: str) -> Path:
    """Make an authority and a certificate for each node."""
    make_authority(folder)
    for name in names:
        issue(folder, "node", name)
    return folder


def start_mesh(nodes: Nodes, count: int, *arguments: str, **settings: str) -> list[Node]:
    """Start nodes that listen for each other."""
    return [
        nodes.start("--listen", place(number), *arguments, **settings) for number in range(count)
    ]


async def inspected(node: Node) -> dict[str, Any]:
    """The description of a node."""
    endpoint = parsed_endpoint(f"unix:{node.folder / quote(node.name)}.sock")
    return await inspect_node(running_reactor(), endpoint)


async def connected(node: Node) -> set[str]:
    """The peers that a node is connected with."""
    said = await inspected(node)
    return {peer["name"] for peer in said["peers"] if peer["is_connected"]}


async def meshed(started: Sequence[Node], workers: int = 1) -> None:
    """Wait until all are up and connected with all."""
    for node in started:
        await node.up(workers)
    names = {node.name for node in started}

    async def are_connected() -> bool:
        return all([await connected(node) == names - {node.name} for node in started])

    await eventually(are_connected, PATIENCE)


def hand(db: Database, node: Node, count: int, seconds: float, weight: int = 1) -> list[int]:
    """Enqueue jobs as assigned to one node, without a message."""
    info = node.info
    rows = db.rows(
        "select (enqueue_assigned).job_id from (select txqueue.enqueue_assigned("
        "%s, %s, 'tests.cluster.app.Noted', jsonb_build_object('seconds', %s), weight => %s)"
        " from generate_series(1, %s)) as made",
        *(info["node_id"], info["incarnation"], seconds, weight, count),
    )
    return [row["job_id"] for row in rows]


def share_of(db: Database) -> Counter[str]:
    """How many jobs each node has run."""
    return Counter(row["node"] for row in db.rows("select node from run where what = 'start'"))

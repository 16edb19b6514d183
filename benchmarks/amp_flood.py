"""A million malformed frames and a thousand idle connections against a node's peer port.

    python -m benchmarks.amp_flood [frames [connections]]

Runs a fresh embedded server and one node; prints its master's memory before, after and at its most,
and how long a peer and an operator that were connected before waited for their answers.
"""

from __future__ import annotations

import socket
import sys
from contextlib import closing
from pathlib import Path

from attrs import asdict
from rich.console import Console

from benchmarks.flooding import HOST, Figures, Flooded, flooded
from txqueue.demo.environment import TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode

REGISTER = (
    "select incarnation from {0}.register_node"
    "('peer', '', 0, 1, 3600, 1, '{{}}', '[]', '', '127.0.0.1')"
)


def free_port() -> int:
    """Return a free port."""
    with closing(socket.socket()) as trial:
        trial.bind((HOST, 0))
        return int(trial.getsockname()[1])


def measured(target: TemporarySchema, frames: int, connections: int) -> Figures:
    """Flood a node."""
    port = free_port()
    settings = {"TXQUEUE_LISTEN": f"tcp:{port}", "TXQUEUE_LEASE": "60"}
    with RunningNode(target, "txqueue_bench.work", 1, settings=settings) as node:
        with target.session() as session:
            incarnation = session.value(REGISTER.format(session.schema))
        admin = Path(node.endpoint.removeprefix("unix:"))
        return flooded(Flooded(node.pid, port, admin, "peer", incarnation), frames, connections)


def main(frames: int = 1_000_000, connections: int = 1_000) -> None:
    """Measure and print."""
    with bars() as stages, embedded_schema(stages) as target:
        stages.begin("flooding")
        figures = measured(target, frames, connections)
    Console().print_json(data={**asdict(figures), "grown_mib": figures.grown})


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

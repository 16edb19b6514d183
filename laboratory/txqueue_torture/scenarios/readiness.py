"""A node that can start no job says so, and works again once it can."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Final
from urllib.error import HTTPError
from urllib.request import urlopen

from txqueue_torture.breakable import fault_of
from txqueue_torture.demands import works_again
from txqueue_torture.environment import Testbed
from txqueue_torture.node import TortureNode, free_port
from txqueue_torture.scenario import scenario

__all__ = ["not_ready"]

APP: Final = ("txqueue_torture.breakable",)
PATIENCE: Final = 5.0
# Seconds: a worker that ends at its start is replaced with growing delays.
HEALED_WITHIN: Final = 30.0


@scenario(
    "not_ready", "a node's application is damaged, its workers are killed, SIGCHLD is replaced"
)
def not_ready(testbed: Testbed) -> None:
    """Damage an application: its node says that it is not ready, until it is repaired."""
    port = free_port()
    options = ("--health", f"tcp:{port}", "--worker-start", "spawn")
    node = testbed.start_node("n1", app=APP, options=options).wait_up()
    testbed.start_node("n2").wait_up()
    testbed.wait(lambda: _is_ready(port), "the node is ready")
    testbed.start_client(rate=20, kinds=("noop", "slow:0.1"))
    testbed.flow()
    broken = fault_of(testbed.folder, node.name)
    with testbed.fault("kill workers", nodes=[node], still=True) as fault:
        broken.touch()
        fault.pids = set(node.worker_pids())
        _kill(node)
        fault.evidence = f"{sorted(fault.pids)} were killed, and no worker can be started"
    testbed.wait(lambda: not _is_ready(port), "the node says that it is not ready", PATIENCE)
    testbed.flow()
    broken.unlink()
    testbed.wait(lambda: _is_ready(port), "the node is ready again", HEALED_WITHIN)
    works_again(testbed, node)
    testbed.drain()
    testbed.expect_all_done()


def _kill(node: TortureNode) -> None:
    for pid in node.worker_pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_ready(port: int) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE):
            return True
    except HTTPError:
        return False

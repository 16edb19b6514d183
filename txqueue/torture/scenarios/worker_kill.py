"""Workers killed while they run jobs."""

from __future__ import annotations

from random import choice

from txqueue.torture.ground import Ground
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED

__all__ = ["worker_kill"]

KILLS = 5


@scenario("worker_kill", "a random worker is killed every second under mixed load")
def worker_kill(ground: Ground) -> None:
    """Kill, and look whether what it ran starts again."""
    nodes = [ground.start_node("n1"), ground.start_node("n2")]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=30, kinds=MIXED)
    for _ in range(int(KILLS * ground.scale)):
        ground.rest(1.0)
        node = choice(nodes)
        node.wait_up()
        with ground.fault("kill worker", nodes=[node], still=True) as fault:
            pid = node.kill_worker()
            fault.pids = {pid}
            fault.evidence = f"killed {pid} of {node.worker_pids()}"
    ground.drain()

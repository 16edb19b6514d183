"""Random faults: processes killed, stopped and restarted in random order."""

from __future__ import annotations

import random
import signal
from collections import Counter
from collections.abc import Callable, Sequence

from attrs import define, field

from txqueue_torture.environment import Testbed
from txqueue_torture.figures import restarts
from txqueue_torture.freezing import frozen
from txqueue_torture.node import TortureNode, until
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED

__all__ = ["NAMES", "Chaos", "process_chaos"]

NAMES = ("n1", "n2", "n3")
STEPS = 6
DEATHS = 5


@define
class Chaos:
    """Three nodes, and the faults that may be injected into one of them.

    Attributes:
        app: More modules of work items.
    """

    testbed: Testbed
    app: Sequence[str] = ()
    nodes: dict[str, TortureNode] = field(factory=dict)
    done: Counter[str] = field(factory=Counter)

    def start(self, name: str) -> None:
        """Start or restart a node."""
        self.nodes[name] = self.testbed.start_node(name, listen=True, app=self.app)

    def step(self) -> None:
        """Inject a fault into one running node, and restart ended nodes."""
        acts: list[Callable[[TortureNode], None]] = [
            self._kill_worker,
            self._kill_worker,
            self._kill_master,
            self._freeze,
            self._kill_while_draining,
            self._restart,
        ]
        act = random.choice(acts)
        act(random.choice(list(self.nodes.values())).wait_up(workers=1))
        self.done[act.__name__.strip("_")] += 1

    def _kill_worker(self, node: TortureNode) -> None:
        with self.testbed.fault("kill worker", nodes=[node], still=True) as fault:
            pid = node.kill_worker()
            fault.pids = {pid}
            if until(lambda: pid not in node.worker_pids(), 5.0):
                fault.evidence = f"{pid} of {node.name} is gone"

    def _kill_master(self, node: TortureNode) -> None:
        with self.testbed.fault("kill master", nodes=[node], still=True) as fault:
            fault.pids = {node.pid, *node.worker_pids()}
            node.kill_master()
            fault.evidence = f"{node.pid}, the master of {node.name}, is gone"
        self.testbed.rest(random.uniform(0, 2 * self.testbed.lease))
        self.start(node.name)

    def _kill_while_draining(self, node: TortureNode) -> None:
        """Kill a draining node that waits for its jobs, as an impatient supervisor does."""
        with self.testbed.fault("kill while draining", nodes=[node], snapshot=False) as fault:
            node.signal(signal.SIGTERM)
            self.testbed.rest(random.uniform(0, 0.3))
            fault.pids = {node.pid, *node.worker_pids()}
            how = "was killed as it drained" if node.is_running else "had drained before"
            node.kill_master()
            fault.evidence = f"{node.name} {how}"
        self.start(node.name)

    def _freeze(self, node: TortureNode) -> None:
        pids = random.choice([node.pids(), [node.pid], node.worker_pids()[:1]])
        seconds = random.uniform(0.2, 3) * self.testbed.lease
        with self.testbed.fault("freeze", nodes=[node], frozen=True, snapshot=False) as fault:
            fault.pids = set(node.pids())
            with frozen(pids) as still:
                self.testbed.rest(seconds)
            if still:
                fault.evidence = f"{still} of {node.name} stood still for {seconds:.1f} s"

    def _restart(self, node: TortureNode) -> None:
        with self.testbed.fault("restart", nodes=[node], snapshot=False) as fault:
            node.stop()
            fault.evidence = f"{node.name} was stopped by SIGTERM"
        self.start(node.name)


@scenario("process_chaos", "workers and masters are killed, stopped and restarted at random")
def process_chaos(testbed: Testbed) -> None:
    """Inject faults in random order: all promises hold."""
    chaos = Chaos(testbed)
    for name in NAMES:
        chaos.start(name)
    for node in chaos.nodes.values():
        node.wait_up()
    testbed.start_client(rate=15, kinds=(*MIXED, "slow:0.5", "rolled_back"))
    testbed.start_client(rate=15, kinds=(*MIXED, "effect:0.5"), node=chaos.nodes["n1"])
    testbed.flow()
    for _ in range(int(STEPS * testbed.scale)):
        testbed.rest(random.uniform(0, 1))
        chaos.step()
    testbed.drain()
    for act, times in chaos.done.items():
        testbed.figure(act, times)
    taken = list(restarts(testbed.history()))
    testbed.figure("runs_cut_short", len(taken))
    jobs = testbed.history().jobs.values()
    unjust = [job for job in jobs if job.state != "done" and job.deaths < DEATHS]
    testbed.expect(not unjust, f"all are done but what five processes died with: {unjust[:3]}")

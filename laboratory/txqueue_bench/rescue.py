"""``bench rescue``: measures how soon the jobs of a killed process run again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from typing import Any

from txqueue.demo.environment import Stages, TemporarySchema
from txqueue.demo.node import NodeFailed, RunningNode, enqueue_all, publish
from txqueue.store.inquiries.reader import Session
from txqueue.system.processes import workers_of
from txqueue_bench.tally import NOTES, noted_numbers
from txqueue_bench.work import ENOUGH, Endless

__all__ = ["rescue"]

APP = "txqueue_bench.work"
JOBS = 10
NANO = 1e-9
PATIENCE = 120.0
# A node rescues the jobs of others only after it has held its own lease for their lease plus a
# second.
SETTLING = 2.0


def rescue(target: TemporarySchema, stages: Stages, workers: int, lease: float) -> dict[str, Any]:
    """Kill a worker, then a master with a peer on the same host, then one with a peer elsewhere.

    The node of each holds ten running jobs that do not end by themselves. The time is measured from
    the kill until the last interrupted job has started again.

    Args:
        target: The schema to measure in.
        stages: Shows the progress.
        workers: How many worker processes a node has.
        lease: The nodes' lease in seconds.

    Returns:
        The document that ``--json`` prints.
    """
    began = time.monotonic()
    with target.session() as session:
        publish(session, Endless)
        trial = _Trial(target, session, stages, workers, lease)
        figures = {
            "worker_seconds": trial.of_a_worker(),
            "neighbour_seconds": trial.of_a_master(["one", "one"]),
            "master_seconds": trial.of_a_master(["one", "another"]),
        }
        (done,) = session.rows(f"select count(*) from {target.schema}.job where state = 'done'")[0]
    return {
        "workload": "rescue",
        "jobs": 3 * JOBS,
        "seconds": round(time.monotonic() - began, 3),
        "workers": workers,
        "lease": lease,
        **{name: round(seconds, 3) for name, seconds in figures.items()},
        "lost": 3 * JOBS - done,
        **target.facts(),
    }


class _Trial:
    """Kills processes of nodes, and measures how soon their jobs run again."""

    def __init__(
        self, target: TemporarySchema, session: Session, stages: Stages, workers: int, lease: float
    ) -> None:
        self._target = target
        self._session = session
        self._stages = stages
        self._workers = workers
        self._lease = lease
        self._enough = target.folder / ENOUGH

    def of_a_worker(self) -> float:
        """Kill a worker of a node that stays alive; return the seconds until its jobs run again."""
        self._stages.begin("starting a node")
        with self._node("worker", "one") as node:
            self._occupy()
            self._stages.begin("killing a worker")
            return self._restarted(lambda: os.kill(self._busy_worker(node), signal.SIGKILL))

    def of_a_master(self, hosts: list[str]) -> float:
        """Kill a master while another node is alive; return the seconds until its jobs run again.

        Args:
            hosts: The names of their hosts that the two nodes report.
        """
        first, second = (f"{host}-{len(set(hosts))}-{n}" for n, host in enumerate(hosts))
        self._stages.begin("starting two nodes")
        with self._node(first, hosts[0]) as node:
            self._occupy()
            with self._node(second, hosts[1]):
                time.sleep(self._lease + SETTLING)
                where = "this host" if len(set(hosts)) == 1 else "another host"
                self._stages.begin(f"killing a master of {where}")
                return self._restarted(node.kill)

    def _busy_worker(self, node: RunningNode) -> int:
        """Return the process id of a worker of the node that runs some of the jobs."""
        noting = {int(path.name.partition(".")[0]) for path in self._target.folder.glob(NOTES)}
        return max(noting.intersection(workers_of(node.pid)))

    def _node(self, name: str, host: str) -> RunningNode:
        settings = {"TXQUEUE_HOST": host, "TXQUEUE_LEASE": f"{self._lease:g}"}
        return RunningNode(self._target, APP, self._workers, name, settings)

    def _occupy(self) -> None:
        """Enqueue endless jobs, and wait until all of them run."""
        self._enough.unlink(missing_ok=True)
        before = len(noted_numbers(self._target.folder))
        enqueue_all(self._session, map(Endless, range(1, JOBS + 1)), lambda _: None)
        self._until(lambda: len(noted_numbers(self._target.folder)) >= before + JOBS)

    def _restarted(self, kill: Callable[[], None]) -> float:
        """Call `kill`, and return the seconds until the last interrupted job has started again."""
        killed_at = time.monotonic()
        kill()
        self._enough.touch()
        self._until(lambda: self._session.live_jobs() == 0)
        again = [
            number * NANO
            for number in noted_numbers(self._target.folder)
            if number * NANO > killed_at
        ]
        if not again:
            raise NodeFailed("nothing ran again: the process that was killed held no job")
        return max(again) - killed_at

    def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > deadline:
                raise NodeFailed(f"jobs did not run within {PATIENCE:g} s", "see the nodes' logs")
            time.sleep(0.02)

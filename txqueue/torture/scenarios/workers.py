"""Kills workers while they run jobs, and while they start."""

from __future__ import annotations

import os
import signal
from collections import Counter
from random import choice, randrange
from statistics import median

from txqueue.torture.environment import Ground
from txqueue.torture.figures import restarts
from txqueue.torture.freezing import frozen
from txqueue.torture.node import TortureNode, until
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED

__all__ = ["frozen_worker", "worker_kill", "worker_kill_at_start"]

KILLS = 6
RESTARTED_WITHIN = 1.0


@scenario("worker_kill", "kill -9 of a random worker every second under mixed load")
def worker_kill(ground: Ground) -> None:
    """The running jobs of a killed worker start again within a second, and only they run twice."""
    nodes = [ground.start_node(name, workers=3) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=30, kinds=(*MIXED, "slow:0.5"))
    ground.flow()
    for _ in range(int(KILLS * ground.scale)):
        ground.rest(1.0)
        _kill_one(ground, choice(nodes))
    ground.drain()
    taken = sorted(restarts(ground.history()))
    ground.figure("runs_cut_short", len(taken))
    if taken:
        ground.figure("restart_p50", round(median(taken), 3))
        ground.expect(median(taken) < RESTARTED_WITHIN, "jobs start again within a second")
    failed = [job for job in ground.history().jobs.values() if job.state != "done"]
    ground.expect(not failed, f"all jobs end done, but {failed[:3]}")


def _kill_one(ground: Ground, node: TortureNode) -> None:
    node.wait_up(workers=2)
    with ground.fault("kill worker", nodes=[node], still=True) as fault:
        pid = node.kill_worker(randrange(len(node.worker_pids())))
        fault.pids = {pid}
        if until(lambda: pid not in node.worker_pids(), 5.0):
            fault.evidence = f"{pid} is gone, of {node.name} are left {node.worker_pids()}"


@scenario("worker_kill_at_start", "one node's workers are repeatedly killed as they start")
def worker_kill_at_start(ground: Ground) -> None:
    """The node claims nothing it cannot run, the other continues, and nothing runs twice."""
    ground.start_node("n1").wait_up()
    ground.start_client(rate=30, kinds=MIXED)
    ground.flow()
    stricken = ground.start_node("n2")
    killed: set[int] = set()
    with ground.fault("kill new worker", nodes=[stricken], snapshot=False) as fault:
        for _ in range(int(KILLS * ground.scale)):
            ground.wait(stricken.worker_pids, "another worker is started")
            for pid in stricken.worker_pids():
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            ground.wait(lambda: not killed & set(stricken.worker_pids()), "the killed are gone")
        fault.pids = killed
        fault.evidence = f"{len(killed)} workers of {stricken.name} were killed as they started"
    stricken.wait_up()
    since = len(ground.history().runs)
    ground.wait(
        lambda: any(run.node == stricken.name for run in ground.history().runs[since:]),
        "the stricken node works at last",
        every=0.3,
    )
    ground.drain()
    ground.figure("killed", len(killed))
    deaths = sum(job.deaths for job in ground.history().jobs.values())
    ground.expect(deaths == 0, f"no job was in a worker that had not started, but {deaths} deaths")


@scenario("frozen_worker", "one worker is stopped for three leases in the middle of its jobs")
def frozen_worker(ground: Ground) -> None:
    """Its master is alive and keeps the jobs: they wait, and nothing runs twice."""
    node, other = ground.start_node("n1"), ground.start_node("n2")
    node.wait_up()
    other.wait_up()
    ground.start_client(rate=20, kinds=("effect:0.4", "grouped:0.1", "slow:2", "noop"))
    for _ in range(int(ground.scale)):
        ground.flow()
        pid = _busiest(ground, node)
        with (
            ground.fault("freeze worker", nodes=[node], frozen=True, snapshot=False) as fault,
            frozen([pid]) as still,
        ):
            fault.pids = {pid}
            ground.rest(3 * ground.lease)
            held = _open_runs(ground)[pid]
            if still and held:
                fault.evidence = f"{pid} stood still in the middle of {held} jobs"
    ground.drain()
    duplicates = [job for job, runs in ground.history().runs_by_job().items() if len(runs) > 1]
    ground.expect(not duplicates, f"its master keeps its jobs, but {duplicates[:5]} ran again")


def _busiest(ground: Ground, node: TortureNode) -> int:
    """Return the worker of a node that is running the most jobs."""
    workers = node.worker_pids()
    ground.wait(
        lambda: any(_open_runs(ground)[pid] for pid in workers), "a worker has work", every=0.3
    )
    runs = _open_runs(ground)
    return max(workers, key=lambda pid: runs[pid])


def _open_runs(ground: Ground) -> Counter[int]:
    return Counter(run.pid for run in ground.history().runs if run.ended is None)

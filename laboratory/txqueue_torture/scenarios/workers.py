"""Kills workers while they run jobs, and while they start."""

from __future__ import annotations

import os
import signal
from collections import Counter
from random import choice, randrange
from statistics import median

from txqueue.system.processes import is_alive
from txqueue_torture.demands import works_again
from txqueue_torture.environment import Testbed
from txqueue_torture.figures import restarts
from txqueue_torture.freezing import frozen
from txqueue_torture.node import TortureNode, until
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED

__all__ = ["frozen_worker", "template_kill", "worker_kill", "worker_kill_at_start"]

KILLS, TEMPLATE_KILLS = 6, 3
RESTARTED_WITHIN = 1.0


@scenario("worker_kill", "kill -9 of a random worker every second under mixed load")
def worker_kill(testbed: Testbed) -> None:
    """Kill workers: their running jobs start again within a second, and only those run twice."""
    nodes = [testbed.start_node(name, workers=3) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=30, kinds=(*MIXED, "slow:0.5"))
    testbed.flow()
    for _ in range(int(KILLS * testbed.scale)):
        testbed.rest(1.0)
        _kill_one(testbed, choice(nodes))
    testbed.drain()
    taken = sorted(restarts(testbed.history()))
    testbed.figure("runs_cut_short", len(taken))
    if taken:
        testbed.figure("restart_p50", round(median(taken), 3))
        testbed.expect(median(taken) < RESTARTED_WITHIN, "jobs start again within a second")
    testbed.expect_all_done()


def _kill_one(testbed: Testbed, node: TortureNode) -> None:
    node.wait_up(workers=2)
    with testbed.fault("kill worker", nodes=[node], still=True) as fault:
        pid = node.kill_worker(randrange(len(node.worker_pids())))
        fault.pids = {pid}
        if until(lambda: pid not in node.worker_pids(), 5.0):
            fault.evidence = f"{pid} is gone, of {node.name} are left {node.worker_pids()}"


@scenario("template_kill", "kill -9 of the template of a node's workers under mixed load")
def template_kill(testbed: Testbed) -> None:
    """Kill the template, and its workers with it: their jobs run again, on this node too."""
    node, other = (testbed.start_node(name, workers=3) for name in ("n1", "n2"))
    for killed in (node, other):
        killed.wait_up()
    testbed.start_client(rate=30, kinds=(*MIXED, "slow:0.5"))
    testbed.flow()
    for _ in range(int(TEMPLATE_KILLS * testbed.scale)):
        testbed.rest(1.0)
        _kill_template(testbed, node)
    works_again(testbed, node)
    testbed.drain()
    testbed.expect_all_done()


def _kill_template(testbed: Testbed, node: TortureNode) -> None:
    node.wait_up()
    with testbed.fault("kill template", nodes=[node], still=True) as fault:
        workers = set(node.worker_pids())
        (template,) = node.started_pids() - workers
        os.kill(template, signal.SIGKILL)
        fault.pids = workers
        if until(lambda: not any(map(is_alive, workers)), 5.0):
            fault.evidence = f"{template} was killed, and the workers {sorted(workers)} are gone"


@scenario("worker_kill_at_start", "one node's workers are repeatedly killed as they start")
def worker_kill_at_start(testbed: Testbed) -> None:
    """Kill a node's workers as they start: it claims no job, and the other node continues."""
    testbed.start_node("n1").wait_up()
    testbed.start_client(rate=30, kinds=MIXED)
    testbed.flow()
    stricken = testbed.start_node("n2")
    killed: set[int] = set()
    with testbed.fault("kill new worker", nodes=[stricken], snapshot=False) as fault:
        for _ in range(int(KILLS * testbed.scale)):
            # Forked workers are ready at once: what is killed is their template, as it imports.
            testbed.wait(stricken.started_pids, "another worker is started")
            for pid in stricken.started_pids():
                os.kill(pid, signal.SIGKILL)
                killed.add(pid)
            testbed.wait(lambda: not killed & stricken.started_pids(), "the killed are gone")
        fault.pids = killed
        fault.evidence = f"{len(killed)} workers of {stricken.name} were killed as they started"
    stricken.wait_up()
    since = len(testbed.history().runs)
    testbed.wait(
        lambda: any(run.node == stricken.name for run in testbed.history().runs[since:]),
        "the stricken node works at last",
        every=0.3,
    )
    testbed.drain()
    testbed.figure("killed", len(killed))
    deaths = sum(job.deaths for job in testbed.history().jobs.values())
    testbed.expect(deaths == 0, f"no job was in a worker that had not started, but {deaths} deaths")


@scenario("frozen_worker", "one worker is stopped for three leases in the middle of its jobs")
def frozen_worker(testbed: Testbed) -> None:
    """Stop a worker: its jobs wait, as its master is alive and keeps them; none runs twice."""
    node, other = testbed.start_node("n1"), testbed.start_node("n2")
    node.wait_up()
    other.wait_up()
    testbed.start_client(rate=20, kinds=("effect:0.4", "grouped:0.1", "slow:2", "noop"))
    for _ in range(int(testbed.scale)):
        testbed.flow()
        pid = _busiest(testbed, node)
        with (
            testbed.fault("freeze worker", nodes=[node], frozen=True, snapshot=False) as fault,
            frozen([pid]) as still,
        ):
            fault.pids = {pid}
            testbed.rest(3 * testbed.lease)
            jobs = _open_runs(testbed)[pid]
            if still and jobs:
                fault.evidence = f"{pid} stood still in the middle of {jobs} jobs"
    testbed.drain()
    duplicates = [job for job, runs in testbed.history().runs_by_job().items() if len(runs) > 1]
    testbed.expect(not duplicates, f"its master keeps its jobs, but {duplicates[:5]} ran again")


def _busiest(testbed: Testbed, node: TortureNode) -> int:
    """Return the process id of the node's worker that is running the most jobs."""
    workers = node.worker_pids()
    testbed.wait(
        lambda: any(_open_runs(testbed)[pid] for pid in workers), "a worker has work", every=0.3
    )
    runs = _open_runs(testbed)
    return max(workers, key=lambda pid: runs[pid])


def _open_runs(testbed: Testbed) -> Counter[int]:
    return Counter(run.pid for run in testbed.history().runs if run.ended is None)

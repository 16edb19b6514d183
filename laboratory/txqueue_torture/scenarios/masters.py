"""Kills masters: at random times, just after a claim, and just before a delivery by a client."""

from __future__ import annotations

import time

from txqueue.system.processes import is_alive
from txqueue_torture import sabotage
from txqueue_torture.demands import started_on
from txqueue_torture.environment import Testbed
from txqueue_torture.figures import restarts
from txqueue_torture.history import lines_of
from txqueue_torture.node import TortureNode, until
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED

__all__ = [
    "master_kill",
    "master_kill_after_claim",
    "master_kill_before_delivery",
    "master_kill_other_host",
]

# Seconds that interrupted jobs may take to start again, in addition to the lease.
MARGIN = 2.0
# Seconds within which the workers of a killed master end.
ORPHANED = 1.0
ROOM = 20
SABOTAGE = "txqueue_torture.sabotage"
KINDS = ("noop", "slow:0.1", "effect:0.05", "noop")
LONG = "slow:3"
# After so many seconds only a long job still runs, and it does so for another second.
OUTLASTING = (1.0, 2.0)


@scenario("master_kill", "kill -9 of one master of three; a supervisor restarts it later")
def master_kill(testbed: Testbed) -> None:
    """Kill a master: its workers end, and nodes of its host detect that at once and rescue jobs."""
    _kill_masters(testbed, ["here", "here", "here"])


@scenario("master_kill_other_host", "the same, and no other node can detect the end of its process")
def master_kill_other_host(testbed: Testbed) -> None:
    """Kill a master alone on its host: its jobs start elsewhere within the lease plus 2 s."""
    _kill_masters(testbed, ["here", "there", "elsewhere"])


def _kill_masters(testbed: Testbed, hosts: list[str]) -> None:
    nodes = [_start(testbed, number, host) for number, host in enumerate(hosts)]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=30, kinds=(*MIXED, LONG, LONG))
    for number in range(int(testbed.scale)):
        testbed.flow(40)
        which = number % len(nodes)
        name = nodes[which].name
        testbed.wait(lambda name=name: _runs_long(testbed, name), "runs a long job", every=0.3)
        _kill_master(testbed, nodes[which])
        testbed.rest(testbed.lease + MARGIN)
        nodes[which] = _start(testbed, which, hosts[which]).wait_up()
    testbed.drain()
    _expect_restarts(testbed)


def _runs_long(testbed: Testbed, name: str) -> bool:
    """Tell whether a node runs a long job that will not end before the node is killed."""
    least, most = OUTLASTING
    now = time.monotonic()
    return any(
        run.node == name and run.ended is None and least < now - run.began < most
        for run in testbed.history().runs
    )


def _start(testbed: Testbed, number: int, host: str) -> TortureNode:
    # Nodes have room for all rescued jobs at once, so that none is late for lack of room.
    host_name = {"TXQUEUE_HOST": host}
    return testbed.start_node(f"n{number + 1}", capacity=ROOM, listen=True, env=host_name)


def _kill_master(testbed: Testbed, node: TortureNode) -> None:
    with testbed.fault("kill master", nodes=[node], still=True) as fault:
        workers = node.worker_pids()
        fault.pids = {node.kill_master(), *workers}
        began = time.monotonic()
        is_over = until(lambda: not any(map(is_alive, workers)), 10.0, 0.005)
        took = time.monotonic() - began
        fault.evidence = f"{node.pid} is gone, and its workers {workers}"
    testbed.figure("orphans_ended_seconds", round(took, 3))
    testbed.expect(is_over and took < ORPHANED, f"its workers end at once, not in {took:.1f} s")


def _expect_restarts(testbed: Testbed) -> None:
    taken = list(restarts(testbed.history()))
    testbed.figure("runs_cut_short", len(taken))
    testbed.expect(taken, "some job was running as the master was killed")
    limit = testbed.lease + MARGIN
    testbed.expect(max(taken, default=0.0) < limit, f"all start again in {limit:g} s, not {taken}")


@scenario("master_kill_after_claim", "a master dies between a claim and the message to a worker")
def master_kill_after_claim(testbed: Testbed) -> None:
    """Kill a master just after a claim: the claimed jobs run elsewhere, once."""
    doomed = _start_doomed(testbed, sabotage.AFTER_CLAIM)
    testbed.start_client(rate=60, kinds=KINDS)
    _see_it_die(testbed, doomed, "master dies after its claim")


@scenario("master_kill_before_delivery", "a master dies between a client's commit and the delivery")
def master_kill_before_delivery(testbed: Testbed) -> None:
    """Kill a master before a delivery: jobs that a client assigned to it run elsewhere, once."""
    doomed = _start_doomed(testbed, sabotage.BEFORE_DELIVERY)
    testbed.start_client(rate=30, kinds=KINDS, node=doomed)
    _see_it_die(testbed, doomed, "master dies before a delivery")


def _start_doomed(testbed: Testbed, moment: str) -> TortureNode:
    doomed = testbed.start_node("n1", app=[SABOTAGE], env={sabotage.VARIABLE: moment})
    other = testbed.start_node("n2")
    other.wait_up()
    return doomed.wait_up()


def _see_it_die(testbed: Testbed, node: TortureNode, kind: str) -> None:
    """Wait until a master has killed itself, and expect one run elsewhere of each job it held."""
    with testbed.fault(kind, nodes=[node], snapshot=False) as fault:
        testbed.wait(lambda: not node.is_running, "it dies at that moment", 60.0)
        died = time.monotonic()
        node.kill_master()
        jobs = _in_its_hands(testbed) - started_on(testbed, node.name)
        if jobs:
            fault.evidence = f"{node.name} died holding the unstarted jobs {sorted(jobs)}"
    testbed.rest(1.0)
    _expect_elsewhere(testbed, node, jobs, died)


def _in_its_hands(testbed: Testbed) -> set[int]:
    lines = [line for line in lines_of(testbed.folder) if line["what"] == sabotage.WHAT]
    return {job_id for line in lines for job_id in line["job_ids"]}


def _expect_elsewhere(testbed: Testbed, node: TortureNode, jobs: set[int], died: float) -> None:
    testbed.wait(lambda: jobs <= testbed.history().runs_by_job().keys(), "they start", every=0.3)
    testbed.drain()
    runs = {
        job: job_runs for job, job_runs in testbed.history().runs_by_job().items() if job in jobs
    }
    took = max((job_runs[0].began - died for job_runs in runs.values()), default=0.0)
    limit = testbed.lease + MARGIN
    testbed.figure("unstarted", len(jobs))
    testbed.figure("started_elsewhere_seconds", round(took, 3))
    testbed.expect(took < limit, f"they start within {limit:g} s, not in {took:.1f} s")
    once = all(len(job_runs) == 1 and job_runs[0].node != node.name for job_runs in runs.values())
    testbed.expect(once, f"each ran once, on another node: {runs}")

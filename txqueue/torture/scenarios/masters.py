"""Kills masters: at random moments, and at the two moments when no process holds a job."""

from __future__ import annotations

import time

from txqueue.system.procfs import is_alive
from txqueue.torture import sabotage
from txqueue.torture.demands import running_on, started_on
from txqueue.torture.environment import Ground
from txqueue.torture.figures import restarts
from txqueue.torture.history import lines_of
from txqueue.torture.node import TortureNode, until
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED

__all__ = [
    "master_kill",
    "master_kill_after_claim",
    "master_kill_before_delivery",
    "master_kill_other_host",
]

# Seconds that a restart may take on top of the lease.
MARGIN = 2.0
# Seconds within which the workers of a killed master end.
ORPHANED = 1.0
ROOM = 20
SABOTAGE = "txqueue.torture.sabotage"
KINDS = ("noop", "slow:0.1", "effect:0.05", "noop")


@scenario("master_kill", "kill -9 of one master of three; a supervisor restarts it later")
def master_kill(ground: Ground) -> None:
    """Its workers end at once; its jobs start elsewhere as soon as other nodes detect that."""
    _kill_masters(ground, ["here", "here", "here"])


@scenario("master_kill_other_host", "the same, and no other node can detect the end of its process")
def master_kill_other_host(ground: Ground) -> None:
    """Its jobs start elsewhere within the lease plus two seconds."""
    _kill_masters(ground, ["here", "there", "elsewhere"])


def _kill_masters(ground: Ground, hosts: list[str]) -> None:
    nodes = [_start(ground, number, host) for number, host in enumerate(hosts)]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=30, kinds=(*MIXED, "slow:3", "slow:3"))
    for number in range(int(ground.scale)):
        ground.flow(40)
        which = number % len(nodes)
        name = nodes[which].name
        ground.wait(lambda name=name: len(running_on(ground, name)) > 1, "has work", every=0.3)
        _kill_master(ground, nodes[which])
        ground.rest(ground.lease + MARGIN)
        nodes[which] = _start(ground, which, hosts[which]).wait_up()
    ground.drain()
    _expect_restarts(ground)


def _start(ground: Ground, number: int, host: str) -> TortureNode:
    # With room for all rescued jobs at once, so that none is late for lack of room.
    host_name = {"TXQUEUE_HOST": host}
    return ground.start_node(f"n{number + 1}", capacity=ROOM, listen=True, env=host_name)


def _kill_master(ground: Ground, node: TortureNode) -> None:
    with ground.fault("kill master", nodes=[node], still=True) as fault:
        workers = node.worker_pids()
        fault.pids = {node.kill_master(), *workers}
        began = time.monotonic()
        is_over = until(lambda: not any(map(is_alive, workers)), 10.0, 0.005)
        took = time.monotonic() - began
        fault.evidence = f"{node.pid} is gone, and its workers {workers}"
    ground.figure("orphans_ended_seconds", round(took, 3))
    ground.expect(is_over and took < ORPHANED, f"its workers end at once, not in {took:.1f} s")


def _expect_restarts(ground: Ground) -> None:
    taken = list(restarts(ground.history()))
    ground.figure("runs_cut_short", len(taken))
    ground.expect(taken, "some job was running as the master was killed")
    limit = ground.lease + MARGIN
    ground.expect(max(taken, default=0.0) < limit, f"all start again in {limit:g} s, not {taken}")


@scenario("master_kill_after_claim", "a master dies between a claim and the message to a worker")
def master_kill_after_claim(ground: Ground) -> None:
    """The jobs that it had claimed run elsewhere, once."""
    doomed = _start_doomed(ground, sabotage.AFTER_CLAIM)
    ground.start_client(rate=60, kinds=KINDS)
    _see_it_die(ground, doomed, "master dies after its claim")


@scenario("master_kill_before_delivery", "a master dies between a client's commit and the delivery")
def master_kill_before_delivery(ground: Ground) -> None:
    """A job that a client has assigned to it runs elsewhere, once; the client continues."""
    doomed = _start_doomed(ground, sabotage.BEFORE_DELIVERY)
    ground.start_client(rate=30, kinds=KINDS, node=doomed)
    _see_it_die(ground, doomed, "master dies before a delivery")


def _start_doomed(ground: Ground, moment: str) -> TortureNode:
    doomed = ground.start_node("n1", app=[SABOTAGE], env={sabotage.VARIABLE: moment})
    other = ground.start_node("n2")
    other.wait_up()
    return doomed.wait_up()


def _see_it_die(ground: Ground, node: TortureNode, kind: str) -> None:
    """Wait for its death, and expect one run elsewhere of the jobs that it held."""
    with ground.fault(kind, nodes=[node], snapshot=False) as fault:
        ground.wait(lambda: not node.is_running, "it dies at that moment", 60.0)
        died = time.monotonic()
        node.kill_master()
        held = _in_its_hands(ground) - started_on(ground, node.name)
        if held:
            fault.evidence = f"{node.name} died with {sorted(held)} in its hands, and not started"
    ground.rest(1.0)
    _expect_elsewhere(ground, node, held, died)


def _in_its_hands(ground: Ground) -> set[int]:
    lines = [line for line in lines_of(ground.folder) if line["what"] == sabotage.WHAT]
    return {job_id for line in lines for job_id in line["job_ids"]}


def _expect_elsewhere(ground: Ground, node: TortureNode, held: set[int], died: float) -> None:
    ground.wait(lambda: held <= ground.history().runs_by_job().keys(), "they start", every=0.3)
    ground.drain()
    runs = {job: its for job, its in ground.history().runs_by_job().items() if job in held}
    took = max((its[0].began - died for its in runs.values()), default=0.0)
    limit = ground.lease + MARGIN
    ground.figure("unstarted", len(held))
    ground.figure("started_elsewhere_seconds", round(took, 3))
    ground.expect(took < limit, f"they start within {limit:g} s, not in {took:.1f} s")
    once = all(len(its) == 1 and its[0].node != node.name for its in runs.values())
    ground.expect(once, f"each ran once, on another node: {runs}")

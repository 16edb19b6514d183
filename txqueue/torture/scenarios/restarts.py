"""Nodes that are restarted on purpose, and nodes with different applications."""

from __future__ import annotations

import signal
import time

from txqueue.torture.demands import no_duplicates, nothing_spent
from txqueue.torture.environment import Ground
from txqueue.torture.history import JobRun
from txqueue.torture.node import TortureNode
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED

__all__ = ["broken_application", "half_known_type", "rolling_restart", "stop_at_once"]

BROKEN = ("txqueue.torture.broken",)
RARE = ("txqueue.torture.rare",)
_STATE = "select state from {schema}.node_info where name = %s"
_TYPES = "select name, 'txqueue.torture.rare' = any (work_types) from {schema}.node_info order by 1"


@scenario("rolling_restart", "three nodes are restarted one after the other by SIGTERM under load")
def rolling_restart(ground: Ground) -> None:
    """Nothing is lost, nothing runs twice, no attempt is spent."""
    names = ("n1", "n2", "n3")
    nodes = {name: _start(ground, name) for name in names}
    for node in nodes.values():
        node.wait_up()
    ground.start_client(rate=30, kinds=(*MIXED, "slow:1", "slow:1", "slow:1"))
    slowest = 0.0
    for number in range(int(len(names) * ground.scale)):
        name = names[number % len(names)]
        ground.flow(30)
        slowest = max(slowest, _restart(ground, nodes[name]))
        nodes[name] = _start(ground, name).wait_up()
    ground.figure("slowest_stop_seconds", round(slowest, 2))
    ground.drain()
    _expect_unspent(ground)


def _start(ground: Ground, name: str) -> TortureNode:
    return ground.start_node(name, capacity=3, listen=True)


def _restart(ground: Ground, node: TortureNode) -> float:
    """Drain a node under load; return how long that took."""
    with ground.fault("restart", nodes=[node], snapshot=False) as fault:
        held = len(ground.database.held_by([node.name]))
        began = time.monotonic()
        node.stop()
        took = time.monotonic() - began
        fault.evidence = f"{node.name} with {held} jobs was stopped in {took:.1f} s"
    return took


def _expect_unspent(ground: Ground) -> None:
    no_duplicates(ground)
    nothing_spent(ground)
    history = ground.history()
    by_job = history.runs_by_job()
    spent = [job for job in history.jobs.values() if job.attempt != len(by_job[job.job_id])]
    ground.expect(not spent, f"only runs spend attempts, but {spent[:3]}")


@scenario("stop_at_once", "a second SIGTERM ends a node in the middle of its jobs")
def stop_at_once(ground: Ground) -> None:
    """It ends within seconds; interrupted jobs run again elsewhere and count no death."""
    node, other = ground.start_node("n1"), ground.start_node("n2")
    node.wait_up()
    other.wait_up()
    ground.start_client(rate=20, kinds=("slow:4", "effect:0.5", "noop", "noop"))
    ground.flow()
    with ground.fault("stop at once", nodes=[node], snapshot=False) as fault:
        node.signal(signal.SIGTERM)
        question = _STATE.format(schema=ground.schema)
        ground.wait(lambda: ground.database.value(question, (node.name,)) == "draining", "drains")
        began = time.monotonic()
        node.signal(signal.SIGTERM)
        node.stop()
        ground.figure("stop_seconds", round(time.monotonic() - began, 2))
        runs = ground.history().runs
        cut = [run for run in runs if run.node == node.name and run.ended is None]
        if cut:
            fault.evidence = f"{node.name} was stopped in the middle of {len(cut)} jobs"
    ground.drain()
    history = ground.history()
    marked = [job for job in history.jobs.values() if job.deaths or job.state != "done"]
    ground.expect(not marked, f"all are done and nothing has died, but {marked[:3]}")


@scenario("half_known_type", "a work type that half of the nodes have, and then none for a while")
def half_known_type(ground: Ground) -> None:
    """Its jobs run only on those nodes, and wait when no node has it; all others run."""
    knowing = ground.start_node("n1", app=RARE)
    other = ground.start_node("n2")
    knowing.wait_up()
    other.wait_up()
    ground.start_client(rate=30, kinds=("rare", "noop", "slow:0.1", "grouped:0.05"), app=RARE)
    with ground.fault("half known type", snapshot=False) as fault:
        knows = dict(ground.database.rows(_TYPES.format(schema=ground.schema)))
        ground.flow(int(60 * ground.scale))
        knowing.stop()
        since = time.monotonic()
        ground.flow()
        alone = [run for run in ground.history().runs if run.began > since]
        knowing = ground.start_node("n1", app=RARE).wait_up()
        if knows == {"n1": True, "n2": False} and alone:
            fault.evidence = f"who knows it: {knows}; {len(alone)} jobs ran while n1 was down"
    ground.rest(1.0)
    ground.drain()
    rare = _rare(ground)
    ground.figure("rare", len(rare))
    ground.figure("others_while_unknown", len(alone))
    ground.expect(rare and {run.node for run in rare} == {"n1"}, "it runs where it is known")
    done = {run.node for run in ground.history().runs}
    ground.expect(done == {"n1", "n2"}, f"both nodes work: {done}")
    waiting = [job for job in ground.history().jobs.values() if job.state != "done"]
    ground.expect(not waiting, f"all jobs are done in the end, but {waiting[:3]}")
    _expect_unspent(ground)


@scenario("broken_application", "one node's workers cannot import the application")
def broken_application(ground: Ground) -> None:
    """It claims nothing, the other node runs all jobs, and no attempt is spent."""
    broken = ground.start_node("n1", app=BROKEN, listen=True)
    ground.start_node("n2", listen=True).wait_up()
    ground.start_client(rate=30, kinds=(*MIXED, "slow:0.5"))
    with ground.fault("broken application", nodes=[broken], snapshot=False) as fault:
        ground.flow(int(100 * ground.scale))
        tried = broken.log.count("a worker could not start")
        if tried:
            fault.evidence = f"{tried} workers of {broken.name} could not start"
    ground.drain()
    ground.figure("workers_tried", tried)
    nodes = {run.node for run in ground.history().runs}
    ground.expect(nodes == {"n2"}, f"only the other node runs jobs: {nodes}")
    _expect_unspent(ground)


def _rare(ground: Ground) -> list[JobRun]:
    history = ground.history()
    intents = {each.intent for each in history.enqueues.values() if each.kind == "rare"}
    return [run for run in history.runs if run.intent in intents]

"""Nodes that are restarted on purpose, and nodes with different applications."""

from __future__ import annotations

import signal
import time

from txqueue.node.master_process import ONE_REQUEST
from txqueue_torture.demands import no_duplicates, nothing_spent
from txqueue_torture.environment import Testbed
from txqueue_torture.history import JobRun
from txqueue_torture.node import TortureNode
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED

__all__ = ["broken_application", "half_known_type", "rolling_restart", "stop_at_once"]

BROKEN = ("txqueue_torture.broken",)
RARE = ("txqueue_torture.rare",)
_STATE = "select state from {schema}.node_info where name = %s"
_TYPES = "select name, 'txqueue_torture.rare' = any (work_types) from {schema}.node_info order by 1"


@scenario("rolling_restart", "three nodes are restarted one after the other by SIGTERM under load")
def rolling_restart(testbed: Testbed) -> None:
    """Restart nodes one by one: no job is lost, runs twice or spends an attempt."""
    names = ("n1", "n2", "n3")
    nodes = {name: _start(testbed, name) for name in names}
    for node in nodes.values():
        node.wait_up()
    testbed.start_client(rate=30, kinds=(*MIXED, "slow:1", "slow:1", "slow:1"))
    slowest = 0.0
    for number in range(int(len(names) * testbed.scale)):
        name = names[number % len(names)]
        testbed.flow(30)
        slowest = max(slowest, _restart(testbed, nodes[name]))
        nodes[name] = _start(testbed, name).wait_up()
    testbed.figure("slowest_stop_seconds", round(slowest, 2))
    testbed.drain()
    _expect_unspent(testbed)


def _start(testbed: Testbed, name: str) -> TortureNode:
    return testbed.start_node(name, capacity=3, listen=True)


def _restart(testbed: Testbed, node: TortureNode) -> float:
    """Drain a node under load; return how long that took."""
    with testbed.fault("restart", nodes=[node], snapshot=False) as fault:
        jobs = len(testbed.database.held_by([node.name]))
        began = time.monotonic()
        node.stop()
        took = time.monotonic() - began
        fault.evidence = f"{node.name} with {jobs} jobs was stopped in {took:.1f} s"
    return took


def _expect_unspent(testbed: Testbed) -> None:
    no_duplicates(testbed)
    nothing_spent(testbed)
    history = testbed.history()
    by_job = history.runs_by_job()
    spent = [job for job in history.jobs.values() if job.attempt != len(by_job[job.job_id])]
    testbed.expect(not spent, f"only runs spend attempts, but {spent[:3]}")


@scenario("stop_at_once", "a second SIGTERM ends a node in the middle of its jobs")
def stop_at_once(testbed: Testbed) -> None:
    """Send a node SIGTERM twice: it ends within seconds, and its jobs run again elsewhere."""
    node, other = testbed.start_node("n1"), testbed.start_node("n2")
    node.wait_up()
    other.wait_up()
    testbed.start_client(rate=20, kinds=("slow:4", "effect:0.5", "noop", "noop"))
    testbed.flow()
    with testbed.fault("stop at once", nodes=[node], snapshot=False) as fault:
        node.signal(signal.SIGTERM)
        question = _STATE.format(schema=testbed.schema)
        testbed.wait(lambda: testbed.database.value(question, (node.name,)) == "draining", "drains")
        # Signals just after the first are the same request.
        time.sleep(2 * ONE_REQUEST)
        began = time.monotonic()
        node.signal(signal.SIGTERM)
        node.stop()
        testbed.figure("stop_seconds", round(time.monotonic() - began, 2))
        runs = testbed.history().runs
        cut = [run for run in runs if run.node == node.name and run.ended is None]
        if cut:
            fault.evidence = f"{node.name} was stopped in the middle of {len(cut)} jobs"
    testbed.drain()
    history = testbed.history()
    marked = [job for job in history.jobs.values() if job.deaths or job.state != "done"]
    testbed.expect(not marked, f"all are done and nothing has died, but {marked[:3]}")


@scenario("half_known_type", "a work type that half of the nodes have, and then none for a while")
def half_known_type(testbed: Testbed) -> None:
    """Run a type that one node has: its jobs run there, and wait without it; others run."""
    knowing = testbed.start_node("n1", app=RARE)
    other = testbed.start_node("n2")
    knowing.wait_up()
    other.wait_up()
    testbed.start_client(rate=30, kinds=("rare", "noop", "slow:0.1", "grouped:0.05"), app=RARE)
    with testbed.fault("half known type", snapshot=False) as fault:
        knows = dict(testbed.database.rows(_TYPES.format(schema=testbed.schema)))
        testbed.flow(int(60 * testbed.scale))
        knowing.stop()
        since = time.monotonic()
        testbed.flow()
        alone = [run for run in testbed.history().runs if run.began > since]
        knowing = testbed.start_node("n1", app=RARE).wait_up()
        if knows == {"n1": True, "n2": False} and alone:
            fault.evidence = (
                f"which nodes have it: {knows}; {len(alone)} jobs ran while n1 was down"
            )
    testbed.rest(1.0)
    testbed.drain()
    rare = _rare(testbed)
    testbed.figure("rare", len(rare))
    testbed.figure("others_while_unknown", len(alone))
    testbed.expect(rare and {run.node for run in rare} == {"n1"}, "it runs where it is known")
    done = {run.node for run in testbed.history().runs}
    testbed.expect(done == {"n1", "n2"}, f"both nodes work: {done}")
    testbed.expect_all_done()
    _expect_unspent(testbed)


@scenario("broken_application", "one node's workers cannot import the application")
def broken_application(testbed: Testbed) -> None:
    """Break one node's application: it claims no job, and the other node runs all of them."""
    broken = testbed.start_node("n1", app=BROKEN, listen=True)
    testbed.start_node("n2", listen=True).wait_up()
    testbed.start_client(rate=30, kinds=(*MIXED, "slow:0.5"))
    with testbed.fault("broken application", nodes=[broken], snapshot=False) as fault:
        testbed.flow(int(100 * testbed.scale))
        tried = broken.log.count("a worker could not start")
        if tried:
            fault.evidence = f"{tried} workers of {broken.name} could not start"
    testbed.drain()
    testbed.figure("workers_tried", tried)
    nodes = {run.node for run in testbed.history().runs}
    testbed.expect(nodes == {"n2"}, f"only the other node runs jobs: {nodes}")
    _expect_unspent(testbed)


def _rare(testbed: Testbed) -> list[JobRun]:
    history = testbed.history()
    intents = {enqueued.intent for enqueued in history.enqueues.values() if enqueued.kind == "rare"}
    return [run for run in history.runs if run.intent in intents]

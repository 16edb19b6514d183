"""Long jobs right after a storm of quick ones, by which nodes have measured the workers' pace."""

from __future__ import annotations

import time
from itertools import accumulate
from typing import Final

from txqueue_torture.environment import Testbed
from txqueue_torture.history import JobRun
from txqueue_torture.scenario import scenario

__all__ = ["long_after_storm"]

QUICK: Final = 1500
# More than three times the capacity: a worker that holds too many jobs would start some of them
# during the pause.
LONG: Final = 56
SECONDS: Final = 4.0
NODES, WORKERS, CAPACITY = 2, 2, 4
SLOTS: Final = NODES * WORKERS * CAPACITY
# Seconds for claims already under way, and a pause as long as the first long jobs run.
SETTLED, PAUSED_FOR = 2.0, 4.0


@scenario("long_after_storm", "a storm of quick jobs, then long ones, with a pause in between")
def long_after_storm(testbed: Testbed) -> None:
    """Enqueue long jobs after quick ones: all workers get some, and none starts during a pause."""
    testbed.start_client(rate=1000, kinds=["noop"], count=QUICK).wait()
    testbed.start_client(rate=1000, kinds=[f"slow:{SECONDS}"], count=LONG).wait()
    nodes = [
        testbed.start_node(f"n{number + 1}", workers=WORKERS, capacity=CAPACITY)
        for number in range(NODES)
    ]
    for node in nodes:
        node.wait_up()
    testbed.wait(lambda: len(_long(testbed)) >= SLOTS // 2, "long ones run", every=0.2)
    testbed.wait(lambda: len(_long(testbed)) >= SLOTS, "they fill all workers", SECONDS, 0.2)
    with testbed.fault("pause", snapshot=False) as fault:
        testbed.database.rows(f"select {testbed.schema}.pause('queue', 'default', 'torture')")
        testbed.rest(SETTLED)
        since = time.monotonic()
        testbed.rest(PAUSED_FOR)
        until = time.monotonic()
        testbed.database.rows(f"select {testbed.schema}.resume('queue', 'default', 'torture')")
        fault.evidence = f"the queue was paused for {until - since + SETTLED:.1f} s"
    testbed.drain()
    runs = _long(testbed)
    testbed.figure("at_once", _most_at_once(runs))
    testbed.expect(len({run.pid for run in runs}) == NODES * WORKERS, "every worker has some")
    late = [run for run in runs if since < run.began < until]
    testbed.expect(not late, f"nothing starts while the queue is paused, but {late[:3]}")


def _long(testbed: Testbed) -> list[JobRun]:
    intents = {
        enqueued.intent
        for enqueued in testbed.history().enqueues.values()
        if enqueued.kind.startswith("slow")
    }
    return [run for run in testbed.history().runs if run.intent in intents]


def _most_at_once(runs: list[JobRun]) -> int:
    """Return the largest number of runs that went on at the same time."""
    moments = [(run.began, 1) for run in runs]
    moments += [(run.ended, -1) for run in runs if run.ended is not None]
    return max(accumulate(step for _, step in sorted(moments)), default=0)

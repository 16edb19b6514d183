"""No fault at all: all promises hold, and no job runs twice."""

from __future__ import annotations

from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario

__all__ = ["MIXED", "calm"]

MIXED = ("noop", "slow", "grouped", "effect", "failing", "delayed", "heavy", "noop", "grouped")
"""Some jobs of every kind."""
JOBS = 100
KINDS = (*MIXED, "grouped:0.3", "grouped:0.3", "expiring:30")


@scenario("calm", "no fault: two nodes, clients with and without direct dispatch")
def calm(testbed: Testbed) -> None:
    """Enqueue jobs of all kinds, with and without direct dispatch, and let them run."""
    first, second = testbed.start_node("n1"), testbed.start_node("n2")
    first.wait_up()
    second.wait_up()
    kinds, count = (*KINDS, "rolled_back", "refused"), int(JOBS * testbed.scale)
    for road in (None, first):
        testbed.start_client(rate=20, kinds=kinds, count=count, node=road)
    for client in testbed.clients:
        client.wait(60.0 * testbed.scale)
    testbed.drain()
    history = testbed.history()
    enqueues = history.enqueues.values()
    testbed.expect(len(history.runs) > 50, "some jobs run")
    outcomes = {enqueued.outcome for enqueued in enqueues}
    testbed.expect(outcomes == {"acknowledged", "refused", "rolled back"}, f"outcomes {outcomes}")

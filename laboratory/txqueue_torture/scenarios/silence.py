"""Connections that are open but silent, and dropped notifications."""

from __future__ import annotations

import time

from txqueue_torture.demands import no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.node import until
from txqueue_torture.proxied import proxied
from txqueue_torture.scenario import scenario

__all__ = ["half_open", "wakeups_dropped"]

# Seconds after which a statement without an answer is given up, unless the lease is longer.
PATIENCE = 10.0
# An idle node polls once a second; a host that runs much else at once may delay that.
SLOW_POLL = 1.0
MARGIN = 4.0


@scenario(
    "half_open",
    "all connections of a node stay open but silent; new ones work after a while",
    needs=("unix socket",),
)
def half_open(testbed: Testbed) -> None:
    """Silence a node's connections: it gives up statements without an answer, and recovers."""
    proxy, dsn = proxied(testbed, "n1", speaks_postgres=False)
    node = testbed.start_node("n1", dsn=dsn).wait_up()
    testbed.start_client(rate=10, kinds=("noop", "slow:0.2", "grouped:0.1", "delayed"))
    testbed.flow(10)
    with testbed.fault("half open", nodes=[node]) as fault:
        proxy.swallow()
        testbed.rest(2 * testbed.scale)
        testbed.wait(lambda: proxy.counts["swallowed"], "something is swallowed")
        proxy.heal(forgets=True)
        fault.evidence = f"{proxy.counts['swallowed']} bytes swallowed"
    healed = time.monotonic()

    def works() -> bool:
        return any(run.began > healed for run in testbed.history().runs)

    within = PATIENCE + 5 * MARGIN
    testbed.expect(until(works, within), f"jobs start within {within:g} s of the swallowing")
    testbed.figure("back_after", round(time.monotonic() - healed, 1))
    testbed.drain()


@scenario(
    "wakeups_dropped", "every notification of the database is dropped", needs=("unix socket",)
)
def wakeups_dropped(testbed: Testbed) -> None:
    """Drop notifications: all jobs still start, within the interval at which idle nodes poll."""
    proxy, dsn = proxied(testbed, "n1")
    proxy.drops_notifications = True
    testbed.start_node("n1", dsn=dsn).wait_up()
    # The rate is so low that the node sleeps between jobs, and needs a notification for each.
    kinds = ("noop", "effect:0", "delayed", "grouped:0", "failing:1")
    with testbed.fault("wake-ups dropped") as fault:
        testbed.start_client(rate=1.5, kinds=kinds)
        testbed.rest(12 * testbed.scale)
        dropped = proxy.counts["notifications"]
        fault.evidence = f"{dropped} notifications dropped" if dropped else ""
    testbed.figure("dropped", dropped)
    testbed.drain()
    no_duplicates(testbed)
    waited = _waits(testbed)
    testbed.figure("longest_wait", round(max(waited), 3))
    testbed.expect(max(waited) < SLOW_POLL + MARGIN, f"waited {max(waited):.3f} s for a start")


def _waits(testbed: Testbed) -> list[float]:
    """Return how long each job that was due at once waited for its first start."""
    history = testbed.history()
    at_once = {
        intent: enqueued.mono
        for intent, enqueued in history.enqueues.items()
        if enqueued.not_before is None
    }
    firsts: dict[str, float] = {}
    for run in history.runs:
        firsts[run.intent] = min(run.began, firsts.get(run.intent, run.began))
    return [began - at_once[intent] for intent, began in firsts.items() if intent in at_once]

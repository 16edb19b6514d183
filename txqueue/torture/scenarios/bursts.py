"""Long jobs right after a storm of quick ones, which makes workers look quicker than they are."""

from __future__ import annotations

import time
from itertools import accumulate
from typing import Final

from txqueue.torture.environment import Ground
from txqueue.torture.history import JobRun
from txqueue.torture.scenario import scenario

__all__ = ["long_after_storm"]

QUICK: Final = 1500
# More than three times what can run: a worker that is handed too much starts some in the pause.
LONG: Final = 56
SECONDS: Final = 4.0
NODES, WORKERS, CAPACITY = 2, 2, 4
SLOTS: Final = NODES * WORKERS * CAPACITY
# What is on its way as a queue is paused, and the pause as long as the first of them run.
SETTLED, PAUSED_FOR = 2.0, 4.0


@scenario("long_after_storm", "a storm of quick jobs, then long ones, with a pause in between")
def long_after_storm(ground: Ground) -> None:
    """They spread over all workers, and nothing starts that was handed ahead of a pause."""
    ground.start_client(rate=1000, kinds=["noop"], count=QUICK).wait()
    ground.start_client(rate=1000, kinds=[f"slow:{SECONDS}"], count=LONG).wait()
    nodes = [
        ground.start_node(f"n{number + 1}", workers=WORKERS, capacity=CAPACITY)
        for number in range(NODES)
    ]
    for node in nodes:
        node.wait_up()
    ground.wait(lambda: len(_long(ground)) >= SLOTS // 2, "long ones run", every=0.2)
    ground.wait(lambda: len(_long(ground)) >= SLOTS, "they fill all workers", SECONDS, 0.2)
    with ground.fault("pause", snapshot=False) as fault:
        ground.database.rows(f"select {ground.schema}.pause('queue', 'default', 'torture')")
        ground.rest(SETTLED)
        since = time.monotonic()
        ground.rest(PAUSED_FOR)
        until = time.monotonic()
        ground.database.rows(f"select {ground.schema}.resume('queue', 'default', 'torture')")
        fault.evidence = f"the queue was paused for {until - since + SETTLED:.1f} s"
    ground.drain()
    runs = _long(ground)
    ground.figure("at_once", _most_at_once(runs))
    ground.expect(len({run.pid for run in runs}) == NODES * WORKERS, "every worker has some")
    late = [run for run in runs if since < run.began < until]
    ground.expect(not late, f"nothing starts while the queue is paused, but {late[:3]}")


def _long(ground: Ground) -> list[JobRun]:
    intents = {
        each.intent for each in ground.history().enqueues.values() if each.kind.startswith("slow")
    }
    return [run for run in ground.history().runs if run.intent in intents]


def _most_at_once(runs: list[JobRun]) -> int:
    """Return how many ran at a time at most."""
    moments = [(run.began, 1) for run in runs]
    moments += [(run.ended, -1) for run in runs if run.ended is not None]
    return max(accumulate(step for _, step in sorted(moments)), default=0)

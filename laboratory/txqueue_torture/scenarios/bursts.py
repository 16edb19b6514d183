"""Long jobs right after a storm of quick ones, by which nodes have measured the workers' pace."""

from __future__ import annotations

from itertools import accumulate
from typing import Final

from txqueue_torture.demands import ended_jobs
from txqueue_torture.environment import Testbed
from txqueue_torture.gated import open_gate
from txqueue_torture.history import JobRun
from txqueue_torture.scenario import scenario

__all__ = ["long_after_storm"]

GATED: Final = "txqueue_torture.gated"
QUICK: Final = 1500
NODES, WORKERS, CAPACITY = 2, 2, 4
SLOTS: Final = NODES * WORKERS * CAPACITY
# Twice the capacity: a worker that is taken for a quick one gets more than it can start.
LONG: Final = 2 * SLOTS
# How long a busy host may need for the storm, and for giving back what was claimed in advance.
STORM_WITHIN, GIVEN_BACK_WITHIN = 60.0, 20.0


@scenario("long_after_storm", "a storm of quick jobs, then long ones")
def long_after_storm(testbed: Testbed) -> None:
    """Enqueue long jobs after quick ones: all workers get some, and none gets more than it runs."""
    testbed.start_client(rate=1000, kinds=["noop"], count=QUICK).wait()
    # None ends until the scenario has looked, as nodes measure the pace anew at each end.
    testbed.start_client(rate=1000, kinds=["held:storm"], count=LONG, app=[GATED]).wait()
    nodes = [
        testbed.start_node(f"n{number + 1}", workers=WORKERS, capacity=CAPACITY, app=[GATED])
        for number in range(NODES)
    ]
    for node in nodes:
        node.wait_up()
    with testbed.fault("end of storm", snapshot=False) as fault:
        testbed.wait(lambda: ended_jobs(testbed) == QUICK, "the storm ends", STORM_WITHIN)
        fault.evidence = f"{QUICK} quick jobs were followed by {LONG} long ones"
    text = f"workers hold {SLOTS} jobs, and the queue has the others"
    testbed.wait(lambda: _assigned(testbed) == SLOTS, text, GIVEN_BACK_WITHIN)
    open_gate(testbed.folder, "storm")
    testbed.drain()
    runs = [run for run in testbed.history().runs if run.intent.startswith("c2-")]
    testbed.figure("at_once", _most_at_once(runs))
    testbed.expect(len({run.pid for run in runs}) == NODES * WORKERS, "every worker has some")


def _assigned(testbed: Testbed) -> int:
    """Return how many jobs the workers have, whether they have started them or not."""
    table = f"{testbed.schema}.job"
    return int(testbed.database.value(f"select count(*) from {table} where state = 'assigned'"))


def _most_at_once(runs: list[JobRun]) -> int:
    """Return the largest number of runs that went on at the same time."""
    moments = [(run.began, 1) for run in runs]
    moments += [(run.ended, -1) for run in runs if run.ended is not None]
    return max(accumulate(step for _, step in sorted(moments)), default=0)

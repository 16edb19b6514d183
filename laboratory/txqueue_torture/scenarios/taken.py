"""A stopped node that resumes after its jobs were rescued."""

from __future__ import annotations

from txqueue_torture.demands import started_on
from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario

__all__ = ["taken_over"]

JOBS = 8
LEASE = 2.0


@scenario("taken_over", "a stopped node resumes while another runs its former jobs")
def taken_over(testbed: Testbed) -> None:
    """Resume a stopped node after others took its jobs: its late reports change nothing."""
    testbed.lease = LEASE
    for number in range(int(testbed.scale)):
        _take_over(testbed, f"first{number}", f"second{number}")
    testbed.drain()


def _take_over(testbed: Testbed, first: str, second: str) -> None:
    holder = testbed.start_node(first).wait_up()
    testbed.start_client(rate=40, kinds=("slow:3", "effect:3", f"stumbling:{first}"), count=JOBS)
    testbed.wait(lambda: len(started_on(testbed, first)) == JOBS, "all jobs run")
    with testbed.fault("stop node", nodes=[holder], frozen=True, still=True) as fault:
        testbed.start_node(second).wait_up()
        testbed.wait(lambda: len(started_on(testbed, second)) == JOBS, "all run elsewhere", 60.0)
        taken = started_on(testbed, second)
        if taken <= started_on(testbed, first):
            fault.evidence = f"{second} ran {len(taken)} jobs of {first}, which stood still"
    testbed.figure("taken", len(taken))
    testbed.wait(lambda: not testbed.database.live_jobs(), "all is done", within=60.0)
    holder.stop()

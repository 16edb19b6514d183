"""A stopped node that resumes after its jobs were rescued."""

from __future__ import annotations

from txqueue.torture.demands import started_on
from txqueue.torture.environment import Ground
from txqueue.torture.scenario import scenario

__all__ = ["taken_over"]

JOBS = 8
LEASE = 2.0


@scenario("taken_over", "a stopped node resumes while another runs its former jobs")
def taken_over(ground: Ground) -> None:
    """Its late reports change nothing: the node that has the jobs now decides."""
    ground.lease = LEASE
    for number in range(int(ground.scale)):
        _take_over(ground, f"first{number}", f"second{number}")
    ground.drain()


def _take_over(ground: Ground, first: str, second: str) -> None:
    holder = ground.start_node(first).wait_up()
    ground.start_client(rate=40, kinds=("slow:3", "effect:3", f"stumbling:{first}"), count=JOBS)
    ground.wait(lambda: len(started_on(ground, first)) == JOBS, "all jobs run")
    with ground.fault("stop node", nodes=[holder], frozen=True, still=True) as fault:
        ground.start_node(second).wait_up()
        ground.wait(lambda: len(started_on(ground, second)) == JOBS, "all run elsewhere", 60.0)
        taken = started_on(ground, second)
        if taken <= started_on(ground, first):
            fault.evidence = f"{second} ran {len(taken)} jobs of {first}, which stood still"
    ground.figure("taken", len(taken))
    ground.wait(lambda: not ground.database.live_jobs(), "all is done", within=60.0)
    holder.stop()

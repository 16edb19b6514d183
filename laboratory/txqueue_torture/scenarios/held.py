"""A worker whose node's lease has expired must not start jobs, and must end jobs of groups."""

from __future__ import annotations

from collections.abc import Sequence

from txqueue_torture.environment import Testbed
from txqueue_torture.freezing import frozen
from txqueue_torture.scenario import scenario

__all__ = ["group_past_lease", "held_past_lease"]

LEASE = 2.0
CAPACITY = 4
# Quick jobs, so that the master sends many ahead; then enough to fill the worker; then jobs that
# wait in the worker.
HELD = (*["noop"] * 200, *["lingering:n1"] * CAPACITY, *["noop"] * 60)
GROUPED = (*["lingering_group:n1"], *["noop"] * 9)


@scenario("held_past_lease", "a master is stopped while jobs wait in its worker for room")
def held_past_lease(testbed: Testbed) -> None:
    """Stop a master: jobs that wait in its worker run elsewhere; the worker starts none of them."""
    waited = _stop_master(testbed, HELD, CAPACITY)
    testbed.figure("waited", waited)
    testbed.drain()


@scenario("group_past_lease", "a master is stopped while its worker runs a job of a group")
def group_past_lease(testbed: Testbed) -> None:
    """Stop a master: its worker cancels a group's job with the lease, before it runs elsewhere."""
    _stop_master(testbed, GROUPED, 1)
    testbed.drain()
    ends = [run.how for run in testbed.history().runs if run.group and run.node == "n1"]
    testbed.expect(ends == ["cancelled"], f"the worker ends the job itself, but {ends}")


def _stop_master(testbed: Testbed, backlog: Sequence[str], lingering: int) -> int:
    """Stop a master until all jobs are done elsewhere and its worker is idle.

    Returns:
        How many jobs waited in the worker.
    """
    testbed.lease = LEASE
    # The other node claims nothing until the master is stopped.
    testbed.start_node("n2").wait_up()
    testbed.database.rows(f"select {testbed.schema}.drain_node('n2', 'torture')")
    testbed.start_client(rate=400, kinds=backlog, count=len(backlog)).wait()
    node = testbed.start_node("n1", workers=1, capacity=CAPACITY).wait_up()
    testbed.wait(lambda: len(_lingering(testbed)) == lingering, "the worker is full")
    with testbed.fault("stop master", nodes=[node], frozen=True, snapshot=False) as fault:
        fault.pids = {node.pid}
        with frozen([node.pid]) as still:
            jobs = len(testbed.database.held_by(["n1"]))
            testbed.database.rows(f"select {testbed.schema}.undrain_node('n2', 'torture')")
            testbed.wait(lambda: not testbed.database.live_jobs(), "all is done elsewhere", 60.0)
            testbed.wait(lambda: not _lingering(testbed), "there is room in the worker")
            testbed.rest(0.5)
        if still and (jobs > lingering or lingering < CAPACITY):
            fault.evidence = f"{still} stood still and held {jobs} jobs, {lingering} of them begun"
    return jobs - lingering


def _lingering(testbed: Testbed) -> list[int]:
    return [run.job_id for run in testbed.history().runs if run.node == "n1" and run.how is None]

"""A worker whose node's lease has expired: jobs it must not start, and jobs it must end."""

from __future__ import annotations

from collections.abc import Sequence

from txqueue.torture.environment import Ground
from txqueue.torture.freezing import frozen
from txqueue.torture.scenario import scenario

__all__ = ["group_past_lease", "held_past_lease"]

LEASE = 2.0
CAPACITY = 4
# Quick jobs, so that many are sent ahead; then enough to fill the worker; then waiting ones.
HELD = (*["noop"] * 200, *["lingering:n1"] * CAPACITY, *["noop"] * 60)
GROUPED = (*["lingering_group:n1"], *["noop"] * 9)


@scenario("held_past_lease", "a master is stopped while jobs wait in its worker for room")
def held_past_lease(ground: Ground) -> None:
    """They run elsewhere; when there is room at last, the worker starts none of them."""
    waited = _stop_master(ground, HELD, CAPACITY)
    ground.figure("waited", waited)
    ground.drain()


@scenario("group_past_lease", "a master is stopped while its worker runs a job of a group")
def group_past_lease(ground: Ground) -> None:
    """The worker ends it with the lease, before it runs elsewhere."""
    _stop_master(ground, GROUPED, 1)
    ground.drain()
    ends = [run.how for run in ground.history().runs if run.group and run.node == "n1"]
    ground.expect(ends == ["cancelled"], f"the worker ends the job itself, but {ends}")


def _stop_master(ground: Ground, backlog: Sequence[str], lingering: int) -> int:
    """Stop the master until all jobs are done elsewhere and its worker is idle; return its waiting
    jobs.
    """
    ground.lease = LEASE
    # The other node claims nothing until the master is stopped.
    ground.start_node("n2").wait_up()
    ground.database.rows(f"select {ground.schema}.drain_node('n2', 'torture')")
    ground.start_client(rate=400, kinds=backlog, count=len(backlog)).wait()
    node = ground.start_node("n1", workers=1, capacity=CAPACITY).wait_up()
    ground.wait(lambda: len(_lingering(ground)) == lingering, "the worker is full")
    with ground.fault("stop master", nodes=[node], frozen=True, snapshot=False) as fault:
        fault.pids = {node.pid}
        with frozen([node.pid]) as still:
            held = len(ground.database.held_by(["n1"]))
            ground.database.rows(f"select {ground.schema}.undrain_node('n2', 'torture')")
            ground.wait(lambda: not ground.database.live_jobs(), "all is done elsewhere", 60.0)
            ground.wait(lambda: not _lingering(ground), "there is room in the worker")
            ground.rest(0.5)
        if still and (held > lingering or lingering < CAPACITY):
            fault.evidence = f"{still} stood still and held {held} jobs, {lingering} of them begun"
    return held - lingering


def _lingering(ground: Ground) -> list[int]:
    return [run.job_id for run in ground.history().runs if run.node == "n1" and run.how is None]

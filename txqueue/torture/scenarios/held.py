"""A worker whose node has lost its lease while jobs wait in it for room."""

from __future__ import annotations

from txqueue.torture.freezing import frozen
from txqueue.torture.ground import Ground
from txqueue.torture.scenario import scenario

__all__ = ["held_past_lease"]

LEASE = 2.0
CAPACITY = 4
# Quick ones, so that much is handed ahead; then as many as fill the worker; and those that wait.
BACKLOG = (
    *["noop"] * 200,
    "lingering_group:n1",
    *["lingering:n1"] * (CAPACITY - 1),
    *["noop"] * 60,
)


@scenario("held_past_lease", "a master is stopped while jobs wait in its worker for room")
def held_past_lease(ground: Ground) -> None:
    """They run elsewhere; when there is room at last, the worker starts none of them.

    The job of a group that it runs it ends itself, before that runs elsewhere.
    """
    ground.lease = LEASE
    # It takes nothing before there is something to take over.
    ground.start_node("n2").wait_up()
    ground.database.rows(f"select {ground.schema}.drain_node('n2', 'torture')")
    ground.start_client(rate=400, kinds=BACKLOG, count=len(BACKLOG)).wait()
    node = ground.start_node("n1", workers=1, capacity=CAPACITY).wait_up()
    ground.wait(lambda: len(_lingering(ground)) == CAPACITY, "the worker is full")
    with ground.fault("stop master", nodes=[node], frozen=True, snapshot=False) as fault:
        fault.pids = {node.pid}
        with frozen([node.pid]) as still:
            waiting = len(ground.database.held_by(["n1"])) - CAPACITY
            ground.database.rows(f"select {ground.schema}.undrain_node('n2', 'torture')")
            ground.wait(lambda: not ground.database.live_jobs(), "all is done elsewhere", 60.0)
            ground.wait(lambda: not _lingering(ground), "there is room in the worker")
            ground.rest(0.5)
        if still and waiting > 0:
            fault.evidence = f"{still} stood still, {waiting} jobs waited in its worker"
    ground.figure("waited", waiting)
    ground.drain()


def _lingering(ground: Ground) -> list[int]:
    return [run.job_id for run in ground.history().runs if run.node == "n1" and run.how is None]

"""Jobs that expire before their turn."""

from __future__ import annotations

from txqueue.torture.environment import Ground
from txqueue.torture.scenario import scenario

__all__ = ["expiry"]


@scenario("expiry", "jobs expire while their node is busy with others")
def expiry(ground: Ground) -> None:
    """Expired jobs are cancelled without starting; the others are done."""
    ground.start_node("n1", workers=1, capacity=1).wait_up()
    ground.start_client(rate=20, kinds=("slow:2", *["expiring:0.5"] * 5, "noop"), count=14).wait()
    ground.start_client(rate=20, kinds=("expiring:30", "noop"), count=4).wait()
    ground.drain()
    history = ground.history()
    started = {run.job_id for run in history.runs}
    cancelled = {job.job_id for job in history.jobs.values() if job.state == "cancelled"}
    ground.figure("expired", len(cancelled))
    ground.expect(cancelled, "some expire")
    ground.expect(not cancelled & started, "what expired has not started")
    ground.expect(len(history.jobs) == len(cancelled | started), "all others are done")

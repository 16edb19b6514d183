"""Jobs that expire before their turn."""

from __future__ import annotations

from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario

__all__ = ["expiry"]


@scenario("expiry", "jobs expire while their node is busy with others")
def expiry(testbed: Testbed) -> None:
    """Expired jobs are cancelled without starting; the others are done."""
    testbed.start_node("n1", workers=1, capacity=1).wait_up()
    testbed.start_client(rate=20, kinds=("slow:3",), count=1).wait()
    testbed.wait(lambda: testbed.history().runs, "the node is busy", every=0.1)
    testbed.start_client(rate=20, kinds=(*["expiring:0.5"] * 5, "noop"), count=12).wait()
    testbed.start_client(rate=20, kinds=("expiring:30", "noop"), count=4).wait()
    testbed.drain()
    history = testbed.history()
    started = {run.job_id for run in history.runs}
    cancelled = {job.job_id for job in history.jobs.values() if job.state == "cancelled"}
    testbed.figure("expired", len(cancelled))
    testbed.expect(cancelled, "some expire")
    testbed.expect(not cancelled & started, "what expired has not started")
    testbed.expect(len(history.jobs) == len(cancelled | started), "all others are done")

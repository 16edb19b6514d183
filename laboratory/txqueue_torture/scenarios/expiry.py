"""Jobs that expire before their turn."""

from __future__ import annotations

from txqueue_torture.environment import Testbed
from txqueue_torture.gated import open_gate
from txqueue_torture.scenario import scenario
from txqueue_torture.work import Expiring

__all__ = ["expiry"]

APP = ("txqueue_torture.gated",)
SHORT = 10
_EXPIRED = """select count(*) from {schema}.job
    where work_type = %s and not_after < clock_timestamp()"""


@scenario("expiry", "jobs expire while their node is busy with others")
def expiry(testbed: Testbed) -> None:
    """Expired jobs are cancelled without starting; the others are done."""
    testbed.start_node("n1", workers=1, capacity=1, app=APP).wait_up()
    testbed.start_client(rate=20, kinds=("held:busy",), count=1, app=APP).wait()
    testbed.wait(lambda: testbed.history().runs, "the node is busy", every=0.1)
    testbed.start_client(rate=20, kinds=(*["expiring:0.5"] * 5, "noop"), count=12).wait()
    testbed.start_client(rate=20, kinds=("expiring:30", "noop"), count=4).wait()
    testbed.wait(lambda: _expired(testbed) >= SHORT, "time passes")
    open_gate(testbed.folder, "busy")
    testbed.drain()
    history = testbed.history()
    started = {run.job_id for run in history.runs}
    cancelled = {job.job_id for job in history.jobs.values() if job.state == "cancelled"}
    testbed.figure("expired", len(cancelled))
    testbed.expect(len(cancelled) >= SHORT, f"{SHORT} expire, not {len(cancelled)}")
    testbed.expect(not cancelled & started, "what expired has not started")
    testbed.expect(len(history.jobs) == len(cancelled | started), "all others are done")


def _expired(testbed: Testbed) -> int:
    """Return how many jobs should not start any more."""
    question = _EXPIRED.format(schema=testbed.schema)
    return int(testbed.database.value(question, (Expiring.work_type,)))

"""A link to the database on which a long statement takes longer than any may."""

from __future__ import annotations

from typing import Final

from txqueue_torture.demands import no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.proxied import proxied
from txqueue_torture.scenario import scenario

__all__ = ["slow_link"]

APP: Final = ("txqueue_torture.handlers",)
# Bytes, and bytes a second: the result takes 20 s, twice as long as a statement may.
LENGTH, SPEED = 1_500_000, 75_000
# Seconds: that of one statement, and the margin for what has waited behind it.
WITHIN: Final = 15.0
OTHERS: Final = 30
_LONG = """select job_id, (select max(job_id) from {schema}.job) from {schema}.job
    where work_type = 'txqueue_torture.lengthy'"""
_DONE = "select count(*) from {schema}.job_done where job_id > %s"
_STATE = "select state::text from {schema}.job where job_id = %s"


@scenario("slow_link", "a long result over a link on which it takes longer than a statement may")
def slow_link(testbed: Testbed) -> None:
    """Slow the link of a node: other jobs are completed while a long result cannot be written."""
    proxy, dsn = proxied(testbed, "link", speaks_postgres=False)
    node = testbed.start_node("n1", dsn=dsn, app=APP).wait_up()
    testbed.start_client(rate=20, kinds=("noop", "slow:0.1"))
    testbed.flow()
    with testbed.fault("slow link", nodes=[node], snapshot=False) as fault:
        proxy.speed = SPEED
        testbed.start_client(rate=5, kinds=(f"lengthy:{LENGTH}",), count=1, app=APP).wait()
        testbed.wait(lambda: proxy.counts["slowed"] > SPEED, "the result is on its way")
        done, state, long_job, latest = (
            _DONE.format(schema=testbed.schema),
            _STATE.format(schema=testbed.schema),
            *testbed.database.rows(_LONG.format(schema=testbed.schema))[0],
        )
        testbed.wait(
            lambda: testbed.database.value(done, (latest,)) >= OTHERS,
            "other jobs are completed meanwhile",
            WITHIN,
        )
        if testbed.database.value(state, (long_job,)) == "assigned":
            fault.evidence = f"{proxy.counts['slowed']} bytes were slowed; the result was not there"
        proxy.speed = 0
    testbed.drain()
    no_duplicates(testbed)
    testbed.expect_all_done()

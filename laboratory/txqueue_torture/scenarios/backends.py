"""Kills PostgreSQL's processes: txqueue's backends, and the postmaster."""

from __future__ import annotations

from txqueue_torture.demands import ended_jobs, no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.node import until
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED
from txqueue_torture.server import Server, short_folder

__all__ = ["backend_killed", "postmaster_killed"]

ROUNDS = 6
# Excludes the connections of the scenario itself.
_TERMINATE = """
    select count(*), count(*) filter (where pg_terminate_backend(pid))
      from pg_stat_activity
     where application_name like 'txqueue%'
       and application_name not in ('txqueue torture', 'txqueue diary')"""


@scenario(
    "backend_killed", "all of txqueue's backends are terminated every second", own_server=True
)
def backend_killed(testbed: Testbed) -> None:
    """Terminate all backends every second: all processes reconnect, and no job runs twice."""
    # In a shared server there may be other installations' backends.
    testbed.use(testbed.enter(Server(testbed.enter(short_folder()) / "pg")).dsn)
    nodes = [testbed.start_node("n1"), testbed.start_node("n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=MIXED)
    testbed.start_client(rate=20, kinds=MIXED, node=nodes[0])
    testbed.flow(10)
    killed = 0
    for _ in range(int(ROUNDS * testbed.scale)):
        testbed.rest(1.0)
        with testbed.fault("terminate backends") as fault:
            backends, ended = testbed.database.rows(_TERMINATE)[0]
            killed += ended
            fault.evidence = f"terminated {ended} of {backends} backends" if ended else ""
    testbed.figure("backends", killed)
    testbed.drain()
    no_duplicates(testbed)


@scenario("postmaster_killed", "the server is killed and started again, twice", own_server=True)
def postmaster_killed(testbed: Testbed) -> None:
    """Kill PostgreSQL and start it with the same data: nodes continue, and no job runs twice."""
    server = testbed.enter(Server(testbed.enter(short_folder()) / "pg"))
    testbed.use(server.dsn)
    nodes = [testbed.start_node("n1"), testbed.start_node("n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=MIXED)
    testbed.start_client(rate=10, kinds=MIXED, node=nodes[0])
    testbed.flow(10)
    for _ in range(int(2 * testbed.scale)):
        testbed.rest(2.0)
        with testbed.fault("database down") as fault:
            fault.evidence = f"killed postmaster {server.kill()}"
            testbed.rest(1.0)
            server.start()
        _expect_progress(testbed)
    testbed.drain()
    no_duplicates(testbed)


def _expect_progress(testbed: Testbed) -> None:
    """Expect that nodes reconnect by themselves and complete jobs."""
    before = ended_jobs(testbed)
    goes_on = until(lambda: ended_jobs(testbed) > before, 10.0)
    testbed.expect(goes_on, "jobs are done within 10 s of the database's return")

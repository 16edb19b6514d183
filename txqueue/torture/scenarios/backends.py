"""Kills PostgreSQL's processes: txqueue's backends, and the postmaster."""

from __future__ import annotations

from txqueue.torture.demands import ended_jobs, no_duplicates
from txqueue.torture.environment import Ground
from txqueue.torture.node import until
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED
from txqueue.torture.server import Server, short_folder

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
def backend_killed(ground: Ground) -> None:
    """All processes reconnect, and nothing runs twice."""
    # In a shared server there may be other installations' backends.
    ground.use(ground.enter(Server(ground.enter(short_folder()) / "pg")).dsn)
    nodes = [ground.start_node("n1"), ground.start_node("n2")]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=20, kinds=MIXED)
    ground.start_client(rate=20, kinds=MIXED, node=nodes[0])
    ground.flow(10)
    killed = 0
    for _ in range(int(ROUNDS * ground.scale)):
        ground.rest(1.0)
        with ground.fault("terminate backends") as fault:
            found, ended = ground.database.rows(_TERMINATE)[0]
            killed += ended
            fault.evidence = f"terminated {ended} of {found} backends" if ended else ""
    ground.figure("backends", killed)
    ground.drain()
    no_duplicates(ground)


@scenario("postmaster_killed", "the server is killed and started again, twice", own_server=True)
def postmaster_killed(ground: Ground) -> None:
    """Kill the whole of PostgreSQL; it restarts with the same data, and work continues."""
    server = ground.enter(Server(ground.enter(short_folder()) / "pg"))
    ground.use(server.dsn)
    nodes = [ground.start_node("n1"), ground.start_node("n2")]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=20, kinds=MIXED)
    ground.start_client(rate=10, kinds=MIXED, node=nodes[0])
    ground.flow(10)
    for _ in range(int(2 * ground.scale)):
        ground.rest(2.0)
        with ground.fault("database down") as fault:
            fault.evidence = f"killed postmaster {server.kill()}"
            ground.rest(1.0)
            server.start()
        _expect_progress(ground)
    ground.drain()
    no_duplicates(ground)


def _expect_progress(ground: Ground) -> None:
    """Expect that nodes reconnect by themselves."""
    before = ended_jobs(ground)
    goes_on = until(lambda: ended_jobs(ground) > before, 10.0)
    ground.expect(goes_on, "jobs are done within 10 s of the database's return")

"""The primary fails and its standby is promoted; the DSN names both."""

from __future__ import annotations

from txqueue_torture.demands import ended_jobs, no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.node import until
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED
from txqueue_torture.server import Server, dsn_of, rejoin, short_folder, standby_of, synchronise

__all__ = ["failover", "switchover"]

# Seconds from the promotion until jobs must be done.
GOES_ON_WITHIN = 15.0
_READ_ONLY = (
    "alter system set default_transaction_read_only = on",
    "select pg_reload_conf()",
)
_PROMOTE = "select pg_promote()"


@scenario("failover", "primary killed, its synchronous standby promoted", own_server=True)
def failover(testbed: Testbed) -> None:
    """Kill the primary, promote the standby: acknowledged jobs are kept, and nodes switch over."""
    primary, standby = _pair(testbed)
    testbed.flow(10)
    with testbed.fault("database down") as fault:
        fault.evidence = f"killed primary {primary.kill()}, promoted {standby.postmaster}"
        testbed.rest(1.0)
        _promoted(testbed, standby)
    _expect_progress(testbed)
    # The former primary becomes a standby: no process may stay connected to it.
    rejoin(primary, standby)
    testbed.rest(2.0)
    testbed.drain()
    no_duplicates(testbed)


@scenario(
    "switchover",
    "primary made read-only while nodes are connected, standby promoted",
    own_server=True,
)
def switchover(testbed: Testbed) -> None:
    """Make the primary read-only, promote the standby: nodes detect it and switch over."""
    primary, standby = _pair(testbed)
    testbed.flow(10)
    with testbed.fault("database read-only") as fault:
        with primary.session() as session:
            for statement in _READ_ONLY:
                session.rows(statement)
            testbed.rest(1.0)
            fault.evidence = f"read only: {session.value('show default_transaction_read_only')}"
        _promoted(testbed, standby)
    _expect_progress(testbed)
    testbed.drain()
    no_duplicates(testbed)


def _pair(testbed: Testbed) -> tuple[Server, Server]:
    """Start a primary with a synchronous standby, two nodes, and a client, whose DSNs name both."""
    folder = testbed.enter(short_folder())
    primary = testbed.enter(Server(folder / "a"))
    standby = testbed.enter(standby_of(primary, folder / "b"))
    synchronise(primary)
    testbed.use(dsn_of(primary.address, standby.address, attributes="read-write"))
    nodes = [testbed.start_node("n1"), testbed.start_node("n2")]
    for node in nodes:
        node.wait_up()
    testbed.start_client(rate=20, kinds=MIXED)
    testbed.start_client(rate=10, kinds=MIXED, node=nodes[0])
    return primary, standby


def _promoted(testbed: Testbed, standby: Server) -> None:
    with standby.session() as session:
        session.rows(_PROMOTE)
    # A process that only reads would not detect a read-only server.
    testbed.database.close()


def _expect_progress(testbed: Testbed) -> None:
    before = ended_jobs(testbed)
    goes_on = until(lambda: ended_jobs(testbed) > before + 5, GOES_ON_WITHIN)
    testbed.expect(goes_on, f"jobs are done within {GOES_ON_WITHIN:g} s of the promotion")

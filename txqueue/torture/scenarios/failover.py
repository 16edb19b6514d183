"""The primary fails and its standby is promoted; the DSN names both."""

from __future__ import annotations

from txqueue.torture.demands import ended_jobs, no_duplicates
from txqueue.torture.environment import Ground
from txqueue.torture.node import until
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED
from txqueue.torture.server import Server, dsn_of, rejoin, short_folder, standby_of, synchronise

__all__ = ["failover", "switchover"]

# Seconds from the promotion until jobs must be done.
GOES_ON_WITHIN = 15.0
_READ_ONLY = (
    "alter system set default_transaction_read_only = on",
    "select pg_reload_conf()",
)
_PROMOTE = "select pg_promote()"


@scenario("failover", "primary killed, its synchronous standby promoted", own_server=True)
def failover(ground: Ground) -> None:
    """Acknowledged jobs are kept, and nodes switch over by themselves."""
    primary, standby = _pair(ground)
    ground.flow(10)
    with ground.fault("database down") as fault:
        fault.evidence = f"killed primary {primary.kill()}, promoted {standby.postmaster}"
        ground.rest(1.0)
        _promoted(ground, standby)
    _expect_progress(ground)
    # The former primary returns as a standby: no process may stay connected to it.
    rejoin(primary, standby)
    ground.rest(2.0)
    ground.drain()
    no_duplicates(ground)


@scenario(
    "switchover",
    "primary made read-only while nodes are connected, standby promoted",
    own_server=True,
)
def switchover(ground: Ground) -> None:
    """No connection is closed: nodes that find the server read-only try the other."""
    primary, standby = _pair(ground)
    ground.flow(10)
    with ground.fault("database read-only") as fault:
        with primary.session() as session:
            for statement in _READ_ONLY:
                session.rows(statement)
            ground.rest(1.0)
            fault.evidence = f"read only: {session.value('show default_transaction_read_only')}"
        _promoted(ground, standby)
    _expect_progress(ground)
    ground.drain()
    no_duplicates(ground)


def _pair(ground: Ground) -> tuple[Server, Server]:
    """Start a primary with a synchronous standby, two nodes, and a client, whose DSNs name both."""
    folder = ground.enter(short_folder())
    primary = ground.enter(Server(folder / "a"))
    standby = ground.enter(standby_of(primary, folder / "b"))
    synchronise(primary)
    ground.use(dsn_of(primary.address, standby.address, attributes="read-write"))
    nodes = [ground.start_node("n1"), ground.start_node("n2")]
    for node in nodes:
        node.wait_up()
    ground.start_client(rate=20, kinds=MIXED)
    ground.start_client(rate=10, kinds=MIXED, node=nodes[0])
    return primary, standby


def _promoted(ground: Ground, standby: Server) -> None:
    with standby.session() as session:
        session.rows(_PROMOTE)
    # A process that only reads would not notice.
    ground.database.close()


def _expect_progress(ground: Ground) -> None:
    before = ended_jobs(ground)
    goes_on = until(lambda: ended_jobs(ground) > before + 5, GOES_ON_WITHIN)
    ground.expect(goes_on, f"jobs are done within {GOES_ON_WITHIN:g} s of the promotion")

"""PgBouncer in transaction mode between all processes and the database."""

from __future__ import annotations

from txqueue_torture.demands import no_duplicates
from txqueue_torture.environment import Testbed
from txqueue_torture.scenario import scenario
from txqueue_torture.scenarios.calm import MIXED
from txqueue_torture.server import Server, dsn_of, pgbouncer, short_folder

__all__ = ["pgbouncer_transactions"]

_DEAF = "pooler in transaction mode"


@scenario(
    "pgbouncer",
    "all processes connect through PgBouncer in transaction mode",
    needs=("pgbouncer",),
    own_server=True,
)
def pgbouncer_transactions(testbed: Testbed) -> None:
    """Connect through PgBouncer: nodes log that they receive no notifications, and still work."""
    folder = testbed.enter(short_folder())
    server = testbed.enter(Server(folder / "pg"))
    testbed.use(server.dsn)
    pooler = testbed.enter(pgbouncer(server, folder / "pb", "transaction"))
    dsn = dsn_of(pooler)
    nodes = [testbed.start_node(name, dsn=dsn) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
        testbed.wait(
            lambda node=node: _DEAF in node.log,
            f"{node.name} logs that it receives no notifications",
        )
    testbed.start_client(rate=20, kinds=(*MIXED, "rolled_back", "refused"), dsn=dsn)
    testbed.start_client(rate=10, kinds=MIXED, dsn=dsn, node=nodes[0])
    testbed.flow(10)
    with testbed.fault("connections shared") as fault:
        testbed.rest(5 * testbed.scale)
        backends = testbed.database.value(
            "select count(*) from pg_stat_activity where application_name like 'txqueue%'"
            " and application_name not in ('txqueue torture', 'txqueue diary')"
        )
        fault.evidence = f"{backends} backends for 2 nodes and 2 clients"
    testbed.figure("backends", backends)
    testbed.drain()
    no_duplicates(testbed)

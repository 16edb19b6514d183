"""PgBouncer in transaction mode between all processes and the database."""

from __future__ import annotations

from txqueue.torture.demands import no_duplicates
from txqueue.torture.environment import Ground
from txqueue.torture.scenario import scenario
from txqueue.torture.scenarios.calm import MIXED
from txqueue.torture.server import Server, dsn_of, pgbouncer, short_folder

__all__ = ["pgbouncer_transactions"]

_DEAF = "pooler in transaction mode"


@scenario(
    "pgbouncer",
    "all processes connect through PgBouncer in transaction mode",
    needs=("pgbouncer",),
    own_server=True,
)
def pgbouncer_transactions(ground: Ground) -> None:
    """Nodes log at the start that they receive no notifications, and work nevertheless."""
    folder = ground.enter(short_folder())
    server = ground.enter(Server(folder / "pg"))
    ground.use(server.dsn)
    pooler = ground.enter(pgbouncer(server, folder / "pb", "transaction"))
    dsn = dsn_of(pooler)
    nodes = [ground.start_node(name, dsn=dsn) for name in ("n1", "n2")]
    for node in nodes:
        node.wait_up()
        ground.wait(
            lambda node=node: _DEAF in node.log,
            f"{node.name} logs that it receives no notifications",
        )
    ground.start_client(rate=20, kinds=(*MIXED, "rolled_back", "refused"), dsn=dsn)
    ground.start_client(rate=10, kinds=MIXED, dsn=dsn, node=nodes[0])
    ground.flow(10)
    with ground.fault("connections shared") as fault:
        ground.rest(5 * ground.scale)
        backends = ground.database.value(
            "select count(*) from pg_stat_activity where application_name like 'txqueue%'"
            " and application_name not in ('txqueue torture', 'txqueue diary')"
        )
        fault.evidence = f"{backends} backends for 2 nodes and 2 clients"
    ground.figure("backends", backends)
    ground.drain()
    no_duplicates(ground)

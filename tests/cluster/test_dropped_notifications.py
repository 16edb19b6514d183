"""Many clients commit at a time, and no notification of the database arrives."""

import pytest
from twisted.internet.threads import deferToThread

from tests.cluster.app import Noop
from tests.cluster.clients import enqueue_together
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.waiting import eventually
from txqueue_torture.proxy import Address, Proxy
from txqueue_torture.server import short_folder
from txqueue_torture.sockets import redirected, socket_of

CLIENTS = 16
# An idle node looks within four seconds; a host that runs much else may delay that. Without that,
# heartbeats would find jobs, fifteen seconds apart.
POLL, MARGIN = 4.0, 8.0
LONGEST = "select extract(epoch from max(assigned_at - enqueued_at))::float8 from txqueue.job_done"


@pytest.mark.parametrize("number", [1, 2], ids=["one node", "two nodes"])
async def test_each_job_is_found_by_the_next_poll(number: int, nodes: Nodes, db: Database) -> None:
    """Also those whose transactions left the notification to one that was rolled back."""
    real = socket_of(db.dsn)
    assert real is not None
    with short_folder() as folder, Proxy(Address(real), Address(folder / real.name)) as proxy:
        proxy.drops_notifications = True
        dsn = redirected(db.dsn, folder / real.name)
        for node in [nodes.start("--workers", "1", TXQUEUE_DSN=dsn) for _ in range(number)]:
            await node.up()
        await eventually(lambda: db.value("select txqueue.has_sleeping_master()") is True, PATIENCE)
        jobs = await deferToThread(enqueue_together, db.dsn, Noop.work_type, CLIENTS)
        await eventually(lambda: db.states() == {"done": jobs}, PATIENCE)
        assert proxy.counts["notifications"] > 0
        assert db.value(LONGEST) < POLL + MARGIN
        nodes.stop()

"""Many clients commit at a time, and no notification of the database arrives."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg2
import pytest
from twisted.internet.threads import deferToThread

from tests.cluster.app import Noop
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.waiting import eventually
from txqueue.store.driver.conninfo import redirected, socket_of
from txqueue_torture.proxy import Address, Proxy
from txqueue_torture.server import short_folder

CLIENTS, EACH = 16, 40
# An idle node looks within four seconds; a host that runs much else may delay that. Without that,
# heartbeats would find jobs, fifteen seconds apart.
POLL, MARGIN = 4.0, 8.0
LONGEST = "select extract(epoch from max(assigned_at - enqueued_at))::float8 from txqueue.job_done"


def enqueue(dsn: str, *, commits: bool) -> int:
    """Enqueue jobs in transactions of their own; return how many are committed."""
    with closing(psycopg2.connect(dsn)) as session, session.cursor() as cursor:
        for _ in range(EACH):
            cursor.execute("select txqueue.enqueue(%s, '{}')", (Noop.work_type,))
            (session.commit if commits else session.rollback)()
    return EACH if commits else 0


def enqueue_together(dsn: str) -> int:
    """Enqueue in many sessions at a time, of which every fourth rolls back; return how many."""
    with ThreadPoolExecutor(CLIENTS) as threads:
        return sum(threads.map(lambda number: enqueue(dsn, commits=number % 4 > 0), range(CLIENTS)))


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
        jobs = await deferToThread(enqueue_together, db.dsn)
        await eventually(lambda: db.states() == {"done": jobs}, PATIENCE)
        assert proxy.counts["notifications"] > 0
        assert db.value(LONGEST) < POLL + MARGIN
        nodes.stop()

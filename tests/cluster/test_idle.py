"""A node without jobs sends few statements, and still finds what no notification told it of."""

from pathlib import Path

import psycopg2
import pytest
from psycopg2.extensions import parse_dsn

from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.fixtures.servers import Servers
from tests.waiting import eventually

WAITS = """
    with put as (
        insert into txqueue.job (job_id, rank, not_before, enqueued_at, weight, priority, lane,
            state, waiting_for, work_type, queue, options, payload)
        select nextval('txqueue.job_id'), now(), until, now(), 1, 4, 0, 'waiting',
            case kind when 'sleep' then 'time' else kind end, 'tests.cluster.app.Noop', 'default',
            '{"steps": true}', '{}'
          from (values ('signal', now()), ('sleep', now() + interval '9 h')) as each (kind, until),
               generate_series(1, 1000)
        returning job_id, waiting_for, not_before)
    insert into txqueue.job_step (job_id, name, kind, signal, until)
    select job_id, 'a', 'sleep', null, not_before from put where waiting_for = 'time'
    union all select job_id, 'a', 'signal', 'go', null from put where waiting_for = 'signal'"""
BEAT, CLAIM, PROBE = "txqueue.heartbeat(", "next_job(", "probe_run("


class Statements:
    """The statements that the server has logged for one database, but those of the test.

    Args:
        db: The database.
        log: The server's log.
    """

    def __init__(self, db: Database, log: Path) -> None:
        self._log = log
        self._from = log.stat().st_size
        name = parse_dsn(db.dsn)["dbname"]
        db.execute(f"alter database \"{name}\" set log_statement = 'all'")

    def lines(self) -> list[str]:
        """Return the statements since the last call of `forget`."""
        with self._log.open("rb") as log:
            log.seek(self._from)
            text = log.read().decode(errors="replace")
        return [line for line in text.splitlines() if "LOG:  statement: " in line]

    def count(self, part: str = "") -> int:
        """Return how many statements have a part."""
        return sum(part in line for line in self.lines())

    def forget(self) -> None:
        """Begin to count anew."""
        self._from = self._log.stat().st_size


@pytest.fixture
def statements(db: Database, servers: Servers, dsn18: str) -> Statements:
    """What nodes send to the database that connect from now on."""
    return Statements(db, servers.folder / "pg18" / "postgres.log")


async def test_an_idle_node_sends_few_statements(
    nodes: Nodes, db: Database, statements: Statements
) -> None:
    """At most twice as many as heartbeats, which is 0.8 a second with the usual lease, also while
    jobs wait at their steps; yet a job whose notification was not sent starts with the next
    heartbeat, and one that is due later in time.
    """
    db.execute(WAITS)
    await nodes.start("--workers", "1", TXQUEUE_LEASE="10").up()
    # Until then its polls grow rarer.
    await eventually(lambda: statements.count(PROBE) and statements.count(BEAT) >= 6, PATIENCE)
    statements.forget()
    await eventually(lambda: statements.count(BEAT) >= 6, PATIENCE)
    assert statements.count() <= 2 * statements.count(BEAT) + 1, statements.lines()
    assert not statements.count("assignments_of") + statements.count("direct_jobs")

    statements.forget()
    with psycopg2.connect(db.dsn, options="-c log_statement=none -c lock_timeout=500") as quiet:
        # Such a session may send no notification.
        quiet.cursor().execute("select txqueue.enqueue('tests.cluster.app.Noop', '{}')")
    quiet.close()
    await eventually(lambda: db.states().get("done"), PATIENCE)
    assert statements.count(BEAT) <= 2, statements.lines()

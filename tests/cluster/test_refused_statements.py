"""A real node whose statements or connections the database refuses while it runs."""

from collections.abc import Iterator
from uuid import uuid4

import pytest
from psycopg2.extensions import make_dsn

from tests.cluster.app import Noop
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.peers import free_port
from tests.cluster.test_health import probed
from tests.fixtures.databases import execute_apart
from tests.waiting import eventually
from txqueue import WorkQueue


@pytest.fixture
def role(db: Database, dsn18: str) -> Iterator[str]:
    """A login with the rights of nodes, and those on the tables of the application."""
    name = f"node_{uuid4().hex[:12]}"
    execute_apart(dsn18, "create role {} login password 'right' in role txqueue_worker", name)
    db.execute(f"grant all on all tables in schema public to {name}")
    try:
        yield name
    finally:
        db.execute(f"drop owned by {name}")
        execute_apart(dsn18, "drop role {}", name)


def on_function(db: Database, name: str) -> str:
    """The right to call a function."""
    return f"execute on function {db.value('select %s::regproc::regprocedure::text', name)}"


async def test_a_right_that_is_revoked_and_granted_again(
    role: str, db: Database, nodes: Nodes, queue: WorkQueue
) -> None:
    """Probes say which one is missing; the jobs wait, and run once, all without a restart."""
    port = free_port()
    settings = {"TXQUEUE_DSN": make_dsn(db.dsn, user=role, password="right"), "TXQUEUE_LEASE": "4"}
    node = await nodes.start("--health", f"tcp:{port}", "--workers", "1", **settings).up()

    async def is_said(said: str) -> None:
        await eventually(lambda: probed(port, "/readyz")[1].startswith(said), PATIENCE)

    async def is_reported(said: str | None) -> None:
        await eventually(
            lambda: (node.info["report"]["refused"] or {}).get("said") == said, PATIENCE
        )

    for name in ("next_job", "complete", "heartbeat"):
        await is_said("ready")
        right = on_function(db, f"txqueue.{name}")
        db.execute(f"revoke {right} from txqueue_worker")
        jobs = await queue.enqueue_many([Noop()] * 20)
        denied = f"permission denied for function {name}"
        await is_said(f"the database refuses statements: {denied}")
        assert probed(port, "/livez") == (200, "live")
        if name != "heartbeat":
            await is_reported(denied)
        db.execute(f"grant {right} to txqueue_worker")
        for job in jobs:
            await queue.wait(job, PATIENCE)
    await is_said("ready")
    await is_reported(None)
    assert db.value("select max(attempt) from txqueue.job where state = 'done'") == 1
    assert db.states() == {"done": 60}


async def test_connections_that_the_server_refuses(
    role: str, db: Database, nodes: Nodes, dsn18: str
) -> None:
    """Probes say what the server said; the node is ready again by itself."""
    port = free_port()
    settings = {"TXQUEUE_DSN": make_dsn(db.dsn, user=role, password="right"), "TXQUEUE_LEASE": "4"}
    await nodes.start("--health", f"tcp:{port}", "--workers", "1", **settings).up()

    async def is_said(said: str) -> None:
        await eventually(lambda: said in probed(port, "/readyz")[1], PATIENCE)

    for refusing, allowing, said in (
        ("nologin", "login", "is not permitted to log in"),
        ("connection limit 0", "connection limit -1", "too many connections for role"),
    ):
        await is_said("ready")
        execute_apart(dsn18, f"alter role {{}} {refusing}", role)
        ending = "select pg_terminate_backend(pid) from pg_stat_activity where usename = %s"
        db.execute(ending, role)
        await is_said(said)
        assert probed(port, "/readyz")[1].startswith("the database refuses the connection: ")
        execute_apart(dsn18, f"alter role {{}} {allowing}", role)
    await is_said("ready")

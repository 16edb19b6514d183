"""One `twistd txqueue` that serves two databases: each has a node and workers of its own."""

import json
from collections.abc import Iterator

import pytest

from tests.cluster.app import Noted
from tests.cluster.conftest import connected, opened_database
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes
from tests.cluster.test_acting import called
from tests.fixtures.databases import Templates
from tests.waiting import eventually
from txqueue import WorkQueue


@pytest.fixture
def second(dsn18: str, templates: Templates) -> Iterator[Database]:
    """Another database."""
    with opened_database(dsn18, templates) as database:
        yield database


@pytest.fixture
def other_queue(second: Database) -> Iterator[WorkQueue]:
    """A queue on it."""
    with connected(second.dsn) as queue:
        yield queue


async def done(database: Database, jobs: int) -> None:
    """Wait until a number of jobs are done."""
    await eventually(lambda: database.states() == {"done": jobs}, PATIENCE)


@pytest.mark.parametrize("by", ["options", "variable"])
async def test_two_databases_are_served_at_once(  # noqa: PLR0917 - fixtures, all of them
    nodes: Nodes,
    db: Database,
    second: Database,
    queue: WorkQueue,
    other_queue: WorkQueue,
    by: str,
) -> None:
    """Jobs of each run in its own workers, and their diaries are written in their own database."""
    options: tuple[str, ...] = ()
    settings = {"TXQUEUE_DSN": f"{db.dsn}\n{second.dsn}"}
    if by == "options":
        options, settings = ("--dsn", db.dsn, "--dsn", second.dsn), {}
    node = nodes.start("--workers", "1", *options, name="both", **settings)
    await node.up(2)
    for each in (queue, other_queue):
        await each.enqueue_many([Noted()] * 50)
    await done(db, 50)
    await done(second, 50)
    for database, name in ((db, "both"), (second, "both-2")):
        (row,) = database.rows("select name, state, capacity from txqueue.node_info")
        assert row == {"name": name, "state": "alive", "capacity": 100}
        assert set(database.runs().values()) == {1}
        endpoint = {"TXQUEUE_NODE": f"unix:{node.folder / name}.sock"}
        (found,) = json.loads(called("nodes", "--json", settings=endpoint).stdout)["nodes"]
        assert found["name"] == name


async def test_a_database_that_goes_away_leaves_the_other_alone(
    nodes: Nodes, db: Database, second: Database, queue: WorkQueue, other_queue: WorkQueue
) -> None:
    """Its node keeps retrying; a stop drains both."""
    both = {"TXQUEUE_DSN": f"{db.dsn}\n{second.dsn}"}
    node = await nodes.start("--workers", "1", name="both", **both).up(2)
    name = second.value("select current_database() as name")
    db.execute(f'alter database "{name}" with allow_connections false')
    ended = "select count(pg_terminate_backend(pid)) from pg_stat_activity where datname = %s"
    db.value(f"{ended} and application_name ~ 'txqueue'", name)
    await queue.enqueue_many([Noted()] * 20)
    await done(db, 20)
    db.execute(f'alter database "{name}" with allow_connections true')
    await other_queue.enqueue_many([Noted()] * 20)
    await done(second, 20)
    node.stop()
    for database in (db, second):
        assert database.value("select state from txqueue.node_info") == "stopped"


async def test_a_missing_schema_is_reported_at_once(
    nodes: Nodes, db: Database, database18: str
) -> None:
    """Nothing starts: half a service would look like a whole one."""
    node = nodes.start("--dsn", db.dsn, "--dsn", database18, name="both")
    assert node.ended() != 0
    assert "run: txqueue migrate" in node.log
    assert db.rows("select * from txqueue.node_info") == []

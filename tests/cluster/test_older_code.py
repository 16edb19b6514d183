"""Nodes and applications of a release on the schema of the next one."""

from tests.cluster.app import Noop, Noted, Snoozes
from tests.cluster.database import Database
from tests.cluster.nodes import Nodes
from txqueue import WorkQueue
from txqueue.store.schema.files import latest_version

LIMIT = 60.0
# What a step that serves older code may do: new columns, tables, indexes and functions. Each is a
# transaction of its own, as a deadlock with a running node would only be tried again.
NEXT = (
    "alter table txqueue.job add column newer text not null default 'new'",
    "alter table txqueue.node_info add column newer integer",
    "alter table txqueue.setting add column newer jsonb not null default '{}'",
    "create table txqueue.newer (id integer primary key)",
    "create index on txqueue.job_ready (attempt)",
)
NOTED = "insert into txqueue.migration (number, name, serves) values (%s, 'newer', %s)"


def _upgrade(db: Database, serves: int) -> None:
    for statement in NEXT:
        db.execute(statement)
    db.execute(NOTED, latest_version() + 1, serves)


async def test_older_nodes_work_on_a_schema_that_serves_them(
    nodes: Nodes, db: Database, queue: WorkQueue
) -> None:
    """Running nodes continue, and others start: jobs are enqueued, passed on, done and kept."""
    first = await nodes.start("--workers", "1").up(1)
    before = await queue.enqueue(Noop())
    await queue.wait(before, LIMIT)
    _upgrade(db, serves=latest_version())
    during = [await queue.enqueue(Noop(n)) for n in range(5)]
    for job_id in during:
        await queue.wait(job_id, LIMIT)
    first.stop()
    await nodes.start("--workers", "1").up(1)
    later = [await queue.enqueue(work) for work in (Noop(), Noted(0.1), Snoozes())]
    for job_id in later:
        await queue.wait(job_id, LIMIT)
    assert db.states() == {"done": 9}


async def test_an_older_node_refuses_a_schema_that_does_not_serve_it(
    nodes: Nodes, db: Database
) -> None:
    """With one line that says what to do."""
    _upgrade(db, serves=latest_version() + 1)
    node = nodes.start("--workers", "1")
    assert node.ended() != 0
    assert "install the newer txqueue" in node.log

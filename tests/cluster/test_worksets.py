"""Worksets: large sets that a few jobs work through, each item at least once and counted once."""

from collections.abc import Iterator

import pytest
import pytest_twisted

from tests.cluster.app_of_worksets import TABLES, Counted, Deadly, Reindex, Single, Together
from tests.cluster.conftest import cluster
from tests.cluster.database import Database
from tests.cluster.nodes import Node, Nodes
from tests.waiting import eventually, within
from txqueue import WorkQueue, WorksetItem

LIMIT = 60.0


@pytest.fixture(scope="module")
def workset_node(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with two workers that knows the worksets."""
    shared_db.execute(TABLES)
    with cluster(shared_db, tmp_path_factory.mktemp("nodes")) as nodes:
        node = nodes.start("--workers", "2", app="tests.cluster.app_of_worksets")
        pytest_twisted.blockon(within(LIMIT, node.up(2)))
        yield node


@pytest.fixture
def shared_worksets(workset_node: Node, shared_db: Database) -> None:
    """The node of the module, with nothing seen."""
    shared_db.execute("truncate seen, document")


async def ended(queue: WorkQueue, db: Database, cls: type[WorksetItem]) -> tuple[int, int]:
    """Wait until a workset has nothing left; returns how many items are done and failed."""
    sql = "select remaining = 0 and jobs = 0 from txqueue.workset_status where name = %s"
    await eventually(lambda: db.value(sql, cls.workset), LIMIT)
    status = await queue.workset(cls)
    return status.done, status.failed


@pytest.mark.usefixtures("shared_worksets")
async def test_all_are_seen_once(shared_queue: WorkQueue, shared_db: Database) -> None:
    """Each item is performed and counted, by no more jobs than the workset's size."""
    filled = await shared_queue.fill(Counted, (Counted(n, f"no {n}") for n in range(2030)))
    assert filled == 2030
    assert await shared_queue.start_workset(Counted) == 3
    assert await shared_queue.start_workset(Counted) == 0
    assert await ended(shared_queue, shared_db, Counted) == (2030, 0)
    assert shared_db.value("select array_agg(number order by number) from seen") == list(
        range(2030)
    )
    assert shared_db.value("select count(*) from txqueue.workset_counted") == 0


@pytest.mark.usefixtures("shared_worksets")
async def test_failures_are_kept_apart(shared_queue: WorkQueue, shared_db: Database) -> None:
    """What fails is tried again by the policy, then kept with its error; the others are done."""
    await shared_queue.fill(Single, (Single(n) for n in range(300)))
    await shared_queue.start_workset(Single)
    assert await ended(shared_queue, shared_db, Single) == (294, 6)
    kept = shared_db.rows(
        "select number, attempt, split_part(error, E'\\n', 1) as error"
        " from txqueue.workset_failed join txqueue.workset_single"
        " on (_part, _number::text) = (origin, key) order by 1"
    )
    assert [(row["number"], row["attempt"]) for row in kept] == [
        (1, 2),
        (2, 1),
        (101, 2),
        (102, 1),
        (201, 2),
        (202, 1),
    ]
    assert kept[0]["error"] == "ValueError: number 1"
    assert await shared_queue.retry_workset(Single) == 6
    assert await ended(shared_queue, shared_db, Single) == (294, 6)


@pytest.mark.usefixtures("shared_worksets")
async def test_a_part_that_fails_is_cut_until_the_item_is_found(
    shared_queue: WorkQueue, shared_db: Database
) -> None:
    """One bad item costs the others of its part nothing."""
    await shared_queue.fill(Together, (Together(n) for n in range(120)))
    await shared_queue.start_workset(Together)
    assert await ended(shared_queue, shared_db, Together) == (119, 1)


@pytest.mark.usefixtures("shared_worksets")
async def test_an_item_that_kills_is_found(shared_queue: WorkQueue, shared_db: Database) -> None:
    """It takes some processes with it, then it is failed alone."""
    await shared_queue.fill(Deadly, (Deadly(n) for n in range(80)))
    await shared_queue.start_workset(Deadly)
    assert await ended(shared_queue, shared_db, Deadly) == (79, 1)
    error = shared_db.value(
        "select error from txqueue.workset_failed join txqueue.workset using (workset_id)"
        " where name = 'deadly'"
    )
    assert error == "poison: 2 processes died while they performed it"


@pytest.mark.usefixtures("shared_worksets")
async def test_a_table_of_the_application(shared_queue: WorkQueue, shared_db: Database) -> None:
    """The rows that meet its condition are processed in key order; it can be restarted."""
    shared_db.execute(
        "insert into document select n, case when n = 500 then 'broken' else 'fine' end, n"
        " from generate_series(1, 1000) as n"
    )
    for _ in range(2):
        shared_db.execute("truncate seen")
        assert await shared_queue.start_workset(Reindex) > 0
        assert await ended(shared_queue, shared_db, Reindex) == (499, 1)
        wanted = [n for n in range(2, 1001, 2) if n != 500]
        assert shared_db.value("select array_agg(number order by number) from seen") == wanted


async def test_a_node_that_is_killed_in_the_middle_loses_nothing(
    db: Database, queue: WorkQueue, nodes: Nodes
) -> None:
    """The other node processes each remaining item, and each is counted once."""
    db.execute(TABLES)
    await queue.fill(Counted, (Counted(n) for n in range(20_000)))
    await queue.start_workset(Counted)
    first = nodes.start(app="tests.cluster.app_of_worksets", name="node")
    await eventually(lambda: db.value("select count(*) > 500 from seen"), LIMIT)
    first.destroy()
    at_kill = (await queue.workset(Counted)).done
    assert 0 < at_kill < 20_000
    nodes.start(app="tests.cluster.app_of_worksets", name="node")
    assert await ended(queue, db, Counted) == (20_000, 0)
    seen = db.row("select count(*) as rows, count(distinct number) as items from seen")
    assert seen == {"rows": 20_000, "items": 20_000}
    assert db.value("select count(*) from txqueue.job where state <> 'done'") == 0

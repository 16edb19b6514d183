"""Databases with the application's tables, queues on them, and nodes that serve them."""

import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import pytest
import pytest_twisted

from tests.cluster.database import Database
from tests.cluster.nodes import FORK_SERVER, Node, Nodes
from tests.fixtures.databases import Templates, fresh_database
from tests.waiting import within
from txqueue import WorkQueue

HERE: Final = Path(__file__).parent
if os.environ.get("TXQUEUE_TEST_REQUIRE") != "1" and not find_spec("django"):
    collect_ignore = ["test_django.py"]
LIMIT: Final = 600.0


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give the tests of this folder longer than others: they start many processes."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("bounded") is None:
            item.add_marker(pytest.mark.bounded(LIMIT))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the nodes' logs with a failure."""
    report = yield
    nodes = getattr(item, "funcargs", {}).get("nodes")
    if report.failed and isinstance(nodes, Nodes):
        report.sections.append(("logs of the nodes", nodes.logs()))
    return report


@pytest.fixture(scope="session", autouse=True)
def fork_server() -> Iterator[None]:
    """What the nodes are forks of; it belongs to the session, not to the first test."""
    FORK_SERVER.start()
    yield
    FORK_SERVER.close()


@contextmanager
def opened_database(server: str, templates: Templates) -> Iterator[Database]:
    """A database with the schema and the application's tables."""
    with (
        fresh_database(server, templates.name(server)) as dsn,
        Database.opened(dsn) as database,
    ):
        yield database


@contextmanager
def cluster(database: Database, folder: Path) -> Iterator[Nodes]:
    """Nodes on a database, all ended at the end."""
    nodes = Nodes(database, folder)
    try:
        yield nodes
    except BaseException:
        nodes.destroy()
        raise
    nodes.stop()


@pytest.fixture
def db(dsn18: str, templates: Templates) -> Iterator[Database]:
    """A database of the test's own."""
    with opened_database(dsn18, templates) as database:
        yield database


@pytest.fixture
def nodes(db: Database, tmp_path: Path) -> Iterator[Nodes]:
    """Nodes of the test's own."""
    with cluster(db, tmp_path) as nodes:
        yield nodes


@contextmanager
def connected(dsn: str) -> Iterator[WorkQueue]:
    """A queue, closed at the end."""
    queue: WorkQueue = pytest_twisted.blockon(within(60.0, WorkQueue.connect(dsn)))
    yield queue
    pytest_twisted.blockon(within(60.0, queue.close()))


@pytest.fixture
def queue(db: Database) -> Iterator[WorkQueue]:
    """A queue on the test's database."""
    with connected(db.dsn) as queue:
        yield queue


@pytest.fixture(scope="module")
def shared_db(dsn18: str, templates: Templates) -> Iterator[Database]:
    """A database for the tests of one module."""
    with opened_database(dsn18, templates) as database:
        yield database


@pytest.fixture(scope="module")
def shared_node(shared_db: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node with two workers that the tests of one module share: starting one takes seconds."""
    with cluster(shared_db, tmp_path_factory.mktemp("nodes")) as nodes:
        node = nodes.start("--workers", "2", "--unreadable-for", "0")
        pytest_twisted.blockon(within(LIMIT, node.up(2)))
        yield node


@pytest.fixture
def shared_queue(shared_db: Database) -> Iterator[WorkQueue]:
    """A queue on the module's database."""
    with connected(shared_db.dsn) as queue:
        yield queue

"""The plugin of pytest: fixtures for databases, queues and nodes, which do nothing until used.

Nothing is imported here that a test without these fixtures does not need.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from txqueue.demo.node import RunningNode
    from txqueue.sync import Queue

__all__ = [
    "txqueue_database",
    "txqueue_dsn",
    "txqueue_node",
    "txqueue_queue",
    "txqueue_server",
    "txqueue_uri",
]


# The fixtures of pytest-django with which a test commits.
_TRANSACTIONAL = frozenset({"transactional_db", "django_db_reset_sequences", "live_server"})


@pytest.fixture(scope="session")
def txqueue_server() -> Iterator[str]:
    """The DSN of a PostgreSQL server on which databases may be created.

    It is the one that ``TXQUEUE_TEST_SERVER`` names, or an embedded one, which each process of
    pytest-xdist has for itself. Override it to use a server of yours.
    """
    from txqueue.testing.databases import server

    with server() as dsn:
        yield dsn


@pytest.fixture(scope="session")
def txqueue_database(txqueue_server: str) -> Iterator[str]:
    """The DSN of a database with txqueue's schema, made once for each process of the run.

    A fixture of yours that adds the application's tables builds on it.
    """
    from txqueue.testing.databases import migrated_database

    with migrated_database(txqueue_server) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def _txqueue_emptier(txqueue_database: str) -> Iterator[Callable[[], None]]:
    from txqueue.store.temporary_databases import emptier

    with emptier(txqueue_database) as empty:
        yield empty


@pytest.fixture
def txqueue_dsn(txqueue_database: str, _txqueue_emptier: Callable[[], None]) -> Iterator[str]:
    """The DSN of that database; the jobs that the test has committed are deleted after it."""
    yield txqueue_database
    _txqueue_emptier()


@pytest.fixture
def txqueue_uri(txqueue_dsn: str) -> str:
    """The same as a URI, ``postgresql://...``, for asyncpg and SQLAlchemy."""
    from txqueue.store.temporary_databases import uri_of

    return uri_of(txqueue_dsn)


@pytest.fixture
def txqueue_queue(txqueue_dsn: str) -> Iterator[Queue]:
    """An open `txqueue.sync.Queue` for that database, for tests without a reactor or a loop."""
    from txqueue.sync import Queue

    with Queue.connect(txqueue_dsn) as queue:
        yield queue


@pytest.fixture
def txqueue_node(txqueue_dsn: str, tmp_path: Path) -> Iterator[Callable[..., RunningNode]]:
    """Start a node: ``txqueue_node("shop.jobs")`` runs ``twistd txqueue`` until the test ends.

    It takes the module of ``--app``, which this process can import too, ``workers=1`` and
    ``settings``, a mapping of environment variables. It returns once the node has registered.
    """
    from txqueue.demo.environment import TemporarySchema
    from txqueue.demo.node import RunningNode

    target = TemporarySchema(txqueue_dsn, "txqueue", tmp_path)
    with ExitStack() as nodes:

        def start(
            app: str, *, workers: int = 1, settings: Mapping[str, str] | None = None
        ) -> RunningNode:
            paths = os.pathsep.join(filter(None, [os.getcwd(), *sys.path]))
            node = RunningNode(
                target,
                app,
                workers,
                f"node-{len(started)}",
                {"PYTHONPATH": paths, **(settings or {})},
            )
            started.append(nodes.enter_context(node))
            return node

        started: list[RunningNode] = []
        yield start


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Note the databases of Django before a fixture replaces them by those of tests."""
    if "django.db" in sys.modules:
        from txqueue.adapters.django import note_databases

        note_databases()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Delete the jobs that a test of Django has committed, as Django does with its own rows."""
    # Asked for before the end of a run, where Django puts the real databases back.
    databases = _test_databases(item)
    yield
    if databases:
        from txqueue.testing.databases import clear_django

        clear_django(databases)


def _test_databases(item: pytest.Item) -> list[tuple[dict[str, Any], list[str]]]:
    if "django.test" not in sys.modules or not _commits(item):
        return []
    from txqueue.adapters.django import databases_of_tests
    from txqueue.testing.connections import schemas_of

    # The adapter's calls need not have the schema of the tasks.
    return [
        (parameters, list({*schemas_of(using), "txqueue"}))
        for using, parameters in databases_of_tests().items()
    ]


def _commits(item: pytest.Item) -> bool:
    if not _TRANSACTIONAL.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    marker = item.get_closest_marker("django_db")
    if marker is not None:
        return bool(marker.kwargs.get("transaction") or marker.args[:1] == (True,))
    kinds = sys.modules["django.test"]
    cls = getattr(item, "cls", None)
    return (
        cls is not None
        and issubclass(cls, kinds.TransactionTestCase)
        and not issubclass(cls, kinds.TestCase)
    )

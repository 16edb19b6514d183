"""What tests of the stored functions share: a database, emptied for each of them.

To empty one takes a hundredth of the time that it takes to make one. A test that changes the
schema itself asks for `migrated_database` instead.
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, TypeVar

import psycopg2
import pytest
import pytest_twisted
from attrs import frozen

from tests.browser import Browser
from tests.db.kept_sessions import close_idle, keeping, kept_session
from tests.db.letters import opened
from tests.db.masters import Master, master
from tests.fixtures.databases import Templates, fresh_database
from tests.waiting import running_reactor, within
from txqueue import WorkQueue
from txqueue.cli.options import GlobalOptions
from txqueue.cli.root import run
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.schema.migrations import migrate
from txqueue_torture.needs import lacking
from txqueue_torture.server import Server, dsn_of, pgbouncer

T = TypeVar("T")

# Only tables that have rows: each truncation makes new files for a table and all its indexes.
EMPTY = """
    drop table if exists app;
    do $$
    declare
        filled text;
        bucket regclass;
    begin
        select string_agg(oid::regclass::text, ', ') into filled from pg_class
         where relnamespace = 'txqueue'::regnamespace and relkind = 'r'
           and relname not in ('migration', 'migrating', 'setting', 'control', 'history_day',
               'key_lock', 'duty', 'claiming')
           and pg_relation_size(oid) > 0;
        if filled is not null then
            execute 'truncate ' || filled;
        end if;
        for bucket in
            select oid from pg_class
            where relnamespace = 'txqueue'::regnamespace and relname like 'bucket\\_%' loop
            execute format('drop sequence %s', bucket);
        end loop;
    end $$;
    delete from txqueue.control;
    delete from txqueue.setting;
    insert into txqueue.setting default values;
    select setval('txqueue.job_id', 1, false);
    select setval('txqueue.asleep', 0), setval('txqueue.lane', 0), setval('txqueue.has_tenants', 0),
        setval('txqueue.has_late_ends', 0),
        setval('txqueue.has_signals', 0), setval('txqueue.has_limits', 0),
        setval('txqueue.open_credit', 0, false);
"""

DRIVERS: Final = ("asyncpg", "django", "greenlet", "psycopg", "psycopg_pool", "sqlalchemy")
"""What tests of adapters and of queues without Twisted need; the extra `dev` has all of them."""

if os.environ.get("TXQUEUE_TEST_REQUIRE") != "1" and not all(map(find_spec, DRIVERS)):
    collect_ignore = [
        "test_adapters.py",
        "test_adapters_of_drivers.py",
        "test_queues_without_twisted.py",
        "test_round_trips_of_drivers.py",
        "test_testing_of_drivers.py",
    ]
if os.environ.get("TXQUEUE_TEST_REQUIRE") != "1" and not find_spec("django"):
    collect_ignore_glob = ["test_django*.py"]

OF_FORMS: Final = ("test_dashboard.py", "test_dashboard_databases.py")
"""The files whose tests are mostly about logins, forms and addresses."""
READING: Final = ("test_each_page", "test_a_job", "test_a_callback", "test_jobs", "test_the_list")
"""How the names of those tests in `OF_FORMS` begin that are about what pages read."""


def _is_repeated(item: pytest.Item) -> bool:
    """Tell whether the older server shows nothing new: forms depend on its version by no query."""
    is_older = "[pg16" in item.name or "[installed" in item.name
    return is_older and item.path.name in OF_FORMS and not item.name.startswith(READING)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run tests of forms on one server only."""
    left_out = [item for item in items if _is_repeated(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in set(left_out)]


def empty_database(dsn: str) -> None:
    """Delete all that tests have left in a database."""
    with kept_session(dsn) as session, session.cursor() as cursor:
        cursor.execute(EMPTY)


@pytest.fixture(scope="session")
def shared_database(server_dsn: str, templates: Templates) -> Iterator[str]:
    """The DSN of a database with the schema, on each server in turn."""
    with fresh_database(server_dsn, templates.name(server_dsn)) as dsn, keeping(dsn):
        yield dsn


@pytest.fixture(scope="session")
def shared_database18(dsn18: str, templates: Templates) -> Iterator[str]:
    """The DSN of a database with the schema, on PostgreSQL 18 only."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn, keeping(dsn):
        yield dsn


@pytest.fixture
def emptied_database18(shared_database18: str) -> str:
    """The DSN of a database with the schema and no row in it, on PostgreSQL 18 only."""
    empty_database(shared_database18)
    return shared_database18


@pytest.fixture(scope="module")
def _shop_database(dsn18: str, templates: Templates) -> Iterator[str]:
    with fresh_database(dsn18, templates.name(dsn18)) as dsn, keeping(dsn):
        yield dsn


@pytest.fixture
def shop_database(_shop_database: str) -> str:
    """The DSN of a database of the module with the schema and no job in it, on PostgreSQL 18."""
    empty_database(_shop_database)
    return _shop_database


@pytest.fixture(scope="module")
def open_connection(dsn18: str, templates: Templates) -> Iterator[Any]:
    """A connection of psycopg2 to a database with the schema, for all tests of a file."""
    with (
        fresh_database(dsn18, templates.name(dsn18)) as dsn,
        closing(psycopg2.connect(dsn)) as connection,
    ):
        yield connection


@pytest.fixture(scope="module")
def pooler() -> Iterator[str]:
    """The DSN of a pooler in transaction mode, with one connection for all clients."""
    missing = lacking(["pgbouncer"])
    if missing is not None and os.environ.get("TXQUEUE_TEST_REQUIRE") != "1":
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="txq-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with Server(folder / "pg") as server:
            migrate(server.dsn)
            with pgbouncer(server, folder / "pb", "transaction", size=1) as address:
                yield dsn_of(address)


@pytest.fixture
def dsn(shared_database: str, request: pytest.FixtureRequest) -> str:
    """The DSN of a database with the schema and no row in it."""
    empty_database(shared_database)
    if request.node.get_closest_marker("new_sessions"):
        close_idle(shared_database)
    return shared_database


@pytest.fixture
def node(dsn: str) -> Iterator[Master]:
    """A master's session."""
    with master(dsn) as session:
        yield session


@pytest.fixture
def other(dsn: str, node: Master) -> Iterator[Master]:
    """Another master's session on the same database."""
    with master(dsn, "other") as session:
        yield session


@pytest.fixture
def third(dsn: str, node: Master) -> Iterator[Master]:
    """And one more."""
    with master(dsn, "third") as session:
        yield session


@contextmanager
def entered(manager: AbstractAsyncContextManager[T]) -> Iterator[T]:
    """Enter an asynchronous context manager for a fixture."""
    yield pytest_twisted.blockon(within(60.0, manager.__aenter__()))
    pytest_twisted.blockon(within(60.0, manager.__aexit__(None, None, None)))


@pytest.fixture
def queue(dsn: str) -> Iterator[WorkQueue]:
    """A queue on the database."""
    with entered(opened(dsn)) as queue:
        yield queue


@pytest.fixture
def pool(dsn: str) -> Iterator[ConnectionPool]:
    """A pool of one connection."""
    pool = ConnectionPool(running_reactor(), dsn, 1, "test")
    yield pool
    pool.close()


@pytest.fixture
def functions(pool: ConnectionPool) -> StoredFunctions:
    """The calls of a node."""
    return StoredFunctions(pool)


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Any]]:
    """An operator and a viewer of dashboards, with passwords that are fast to check."""
    from tests.dashboards import PASSWORD
    from txqueue.web.logins import read_users, user_line

    file = tmp_path_factory.mktemp("users") / "users"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("txqueue.web.logins._N", 2)
        lines = [user_line("ann", "operator", PASSWORD), user_line("bob", "viewer", PASSWORD)]
        file.write_text("\n".join(lines))
        file.chmod(0o600)
        yield read_users(file)


@contextmanager
def serving(dsn: str, **settings: Any) -> Iterator[Browser]:
    """Serve a dashboard."""
    # The packages of the matrix do without those of the dashboard.
    from tests.dashboards import served

    with entered(served(dsn, **settings)) as browser:
        yield browser


@pytest.fixture
def browser(dsn: str) -> Iterator[Browser]:
    """A browser of a dashboard without users."""
    with serving(dsn) as browser:
        yield browser


@pytest.fixture
def developer(dsn: str) -> Iterator[Browser]:
    """The browser of an operator who has the key of a dashboard without users."""
    with serving(dsn, key="secret") as browser:
        pytest_twisted.blockon(within(60.0, browser.get("/login?key=secret")))
        yield browser


@pytest.fixture
def visitor(dsn: str, users: Mapping[str, Any]) -> Iterator[Browser]:
    """A browser of a dashboard with users, not logged in."""
    with serving(dsn, users=users) as browser:
        yield browser


@pytest.fixture
def ann(visitor: Browser) -> Browser:
    """The browser of an operator."""
    from tests.dashboards import log_in

    pytest_twisted.blockon(within(60.0, log_in(visitor, "ann")))
    return visitor


@pytest.fixture
def no_node(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, dsn: str) -> None:
    """A host that has the database's address and no other setting, and no node."""
    for name in ("TXQUEUE_NODE", "TXQUEUE_SCHEMA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TXQUEUE_STATE_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("TXQUEUE_DSN", dsn)
    monkeypatch.chdir(tmp_path)


@frozen
class Cli:
    """The command, run in this process."""

    _capsys: pytest.CaptureFixture[str]

    def __call__(self, *words: str, status: int = 0) -> Any:
        """Run it, and return what it has printed: its output and its errors."""
        self._capsys.readouterr()
        assert run(list(words), GlobalOptions()) == status, self._capsys.readouterr()
        return self._capsys.readouterr()


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """The command."""
    return Cli(capsys)


@pytest.fixture
def txqueue(dsn: str, cli: Cli) -> Callable[..., Any]:
    """Call the command on the database with --json; returns the document."""
    return lambda *words: json.loads(cli("--dsn", dsn, "--json", *words).out)


@pytest.fixture
def shown(dsn: str, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Call the command on the database for people; returns all that it prints."""

    def call(*words: str) -> str:
        run(["--dsn", dsn, *words], GlobalOptions())
        return "".join(capsys.readouterr())

    return call

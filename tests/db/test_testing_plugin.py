"""The plugin of pytest, in a run of its own: databases, and a real node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from contextlib import closing
from pathlib import Path
from typing import Final

import psycopg2
import pytest

from tests.fixtures.databases import Templates, fresh_database

pytestmark = pytest.mark.slow("txqueue/testing", "txqueue/django")

ROOT: Final = Path(__file__).resolve().parents[2]
PLUGIN: Final = "txqueue.testing.plugin"

JOBS: Final = """
from txqueue import task

@task
def add(first: int, second: int) -> int:
    return first + second
"""
TESTS: Final = """
import asyncio

import asyncpg
import psycopg2
import pytest
from jobs_of_test import add

from txqueue import testing
from txqueue.adapters.psycopg2 import enqueue


@pytest.fixture
def connection(txqueue_dsn):
    connection = psycopg2.connect(txqueue_dsn)
    with testing.connected(connection):
        yield connection
    connection.close()


def test_a_job_is_committed(connection):
    enqueue(connection, add.work(1, second=2))
    connection.commit()


def test_the_next_test_has_none(connection):
    assert testing.all_enqueued() == []


def test_a_uri_names_the_same_database(txqueue_uri, txqueue_dsn):
    async def name():
        connection = await asyncpg.connect(txqueue_uri)
        try:
            return await connection.fetchval("select current_database()")
        finally:
            await connection.close()

    assert f"dbname={asyncio.run(name())} " in txqueue_dsn


def test_a_node_runs_jobs(txqueue_node, connection):
    enqueue(connection, add.work(1, second=2))
    connection.commit()
    txqueue_node("jobs_of_test")
    assert testing.assert_enqueued(add, state="done", within=30).result == 3
"""
QUEUE: Final = """
from jobs_of_test import add

from txqueue import testing


def test_a_queue_is_open(txqueue_queue):
    with txqueue_queue.transaction() as txn:
        txn.enqueue(add.work(1, second=2))
        testing.assert_enqueued(add, first=1, connection=txn)
        assert testing.drain(connection=txn)[0].get() == 3
"""
DJANGO: Final = """
import os
import django
import psycopg2.extensions
import pytest
from django.conf import settings
from django.test import TestCase, TransactionTestCase
from jobs_of_test import add

from txqueue import testing
from txqueue.adapters.django import enqueue

parts = psycopg2.extensions.parse_dsn(os.environ["SHOP_DSN"])
default = {"ENGINE": "django.db.backends.postgresql", "NAME": parts["dbname"],
           "USER": parts["user"], "HOST": parts["host"], "PORT": parts.get("port", "")}
settings.configure(DATABASES={"default": default}, USE_TZ=True)
django.setup()


@pytest.fixture(scope="session", autouse=True)
def project():
    # As the fixtures of pytest-django do, up to the teardown of the last test.
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases
    from txqueue.store.driver.hosts import dsn_of_parameters
    from txqueue.store.schema.migrations import migrate

    old = setup_databases(0, False, aliases=["default"])
    assert connection.settings_dict["NAME"] == "test_" + parts["dbname"]
    migrate(dsn_of_parameters(connection.get_connection_params()))
    yield
    teardown_databases(old, 0)
    assert connection.settings_dict["NAME"] == parts["dbname"]


class TestThatCommits(TransactionTestCase):
    def test_one(self):
        testing.refute_enqueued()
        enqueue(add.work(1, second=2))

    def test_another(self):
        testing.refute_enqueued()
        enqueue(add.work(1, second=2))


class TestThatRollsBack(TestCase):
    def test_one(self):
        testing.refute_enqueued()
        enqueue(add.work(1, second=2))
        assert testing.drain()[0].get() == 3


class TestThatCommitsLast(TransactionTestCase):
    def test_one(self):
        testing.refute_enqueued()
        enqueue(add.work(1, second=2))
        testing.clear()
        testing.refute_enqueued()
        enqueue(add.work(1, second=2))
"""
WITHOUT_TEST_DATABASE: Final = DJANGO.replace(
    '@pytest.fixture(scope="session", autouse=True)\ndef project', "def unused"
).replace("testing.refute_enqueued()", "pass")
HELD: Final = """
import psycopg2
from jobs_of_test import add

from txqueue.adapters.psycopg2 import enqueue


def test_a_transaction_stays_open(txqueue_dsn):
    global connection
    connection = psycopg2.connect(txqueue_dsn)
    enqueue(connection, add.work(1, second=2))
    connection.commit()
    connection.cursor().execute("select from txqueue.job for update")
"""


def run(folder: Path, server: str, tests: str) -> subprocess.CompletedProcess[str]:
    """Run tests with the plugin, on a server that is there."""
    (folder / "jobs_of_test.py").write_text(JOBS)
    (folder / "test_of_plugin.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-q", "-p", PLUGIN, "-p", "no:cacheprovider"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TXQUEUE_TEST_SERVER": server}
    return subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, check=False
    )


def test_its_fixtures(tmp_path: Path, dsn18: str) -> None:
    """Each test has an empty database, and a node that runs its jobs."""
    done = run(tmp_path, dsn18, TESTS)
    assert "4 passed" in done.stdout, done.stdout


def test_the_fixture_of_a_queue(tmp_path: Path, dsn18: str) -> None:
    """It needs psycopg 3, and no reactor."""
    pytest.importorskip("psycopg")
    done = run(tmp_path, dsn18, QUEUE)
    assert "1 passed" in done.stdout, done.stdout


@pytest.fixture
def shop(dsn18: str, templates: Templates, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The DSN of the database that the settings of a project name, with a job."""
    with fresh_database(dsn18, templates.name(dsn18)) as dsn:
        monkeypatch.setenv("SHOP_DSN", dsn)
        execute(dsn, "select txqueue.enqueue('shop.mail', '{}')")
        yield dsn


def execute(dsn: str, statement: str) -> list[tuple[object, ...]]:
    """Execute a statement, and return its rows."""
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall()


def test_djangos_tests_that_commit_leave_nothing(tmp_path: Path, dsn18: str, shop: str) -> None:
    """What they enqueue in the test database is deleted; the project's own keeps all jobs."""
    pytest.importorskip("django")
    done = run(tmp_path, dsn18, DJANGO)
    assert "4 passed" in done.stdout, done.stdout
    assert execute(shop, "select work_type from txqueue.job") == [("shop.mail",)]


def test_the_projects_own_database_is_not_emptied(tmp_path: Path, dsn18: str, shop: str) -> None:
    """Not where Django's tests run without a test database, nor by a call of `clear`."""
    pytest.importorskip("django")
    done = run(tmp_path, dsn18, WITHOUT_TEST_DATABASE)
    assert "the project's own database 'default'" in done.stdout, done.stdout
    assert "1 failed, 3 passed" in done.stdout, done.stdout
    assert ("shop.mail",) in execute(shop, "select work_type from txqueue.job")


def test_a_transaction_that_stays_open_is_named(tmp_path: Path, dsn18: str) -> None:
    """The test that has left it fails at its end, and says what to do."""
    done = run(tmp_path, dsn18, HELD)
    assert "1 passed, 1 error" in done.stdout, done.stdout
    assert "a transaction of this test is still open" in done.stdout


def test_it_is_installed_with_txqueue() -> None:
    """It is an entry point of pytest."""
    configuration = ConfigParser()
    configuration.read(ROOT / "setup.cfg")
    # By its own name, so that -p or PYTEST_PLUGINS does not load it a second time.
    assert f"{PLUGIN} = {PLUGIN}" in configuration["options.entry_points"]["pytest11"]


@pytest.mark.parametrize("module", ["twisted", "psycopg2", "psycopg", "django", "cattrs"])
def test_to_load_it_is_cheap(module: str) -> None:
    """A run that uses no fixture of it gets neither a reactor nor a driver."""
    program = f"import {PLUGIN}, sys; print({module!r} in sys.modules)"
    command = [sys.executable, "-c", program]
    printed = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=True)
    assert printed.stdout == "False\n"

"""What `txqueue.testing` adds to a suite of tests.

    python -m benchmarks.testing_plugin [tests]

Runs a fresh embedded server, and prints the seconds of three runs of pytest, a hundred tests each
unless a number is given: tests that write a row in a transaction; the same while the plugin is not
loaded; and tests that also enqueue a job, look for it and run it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from txqueue.testing.databases import SERVER, server

PLUGIN: Final = "txqueue.testing.plugin"
PLAIN: Final = """
import os
import psycopg2
import pytest

@pytest.fixture(scope="session")
def connection():
    connection = psycopg2.connect(os.environ["TXQUEUE_TEST_SERVER"])
    yield connection
    connection.close()

@pytest.fixture
def db(connection):
    connection.cursor().execute("create temp table mine (a int)")
    yield connection
    connection.rollback()

@pytest.mark.parametrize("number", range(TESTS))
def test_it(db, number):
    db.cursor().execute("insert into mine values (1)")
"""
WITH_JOBS: Final = """
import psycopg2
import pytest
from measured_work import add
from txqueue import testing
from txqueue.adapters.psycopg2 import enqueue

@pytest.fixture(scope="session")
def connection(txqueue_database):
    connection = psycopg2.connect(txqueue_database)
    yield connection
    connection.close()

@pytest.fixture
def db(connection, txqueue_dsn):
    connection.cursor().execute("create temp table mine (a int)")
    with testing.connected(connection):
        yield connection
    connection.rollback()

@pytest.mark.parametrize("number", range(TESTS))
def test_it(db, number):
    db.cursor().execute("insert into mine values (1)")
    enqueue(db, add.work(number))
    testing.assert_enqueued(add, number=number)
    assert testing.drain()[0].get() == number + 1
"""
WORK: Final = """
from txqueue import task

@task
def add(number: int) -> int:
    return number + 1
"""


def seconds(folder: Path, tests: str, number: int, *options: str) -> float:
    """Run tests in a process of their own; return how long that took."""
    (folder / "test_measured.py").write_text(tests.replace("TESTS", str(number)))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    began = time.monotonic()
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def main(number: int) -> None:
    """Measure, and print."""
    with server() as dsn, tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "measured_work.py").write_text(WORK)
        os.environ[SERVER] = dsn
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
        without = seconds(folder, PLAIN, number)
        unused = seconds(folder, PLAIN, number, "-p", PLUGIN)
        used = seconds(folder, WITH_JOBS, number, "-p", PLUGIN)
    print(f"{number} tests without the plugin: {without:.2f} s")
    print(f"with the plugin, unused: {unused - without:+.2f} s")
    print(f"with a job enqueued, found and run in each: {used - without:+.2f} s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)

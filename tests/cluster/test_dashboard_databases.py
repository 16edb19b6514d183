"""The dashboard of several databases: of a node, and by `txqueue web`."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from twisted.internet.error import ConnectionRefusedError

from tests.browser import Answer, Browser
from tests.cluster.conftest import opened_database
from tests.cluster.database import Database
from tests.cluster.nodes import PATIENCE, Nodes, environment
from tests.cluster.peers import free_port
from tests.fixtures.databases import Templates
from tests.waiting import eventually


@pytest.fixture
def second(dsn18: str, templates: Templates) -> Iterator[Database]:
    """Another database."""
    with opened_database(dsn18, templates) as database:
        yield database


@pytest.fixture
def file(db: Database, second: Database, tmp_path: Path) -> Path:
    """Both databases, and one that is down."""
    path = tmp_path / "databases.toml"
    path.touch(mode=0o600)
    path.write_text(
        f'one = "{db.dsn}"\ntwo = "{second.dsn}"\n'
        'gone = "postgresql://web:hunter2@127.0.0.1:1/gone"\n'
    )
    return path


@contextmanager
def web(file: Path, port: int, log: Path) -> Iterator[None]:
    """`txqueue web` with a file of databases."""
    program = str(Path(sys.executable).with_name("txqueue"))
    command = [program, "web", "--web", f"tcp:{port}"]
    given = environment(TXQUEUE_DSN="host=/nowhere", TXQUEUE_DATABASES=str(file))
    with log.open("w") as out:
        process = subprocess.Popen(command, env=given, stdout=out, stderr=out)
    try:
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


async def first(browser: Browser, path: str) -> Answer:
    """Wait until the dashboard listens; return its first answer."""
    answers: list[Answer] = []

    async def asked() -> bool:
        try:
            answers.append(await browser.get(path))
        except ConnectionRefusedError:
            return False
        return True

    await eventually(asked, PATIENCE)
    return answers[0]


async def test_a_node_of_two_databases_shows_both(
    nodes: Nodes, db: Database, second: Database
) -> None:
    """Under the names in their DSNs; each with the node that serves it."""
    port = free_port()
    both = {"TXQUEUE_DSN": f"{db.dsn}\n{second.dsn}"}
    await nodes.start("--workers", "1", "--web", f"tcp:{port}", name="both", **both).up(2)
    browser = Browser(port)
    page = await first(browser, "/")
    for database, node in ((db, "both"), (second, "both-2")):
        path = f"/databases/{database.value('select current_database()')}"
        assert f'<a href="{path}/">' in page.text
        assert f"{node}</a>" in (await browser.get(f"{path}/")).text


async def test_the_file_names_the_databases_of_a_dashboard_without_a_node(
    db: Database, second: Database, file: Path, tmp_path: Path
) -> None:
    """One that is down is reported, and shown as down; no password is shown."""
    second.enqueue("some.kind", "{}")
    log, browser = tmp_path / "log", Browser(free_port())
    with web(file, browser.port, log):
        page = await first(browser, "/")
        jobs = [await browser.get(f"/databases/{name}/jobs") for name in ("one", "two", "gone")]
    assert page.text.count(">answers</span>") == 2
    assert page.text.count(">down</span>") == 1
    assert [each.status for each in jobs] == [200, 200, 503]
    assert ["some.kind" in each.text for each in jobs] == [False, True, False]
    assert "gone: the database does not answer" in log.read_text()
    assert "hunter2" not in log.read_text() + page.text + jobs[2].text

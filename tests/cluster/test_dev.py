"""``txqueue dev``: the dashboard shows the jobs of code that changes."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg2
import pytest

from tests.browser import Browser
from tests.cluster.nodes import PATIENCE, environment
from tests.cluster.peers import free_port
from tests.waiting import eventually

APP = """
from attrs import define
from txqueue import WorkItem

@define
class {name}(WorkItem):
    work_type = "shop.{name}"

    async def perform(self, job):
        return 1
"""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[tuple[Path, int]]:
    """Run it in a folder with an application; its log, and the dashboard's port."""
    (tmp_path / "shop.py").write_text(APP.format(name="First"))
    port, log = free_port(), tmp_path / "log"
    # As short as a socket's path must be.
    state = tmp_path / "s"
    program = [str(Path(sys.executable).with_name("txqueue"))]
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*program, "dev", "--app", "shop", "--web", f"tcp:{port}"],
            cwd=tmp_path,
            env=environment(TXQUEUE_STATE_DIR=str(state)),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield log, port
    finally:
        # A shell without job control starts what is in its background with SIGINT ignored.
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


async def test_the_printed_link_leads_to_a_dashboard_that_follows_the_code(
    running: tuple[Path, int],
) -> None:
    """Its holder may act; others of this host may look."""
    log, port = running

    def registered() -> int:
        return log.read_text(errors="replace").count("registered as node")

    await eventually(lambda: registered() == 1, PATIENCE)
    found = re.search(r"/login\?key=(\S+)", log.read_text())
    dsn = re.search(r"TXQUEUE_DSN='([^']+)'", log.read_text())
    assert found is not None
    assert dsn is not None
    with psycopg2.connect(dsn[1]) as connection, connection.cursor() as cursor:
        cursor.execute("select txqueue.enqueue('shop.First', '{}')")
    connection.close()
    browser, other = Browser(port), Browser(port)
    assert (await browser.get("/login?key=wrong")).status == 200
    await browser.get(f"/login?key={found[1]}")
    assert "may act" in (await browser.get("/")).text
    assert "may look only" in (await other.get("/")).text

    async def done() -> bool:
        return "shop.First" in (await browser.get("/jobs?state=done")).text

    await eventually(done, PATIENCE)
    (log.parent / "shop.py").write_text(APP.format(name="Second"))
    await eventually(lambda: registered() == 2, PATIENCE)
    assert "shop.Second" in (await other.get("/types")).text

"""``txqueue dev``: a node that follows the code, beside a dashboard that stays."""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, cast

import psycopg2
import pytest
from attrs import define

from tests.browser import Browser
from tests.cluster.nodes import PATIENCE, environment
from tests.cluster.peers import free_port
from tests.waiting import eventually
from txqueue.cli.dev import _free_port, _project

pytestmark = pytest.mark.slow("txqueue/cli/dev.py", "txqueue/demo")

APP = """
from attrs import define
from twisted.internet.defer import Deferred
from txqueue import WorkItem

@define
class Endless(WorkItem):
    work_type = "shop.Endless"

    async def perform(self, job):
        await Deferred()

@define
class {name}(WorkItem):
    work_type = "shop.{name}"

    async def perform(self, job):
        return 1
"""


# A shell without job control starts what is in its background with SIGINT ignored.
ATTENTIVE = ("env", "--default-signal=INT")


@define
class Running:
    """A running ``txqueue dev``, with an application in its folder."""

    folder: Path
    port: int
    process: "subprocess.Popen[bytes]"

    @property
    def log(self) -> str:
        """What it and its node have printed."""
        return (self.folder / "log").read_text(errors="replace")

    @property
    def registered(self) -> int:
        """How often a node has registered."""
        return self.log.count("registered as node")

    @property
    def is_up(self) -> bool:
        """Whether the first node has registered, and the dashboard, its own process, listens."""
        with closing(socket.socket()) as probe:
            return self.registered == 1 and probe.connect_ex(("127.0.0.1", self.port)) == 0

    def write(self, name: str) -> None:
        """Write the application, with a class of this name."""
        (self.folder / "shop.py").write_text(APP.format(name=name))

    def run(self, statement: str) -> tuple[Any, ...]:
        """Run a statement in its database."""
        dsn = re.search(r"TXQUEUE_DSN='([^']+)'", self.log)
        assert dsn is not None
        with closing(psycopg2.connect(dsn[1])) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(statement)
            (row,) = cursor.fetchall()
        return tuple(row)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    """Run it in a folder with an application; Ctrl-C ends it."""
    port = free_port()
    program = [str(Path(sys.executable).with_name("txqueue"))]
    Running(tmp_path, port, cast("Any", None)).write("First")
    with (tmp_path / "log").open("wb") as out:
        process = subprocess.Popen(
            [*ATTENTIVE, *program, "dev", "--app", "shop", "--web", f"tcp:{port}"],
            cwd=tmp_path,
            # As short as a socket's path must be.
            env=environment(TXQUEUE_STATE_DIR=str(tmp_path / "s")),
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    try:
        yield Running(tmp_path, port, process)
    finally:
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(60) == 0
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


async def test_the_printed_link_leads_to_a_dashboard_that_follows_the_code(
    running: Running,
) -> None:
    """Its holder may act; others of this host may look."""
    await eventually(lambda: running.is_up, PATIENCE)
    [found] = re.finditer(r"http://\S+/login\?key=(\S+)", running.log)
    assert running.log.count("http://") == 1
    running.run("select txqueue.enqueue('shop.First', '{}')")
    browser, other = Browser(running.port), Browser(running.port)
    assert (await browser.get("/login?key=wrong")).status == 200
    await browser.get(f"/login?key={found[1]}")
    assert "may act" in (await browser.get("/")).text
    assert "may look only" in (await other.get("/")).text

    async def done() -> bool:
        return "shop.First" in (await browser.get("/jobs?state=done")).text

    await eventually(done, PATIENCE)
    running.write("Second")
    await eventually(lambda: running.registered == 2, PATIENCE)
    assert "shop.Second" in (await other.get("/types")).text
    # The dashboard is the one of before, and its sessions go on.
    assert "may act" in (await browser.get("/")).text


async def test_a_change_while_a_job_runs(running: Running) -> None:
    """The job starts again with the new code, as if it had not run; Ctrl-C is no error."""
    await eventually(lambda: running.is_up, PATIENCE)
    running.run("select txqueue.enqueue('shop.Endless', '{}')")
    row = "select state::text, incarnation, deaths, attempt from txqueue.job"
    await eventually(lambda: running.run(row)[0] == "assigned", PATIENCE)
    first = running.run(row)
    running.write("Second")
    await eventually(lambda: "changed: shop.py" in running.log, PATIENCE)
    assert "draining" not in running.log.partition("changed: shop.py")[0]
    assert (await Browser(running.port).get("/")).status == 200
    await eventually(lambda: running.registered == 2, PATIENCE)
    await eventually(lambda: running.run(row)[0] == "assigned", PATIENCE)
    state, incarnation, *counts = running.run(row)
    assert (state, counts) == ("assigned", [0, 0])
    assert incarnation != first[1]


def test_each_project_has_a_database_and_a_port_of_its_own() -> None:
    """Folders of the same name differ; two projects may run at the same time."""
    one, other = _project(Path("/home/ann/one/shop")), _project(Path("/home/ann/two/shop"))
    assert one != other
    assert one.startswith("shop-")
    first = _free_port()
    with socket.create_server(("127.0.0.1", int(first.removeprefix("tcp:")))):
        assert _free_port() != first

"""Takes pictures of the dashboard's pages, with the data of a shop on an embedded PostgreSQL.

    python docs/take_screenshots.py [--docs] [FOLDER]

Every page is taken in light and dark, as wide as a screen and as a phone. With ``--docs`` those
that the documentation shows are written to docs/pictures as well.
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from itertools import product
from pathlib import Path
from typing import Any, Final

import psycopg2
from attrs import frozen
from playwright.sync_api import Page, sync_playwright

from txqueue.embedded import EmbeddedServer
from txqueue.store.schema.migrations import migrate
from txqueue.web.pages.routes import MENU

HERE: Final = Path(__file__).resolve().parent
FOLDER: Final = HERE.parent / "build" / "screenshots"
PICTURES: Final = HERE / "pictures"


@frozen
class Size:
    """The width of pictures, and their least and most height."""

    width: int
    least: int
    most: int


SIZES: Final = (Size(1440, 640, 1700), Size(390, 844, 1400))
THEMES: Final = ("light", "dark")
USER, PASSWORD = "ann", "first flush"
# Seconds until the dashboard answers, and until a page is there; a busy machine takes its time.
PATIENCE: Final = 180.0

PAGES: Final[Mapping[str, str]] = {
    **{path.strip("/") or "overview": path for path in MENU.titles},
    "overview-24h": "/?span=24h",
    "overview-30d": "/?span=30d",
    "jobs-filtered": "/jobs?tag=campaign%3Dfirst-flush&state=assigned&tenant=corner-cafe",
    "jobs-none": "/jobs?queue=none",
    "confirm": "/jobs/confirm?act=cancel&queue=mail&state=waiting",
    "queue": "/queues/queue?name=mail&span=24h",
    "queue-paused": "/queues/queue?name=index",
    "type": "/types/type?name=orders.capture_payment&span=24h",
    "schedule": "/schedules/edit?name=newsletter",
    "node": "/nodes/node?name=jobs-3",
    "not-found": "/none",
}
"""The address of each page, by the name of its picture."""

JOBS: Final[Mapping[str, str]] = {
    "job-failed": "state = 'failed' and work_type = 'catalog.import_row'",
    "job-group": "state = 'waiting' and waiting_for = 'group'",
    "job-batch": "work_type = 'catalog.publish'",
    "job-running": "state = 'assigned' and progress is not null",
    "job-done": "state = 'done' and queue = 'mail' and result is not null",
}
"""Which job each picture of a job shows."""

SHOWN: Final = (
    *("overview-1440-light", "overview-390-dark", "jobs-filtered-1440-light"),
    *("job-failed-1440-light", "job-batch-1440-light", "failures-1440-dark"),
    *("type-1440-dark", "schedule-1440-light"),
)
"""The pictures that the documentation shows."""


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description="Take pictures of the dashboard.")
    parser.add_argument("folder", nargs="?", type=Path, default=FOLDER)
    parser.add_argument("--docs", action="store_true", help=f"also write {PICTURES}")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with EmbeddedServer() as server:
        for size, theme in product(SIZES, THEMES):
            take_all(server, size, theme, options.folder)
    if options.docs:
        PICTURES.mkdir(exist_ok=True)
        for name in SHOWN:
            shutil.copy(options.folder / f"{name}.png", PICTURES)


def take_all(server: str, size: Size, theme: str, folder: Path) -> None:
    """Take a picture of each page, of a shop that is filled just before: ages stay small."""
    kind = f"{size.width}-{theme}"
    dsn = filled(server, f"shop_{size.width}_{theme}")
    with dashboard(dsn) as address, browser_page(address, theme) as page:
        take(page, "/login", size, folder / f"login-{kind}.png")
        log_in(page)
        for name, path in {**PAGES, **job_pages(dsn)}.items():
            take(page, path, size, folder / f"{name}-{kind}.png")


def filled(server: str, name: str) -> str:
    """Create a database with the shop's data, and return its DSN."""
    with closing(psycopg2.connect(server)) as connection:
        connection.autocommit = True
        connection.cursor().execute(f"create database {name}")
    dsn = server.replace("/postgres?", f"/{name}?")
    migrate(dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        connection.cursor().execute((HERE / "shop.sql").read_text("utf-8"))
    return dsn


def job_pages(dsn: str) -> dict[str, str]:
    """Return the address of each job's page, by the name of its picture."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        found = {}
        for name, condition in JOBS.items():
            cursor.execute(f"select max(job_id) from txqueue.job where {condition}")
            found[name] = f"/jobs/{cursor.fetchone()[0]}"
        return found


@contextmanager
def dashboard(dsn: str) -> Iterator[str]:
    """Serve the dashboard to one user, and yield its address."""
    command = [str(Path(sys.executable).with_name("txqueue"))]
    port = free_port()
    with tempfile.TemporaryDirectory() as folder:
        users = f"{folder}/users.txt"
        add = [*command, "web-user", users, USER, "--role", "operator"]
        subprocess.run(add, input=f"{PASSWORD}\n", text=True, check=True, capture_output=True)
        environment = {**os.environ, "TXQUEUE_DSN": dsn, "TXQUEUE_WEB_TITLE": "Leaf & Bean"}
        serve = [*command, "web", "--web", f"tcp:{port}", "--web-users", users]
        with subprocess.Popen(serve, env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                await_answer(port)
                yield f"http://localhost:{port}"
            finally:
                process.terminate()


def free_port() -> int:
    """Return a port of loopback that nothing listens on."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port: int = listener.getsockname()[1]
        return port


def await_answer(port: int) -> None:
    """Wait until something listens on a port of loopback."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


@contextmanager
def browser_page(address: str, theme: Any) -> Iterator[Page]:
    """Open a page of chromium."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.exit("there is no chromium; install it: apt-get install chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(base_url=address, color_scheme=theme)
        page.set_default_timeout(PATIENCE * 1000)
        yield page
        browser.close()


def log_in(page: Page) -> None:
    """Log in as the user."""
    page.goto("/login")
    page.fill("input[name=name]", USER)
    page.fill("input[name=password]", PASSWORD)
    page.click("button:text-is('Log in')")
    page.wait_for_selector("h1:text-is('Overview')")


def take(page: Page, path: str, size: Size, file: Path) -> None:
    """Take a picture of a page, as high as the page, within limits."""
    page.set_viewport_size({"width": size.width, "height": size.least})
    page.goto(path)
    height = page.evaluate("document.scrollingElement.scrollHeight")
    page.set_viewport_size({"width": size.width, "height": min(height, size.most)})
    page.screenshot(path=file)


if __name__ == "__main__":
    main()

"""What open pages of the dashboard, and scrapes of the metrics, cost a drain.

    python -m benchmarks.viewers [jobs [rounds [viewers]]]

Runs a fresh embedded server. A node drains the same queue by turns: alone; while viewers have pages
of `txqueue web` open, which fetch them again at each change, as a browser does;
and while its metrics are scraped each second. Prints the medians, and what they are of the node's
alone: jobs a second by the clock, for which dashboard and viewers take processors of the same
machine, and the processor time of the server for a job. Then counts the transactions of the
database in a time in which nothing happens, without a page and with one open.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import SHUT_RDWR
from threading import Event, Thread
from typing import Any

from rich.console import Console

from benchmarks.history import APP, WORKERS
from txqueue.demo.environment import Pace, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue_bench.cpu_time import cpu_seconds
from txqueue_bench.work import Counted

PAGES = ("/", "/jobs", "/queues", "/types", "/failures", "/nodes", "/schedules", "/worksets")
WEB, METRICS = 8391, 9465
REST, IDLE = 8.0, 30.0
TRANSACTIONS = """
    select xact_commit + xact_rollback from pg_stat_database where datname = current_database()
"""


def got(port: int, path: str) -> bytes:
    """Fetch a page; its part that changes, as the dashboard's script asks for it."""
    connection = HTTPConnection("localhost", port, timeout=30)
    try:
        connection.request("GET", path, headers={"X-Part": "1"})
        reply = connection.getresponse()
        if reply.status != HTTPStatus.OK:
            raise HTTPException(f"{path} is answered by {reply.status}")
        return reply.read()
    finally:
        connection.close()


class Viewer(Thread):
    """Keeps a page open, and fetches it at each change, at most once a second.

    Args:
        path: The page.
    """

    def __init__(self, path: str) -> None:
        super().__init__()
        self._path = path
        self._is_over = Event()
        self._connection = HTTPConnection("localhost", WEB)
        self._connection.request("GET", "/events")
        self._stream = self._connection.getresponse()

    def run(self) -> None:
        """Follow the stream of changes until it is closed."""
        with suppress(OSError, HTTPException, ValueError):
            while line := self._stream.readline():
                if line.startswith(b"event: changed") and not self._is_over.wait(1.0):
                    got(WEB, self._path)

    def end(self) -> None:
        """Close the page."""
        self._is_over.set()
        with suppress(OSError):
            self._connection.sock.shutdown(SHUT_RDWR)
        self.join()


@contextmanager
def dashboard(target: TemporarySchema) -> Iterator[None]:
    """Run a dashboard in a process of its own."""
    environment = {"TXQUEUE_DSN": target.dsn, "TXQUEUE_SCHEMA": target.schema}
    line = [Path(sys.executable).with_name("txqueue"), "web", "--web", f"tcp:{WEB}"]
    process = subprocess.Popen([*map(str, line)], env=environment, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(OSError, HTTPException):
                got(WEB, "/")
                break
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def viewers(count: int) -> Iterator[None]:
    """Have pages open."""
    threads = [Viewer(PAGES[number % len(PAGES)]) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.end()


@contextmanager
def scrapes() -> Iterator[None]:
    """Scrape the node's metrics each second."""
    is_over = Event()

    def scrape() -> None:
        while not is_over.wait(1.0):
            with suppress(OSError, HTTPException):
                got(METRICS, "/metrics")

    thread = Thread(target=scrape)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def drained(session: Session, node: RunningNode, jobs: int) -> dict[str, float]:
    """Fill the queue while it is paused, and have it drained."""
    backend = int(session.value("select pg_backend_pid()"))
    session.rows(f"select {session.schema}.pause('queue', 'default', 'benchmark')")
    enqueue_all(session, map(Counted, range(1, jobs + 1)), lambda _: None)
    session.rows("checkpoint")
    server, both = cpu_seconds(-1, backend) or 0.0, cpu_seconds(node.pid, backend) or 0.0
    began = time.monotonic()
    session.rows(f"select {session.schema}.resume('queue', 'default', 'benchmark')")
    wait_until_done(session, node, jobs, lambda _: None, Pace(least=0.2, share=0.01))
    took = time.monotonic() - began
    its_server = (cpu_seconds(-1, backend) or 0.0) - server
    its_node = (cpu_seconds(node.pid, backend) or 0.0) - both - its_server
    return {
        "jobs_per_second": jobs / took,
        "server_us": its_server / jobs * 1e6,
        "node_us": its_node / jobs * 1e6,
    }


def transactions(session: Session) -> float:
    """Count the transactions of the database in some idle time; returns how many a second."""
    began = int(session.value(TRANSACTIONS))
    time.sleep(IDLE)
    return (int(session.value(TRANSACTIONS)) - began) / IDLE


def watched_transactions(session: Session) -> float:
    """The same with a page open, after its first figures."""
    with viewers(1):
        time.sleep(REST)
        return transactions(session)


def summary(figures: dict[str, list[dict[str, float]]]) -> dict[str, Any]:
    """Return the medians, and their ratios to those of the node alone."""
    medians = {
        name: {key: statistics.median(each[key] for each in rounds) for key in rounds[0]}
        for name, rounds in figures.items()
    }
    alone = medians["alone"]
    return {
        name: {
            **{key: round(figure, 2) for key, figure in its.items()},
            "of_alone": {key: round(figure / alone[key], 3) for key, figure in its.items()},
        }
        for name, its in medians.items()
    }


def main(jobs: int = 300_000, rounds: int = 5, count: int = 10) -> None:
    """Run and print."""
    figures: dict[str, list[dict[str, float]]] = defaultdict(list)
    ways: Sequence[tuple[str, Callable[[], Any]]] = (
        ("alone", nullcontext),
        ("viewed", lambda: viewers(count)),
        ("scraped", scrapes),
    )
    with (
        bars() as stages,
        embedded_schema(stages) as target,
        target.session() as session,
        dashboard(target),
    ):
        publish(session, Counted)
        settings = {"TXQUEUE_METRICS": f"tcp:{METRICS}"}
        advance = stages.begin("draining", rounds * len(ways))
        with RunningNode(target, APP, WORKERS, settings=settings) as node:
            time.sleep(REST)
            drained(session, node, jobs)
            for turn in range(rounds):
                for number, (name, beside) in enumerate(ways):
                    with beside():
                        figures[name].append(drained(session, node, jobs))
                    advance(turn * len(ways) + number + 1)
            time.sleep(IDLE)
            idle = [(transactions(session), watched_transactions(session)) for _ in range(3)]
    Console().print_json(
        data={
            "jobs": jobs,
            "viewers": count,
            **summary(figures),
            "idle_transactions_per_second": round(statistics.median(one for one, _ in idle), 2),
            "with_an_open_page": round(statistics.median(two for _, two in idle), 2),
            "rounds": figures,
        }
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

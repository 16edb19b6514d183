"""Four nodes that know each other: how evenly they share, what a death costs, what cut links cost.

Run it from the root of the tree: ``python -m benchmarks.peers``. It prints JSON.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg2

from benchmarks.work import Nothing, Waits
from txqueue.embedded import EmbeddedServer
from txqueue.store.schema.migrations import migrate

NODES, CAPACITY = 4, 50
WAITING, NO_OPS, ROUNDS = 4_000, 60_000, 3
SECONDS = 0.05
LIMIT = 300.0


class Cluster:
    """Four nodes on one database.

    Args:
        dsn: The database, with an empty schema.
        folder: For their logs.
        has_links: Whether they listen for each other.
        capacity: Weight that each may run.
    """

    def __init__(self, dsn: str, folder: Path, *, has_links: bool, capacity: int) -> None:
        self.connection: Any = psycopg2.connect(dsn)
        self.connection.autocommit = True
        self.run("truncate txqueue.job, txqueue.node_info, txqueue.work_type")
        self.processes = [
            start(dsn, folder / str(number), number, capacity, has_links=has_links)
            for number in range(NODES)
        ]
        self.until("select count(*) from txqueue.node_info where state = 'alive'", NODES)
        # Until they have met, and imported the application.
        time.sleep(4.0)

    def run(self, statement: str, *parameters: object) -> None:
        """Run a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)

    def rows(self, statement: str, *parameters: object) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        with self.connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def until(self, question: str, answer: object) -> float:
        """Ask until the answer comes; returns how long that took."""
        began = time.monotonic()
        while self.rows(question) != [(answer,)]:
            assert time.monotonic() - began < LIMIT, self.rows(question)
            time.sleep(0.02)
        return time.monotonic() - began

    def done(self, jobs: int) -> float:
        """Wait until a number of jobs are done; return how long that took."""
        return self.until("select count(*) from txqueue.job where state = 'done'", jobs)

    def shares(self) -> list[float]:
        """Each node's part of the weight done, 1 being even."""
        found = self.rows("select sum(weight) from txqueue.job group by node_id order by node_id")
        total = sum(weight for (weight,) in found)
        return [round(float(weight * NODES / total), 3) for (weight,) in found]

    def hand(self, jobs: int) -> None:
        """Enqueue jobs of weights 1 to 3, all assigned to the first node."""
        ((node_id, incarnation),) = self.rows(
            "select node_id, incarnation from txqueue.node_info where name = 'bench-0'"
        )
        self.run(
            "select count(txqueue.enqueue_assigned(%s, %s, %s, %s::jsonb,"
            " weight => 1 + number %% 3)) from generate_series(1, %s) as number",
            *(node_id, incarnation, Waits.work_type, json.dumps({"seconds": SECONDS}), jobs),
        )

    def stop(self) -> None:
        """End all."""
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.processes:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        self.connection.close()


def start(
    dsn: str, folder: Path, number: int, capacity: int, *, has_links: bool
) -> subprocess.Popen[bytes]:
    """Start one node with one worker, at an address of its own."""
    folder.mkdir(exist_ok=True)
    address = f"127.0.0.{number + 1}"
    with closing(socket.socket()) as trial:
        trial.bind((address, 0))
        port = trial.getsockname()[1]
    links = ["--listen", f"tcp:{port}:interface={address}"] if has_links else []
    with (folder / "log").open("wb") as log:
        return subprocess.Popen(
            [
                *(str(Path(sys.executable).with_name("twistd")), "-n", "--pidfile=", "txqueue"),
                *("--app", "benchmarks.work", "--workers", "1", "--capacity", str(capacity)),
                *("--name", f"bench-{number}", "--lease", "4", *links),
            ],
            env={**os.environ, "TXQUEUE_DSN": dsn, "TXQUEUE_STATE_DIR": str(folder)},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@contextmanager
def cluster(dsn: str, *, has_links: bool = True, capacity: int = CAPACITY) -> Iterator[Cluster]:
    """Four nodes, ended at the end."""
    with tempfile.TemporaryDirectory() as name:
        nodes = Cluster(dsn, Path(name), has_links=has_links, capacity=capacity)
        try:
            yield nodes
        finally:
            nodes.stop()


def spread(dsn: str) -> dict[str, Any]:
    """All jobs are handed to one node; how much of their weight each node has done."""
    with cluster(dsn) as nodes:
        nodes.hand(WAITING)
        seconds = nodes.done(WAITING)
        return {"seconds": round(seconds, 2), "shares": nodes.shares()}


def death(dsn: str) -> dict[str, Any]:
    """The node that all jobs were handed to is killed while it has some."""
    with cluster(dsn) as nodes:
        nodes.hand(WAITING)
        nodes.until("select count(*) > 200 from txqueue.job where state = 'done'", answer=True)
        os.killpg(nodes.processes[0].pid, signal.SIGKILL)
        seconds = nodes.done(WAITING)
        ((twice,),) = nodes.rows("select count(*) - count(distinct job_id) from txqueue.job")
        done = nodes.rows("select count(distinct job_id) from txqueue.job where state = 'done'")[0][
            0
        ]
        lost = WAITING - done
        return {"seconds": round(seconds, 2), "lost": lost, "twice_in_history": twice}


def drain(dsn: str, *, has_links: bool) -> float:
    """Jobs that do nothing, ready before: how many a second."""
    with cluster(dsn, has_links=has_links, capacity=100) as nodes:
        nodes.run(
            "select count(txqueue.enqueue(%s, '{}', not_before => now() + interval '6 s'))"
            " from generate_series(1, %s)",
            *(Nothing.work_type, NO_OPS),
        )
        nodes.until("select count(*) > 0 from txqueue.job where state = 'done'", answer=True)
        return NO_OPS / nodes.done(NO_OPS)


def main() -> None:
    """Measure, and print."""
    with EmbeddedServer() as dsn:
        migrate(dsn)
        result: dict[str, Any] = {"spread": spread(dsn), "death": death(dsn)}
        linked = [drain(dsn, has_links=True) for _ in range(ROUNDS)]
        cut = [drain(dsn, has_links=False) for _ in range(ROUNDS)]
        result["jobs_per_second"] = {"linked": sorted(map(round, linked))}
        result["jobs_per_second"]["cut"] = sorted(map(round, cut))
        result["ratio"] = round(sorted(cut)[ROUNDS // 2] / sorted(linked)[ROUNDS // 2], 2)
        print(json.dumps(result))


if __name__ == "__main__":
    main()

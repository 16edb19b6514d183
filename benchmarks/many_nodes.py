"""What hundreds of nodes cost each other and the database: idle, in a burst, and when many die.

    python -m benchmarks.many_nodes [--lease seconds] [nodes ...]

Runs a fresh embedded server and the real masters of so many nodes, many in one process, with their
own connections, leases and links between them. Only their workers are simulated: they speak the
protocol of a worker process, and end each job after the time that it says. Prints, for each number
of nodes, the statements of each and the CPU time of the server per second while all are idle; how
many claims single jobs cause, and how soon they are assigned; how many nodes get jobs of a burst,
and how long it takes; and, after one process with its nodes is
killed, how long it takes until each of their jobs has run. Their hosts look different to each
other, so that only the leases tell who is dead.

The first burst is measured with new sessions, each of which plans every statement at its first use;
the second one with the same sessions. A longer lease lets a machine that is too small for so many
masters show what a larger one would.
"""

from __future__ import annotations

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from attrs import define
from rich.console import Console
from twisted.logger import (
    FilteringLogObserver,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogBeginner,
    textFileLogObserver,
)

from benchmarks.simulated_workers import simulating
from txqueue import WorkItem
from txqueue.demo.node import enqueue_all, publish
from txqueue.embedded import EmbeddedServer
from txqueue.node.node import Node
from txqueue.node.settings import NodeSettings
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate
from txqueue.system.clock import steady
from txqueue.system.processes import stat_of
from txqueue.wire.endpoints import parsed_endpoint
from txqueue_bench.cpu_time import cpu_seconds

PROCESSES, CAPACITY, LEASE = 5, 10, 10.0
IDLE, PATIENCE = 20.0, 300.0
# Seconds for each node until a fleet has planned its statements, with two cores.
CALM_DOWN = 0.15
JOBS, BURST_SECONDS, DEATH_SECONDS = 10_000, 4.0, 8.0
TRICKLE, TRICKLE_RATE = 1000, 50
ALONE, TOGETHER = ("idle", "trickle"), ("burst", "burst_again", "die")
FIRST_PORT = 20_000
STATEMENTS = """
    select xact_commit + xact_rollback from pg_stat_database where datname = current_database()
"""
CLAIMS = """
    select coalesce(sum(calls), 0) from pg_stat_user_functions
     where funcname in ('next_job', 'claim_ready')
"""
LATENCY = """
    select percentile_cont(0.5) within group (order by ms),
           percentile_cont(0.99) within group (order by ms)
      from (select extract(epoch from assigned_at - enqueued_at) * 1000 as ms
              from txqueue.job order by job_id desc limit %s) as last
"""
REGISTERED = "select pg_sequence_last_value('txqueue.incarnation')"
DONE = "select count(*) from txqueue.job where job_id >= {} and state = 'done'"


@define
class Lasts(WorkItem):
    """Takes a time."""

    seconds: float

    work_type = "benchmarks.many_nodes.lasts"

    async def perform(self, job: Any) -> None:
        """Never called: the workers are simulated."""


def run_nodes(dsn: str, lease: float, first: int, count: int) -> None:
    """Run the masters of some nodes until this process is killed."""
    from twisted.internet import main
    from twisted.internet.epollreactor import EPollReactor

    warnings = FilteringLogObserver(
        textFileLogObserver(sys.stderr), [LogLevelFilterPredicate(LogLevel.warn)]
    )
    globalLogBeginner.beginLoggingTo([warnings], redirectStandardIO=False)
    reactor = simulating(steady(EPollReactor), CAPACITY)()
    main.installReactor(reactor)
    for number in range(first, first + count):
        settings = NodeSettings(
            dsn,
            [],
            capacity=CAPACITY,
            name=f"n{number}",
            lease=lease,
            listen=parsed_endpoint(f"tcp:{FIRST_PORT + number}"),
            host=f"host {first}",
        )
        node = Node(reactor, settings)
        # Not all in one turn of the reactor, as they share it.
        reactor.callLater((number - first) * 0.02, node.startService)
    reactor.run()


def process_seconds(pid: int) -> tuple[float, float]:
    """Return the CPU time of a process so far: in its own code, and in the system's."""
    ticks = os.sysconf("SC_CLK_TCK")
    user, system = stat_of(pid)[11:13]
    return int(user) / ticks, int(system) / ticks


class Fleet:
    """The processes of some nodes on one database.

    Args:
        dsn: The database.
        session: A session in it.
        nodes: How many nodes there are.
        lease: Their lease, in seconds.
        folder: The folder for their logs.
    """

    def __init__(self, dsn: str, session: Session, nodes: int, lease: float, folder: Path) -> None:
        self.session = session
        self.nodes = nodes
        self.lease = lease
        self.registered = 0
        size = self._size = -(-nodes // PROCESSES)
        with (folder / "log").open("wb") as log:
            self.processes = [
                subprocess.Popen(
                    [
                        sys.executable,
                        "-m",
                        __spec__.name,
                        "run",
                        str(lease),
                        str(first),
                        str(min(size, nodes - first)),
                    ],
                    env={**os.environ, "TXQUEUE_DSN": dsn},
                    stdout=log,
                    stderr=log,
                    process_group=0,
                )
                for first in range(0, nodes, size)
            ]

    def stop(self) -> None:
        """Kill all processes."""
        for process in self.processes:
            process.kill()
            process.wait()

    def alive(self) -> int:
        """Return how many nodes have a valid lease."""
        return int(
            self.session.value("select count(*) from txqueue.node_info where state = 'alive'")
        )

    def wait(self, statement: str, wanted: int) -> float:
        """Wait until a statement returns a number; return the seconds."""
        began = time.monotonic()
        while (value := self.session.value(statement)) != wanted:
            if time.monotonic() - began > PATIENCE:
                raise TimeoutError(f"{value} instead of {wanted}: {statement}")
            time.sleep(0.2)
        return round(time.monotonic() - began, 1)

    def idle(self) -> dict[str, float]:
        """Measure the fleet while there is no work."""
        backend = int(self.session.value("select pg_backend_pid()"))
        before, statements = self._cpu(backend), int(self.session.value(STATEMENTS))
        began = time.monotonic()
        time.sleep(IDLE)
        passed = time.monotonic() - began
        server, masters = (now - then for now, then in zip(self._cpu(backend), before, strict=True))
        # A session reports its statements about once a second while it is not idle.
        statements = int(self.session.value(STATEMENTS)) - statements
        return {
            "statements_per_second_and_node": round(statements / passed / self.nodes, 2),
            "server_cpu_percent": round(server / passed * 100, 1),
            "server_cpu_ms_per_second_and_node": round(server / passed / self.nodes * 1000, 3),
            "masters_cpu_percent": round(masters / passed * 100, 1),
            "masters_cpu_ms_per_second_and_node": round(masters / passed / self.nodes * 1000, 3),
        }

    def trickle(self) -> dict[str, float]:
        """Enqueue single jobs, a few times a second, and count what they wake."""
        claims, began = self._claims(), time.monotonic()
        for number in range(TRICKLE):
            enqueue_all(self.session, [Lasts(0.0)], lambda _: None)
            time.sleep(max(0.0, began + number / TRICKLE_RATE - time.monotonic()))
        passed = time.monotonic() - began
        latency = self.session.rows(LATENCY, (TRICKLE,))[0]
        return {
            "jobs_per_second": TRICKLE_RATE,
            "claims_per_second": round((self._claims() - claims) / passed, 1),
            "p50_ms": round(latency[0], 1),
            "p99_ms": round(latency[1], 1),
        }

    def _cpu(self, backend: int) -> tuple[float, float]:
        masters = sum(sum(process_seconds(process.pid)) for process in self.processes)
        return cpu_seconds(0, backend) or 0.0, masters

    def _registrations(self) -> int:
        return int(self.session.value(REGISTERED))

    def quieted(self) -> None:
        """Note the registrations so far; each later one is of a node taken for dead."""
        self.registered = self._registrations()

    def _claims(self) -> int:
        return int(self.session.value(CLAIMS))

    def burst(self) -> dict[str, float]:
        """Enqueue many jobs at once, which take all nodes together `BURST_SECONDS`."""
        backend = int(self.session.value("select pg_backend_pid()"))
        claims, first, before = self._claims(), self._enqueue(BURST_SECONDS), self._cpu(backend)
        seconds = self.wait(DONE.format(first), JOBS)
        server, nodes = (
            round((now - then) / seconds * 100)
            for now, then in zip(self._cpu(backend), before, strict=True)
        )
        spread = self.session.rows(
            "select count(*)::integer from txqueue.job where job_id >= %s group by node_id",
            (first,),
        )
        return {
            "seconds": seconds,
            "ideal_seconds": BURST_SECONDS,
            "nodes_with_jobs": len(spread),
            "most_jobs_of_a_node": max(row[0] for row in spread),
            "claims": self._claims() - claims,
            "server_cpu_percent": server,
            "nodes_cpu_percent": nodes,
        }

    def burst_again(self) -> dict[str, float]:
        """Measure a burst once the sessions have planned their statements."""
        return self.burst()

    def die(self) -> dict[str, float]:
        """Kill one process with all its nodes while all have jobs."""
        first = self._enqueue(DEATH_SECONDS)
        most = min(JOBS, self.nodes * CAPACITY)
        self.wait(f"select (count(*) >= {most * 0.9})::integer from txqueue.job_assigned", 1)
        dying = self.processes.pop()
        number = self.nodes - self._size * len(self.processes)
        dying.send_signal(signal.SIGKILL)
        dying.wait()
        began = time.monotonic()
        dead = [
            str(row[0])
            for row in self.session.rows(
                "select incarnation from txqueue.node_info where pid = %s", (dying.pid,)
            )
        ]
        orphans = (
            "select count(*) from txqueue.job_assigned"
            f" where incarnation = any ('{{{','.join(dead)}}}')"
        )
        lost = int(self.session.value(orphans))
        self.wait(orphans, 0)
        rescued = time.monotonic() - began
        self.wait(DONE.format(first), JOBS)
        return {
            "nodes_killed": number,
            "jobs_they_held": lost,
            "rescued_after_seconds": round(rescued, 1),
            "lease": self.lease,
            "all_done_after_seconds": round(time.monotonic() - began, 1),
            "registered_again": self._registrations() - self.registered,
        }

    def _enqueue(self, seconds: float) -> int:
        each = seconds * self.nodes * CAPACITY / JOBS
        return enqueue_all(self.session, [Lasts(each)] * JOBS, lambda _: None)[0]


@contextmanager
def fleet(nodes: int, lease: float) -> Iterator[Fleet]:
    """Start a server and so many nodes, and wait until all are registered."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="txqueue-nodes-")))
        dsn = stack.enter_context(
            EmbeddedServer(
                settings={"max_connections": str(100 + 5 * nodes), "track_functions": "pl"}
            )
        )
        migrate(dsn)
        session = stack.enter_context(Session(dsn, "txqueue", "benchmark"))
        publish(session, Lasts)
        its = Fleet(dsn, session, nodes, lease, folder)
        stack.callback(its.stop)
        its.wait("select count(*) from txqueue.node_info where state = 'alive'", nodes)
        # Until they have linked and calmed down.
        time.sleep(max(2 * lease, CALM_DOWN * nodes))
        its.quieted()
        yield its


def main(numbers: Sequence[int], lease: float) -> None:
    """Measure and print."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, hard), hard))
    console = Console(stderr=True)
    told: dict[str, Any] = {}
    for nodes in numbers or (1, 100, 500):
        with fleet(nodes, lease) as its:
            told[str(nodes)] = figures = {}
            for what in ALONE if nodes < PROCESSES else ALONE + TOGETHER:
                console.print(f"{nodes} nodes: {what}")
                figures[what] = getattr(its, what)()
                console.print_json(data=figures[what])
    Console().print_json(data=told)


def read_arguments() -> argparse.Namespace:
    """Return the numbers of nodes and their lease."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("nodes", nargs="*", type=int, help="how many nodes; several in turn")
    parser.add_argument("--lease", type=float, default=LEASE, help="the nodes' lease, in seconds")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        run_nodes(os.environ["TXQUEUE_DSN"], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        chosen = read_arguments()
        main(chosen.nodes, chosen.lease)

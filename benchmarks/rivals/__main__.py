"""txqueue beside graphile-worker and PGQueuer: the same work, one server, one after the other.

    python -m benchmarks.rivals [jobs [rounds]]

Needs npm. Installs both into a temporary folder, runs a fresh embedded server, and measures each in
turn, some rounds: enqueueing one at a time on one connection and in bulk, two workers that drain
a full queue of jobs that do nothing, and how soon a job starts on an idle worker, one every 20 ms,
and at a steady 500 a second, with the CPU time in seconds of 1,000 such jobs; txqueue's also where
its process has joined the node.
Prints all figures, their medians, and how many times better txqueue's median is. Figures
of one run belong to one machine and one hour: compare them with each other and nothing else.

The rivals' time of a drain is from the first job that ran to the last one that ran; txqueue's also
has the claim of the first and the completion of the last. graphile-worker deletes jobs that are
done; PGQueuer and txqueue keep them.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import psycopg2.extensions
from attrs import frozen
from rich.console import Console

from txqueue.bench.cpu_time import cpu_seconds
from txqueue.bench.environment import warm_log
from txqueue.embedded import EmbeddedServer
from txqueue.store.reader import Session

HERE = Path(__file__).parent
WORKERS, SECONDS, TIMED, WARM_UP, EVERY_MS = 2, 3, 500, 20, 20
RATE, STEADY_SECONDS = 500, 10
LIMIT = 900.0
SETTLE = 2.0
VERSIONS = {"graphile-worker": "0.18.0", "pgqueuer": "1.6.0"}
FALLS = ("p50", "p99", "steady_p50", "steady_p99", "steady_cpu")

Figures = dict[str, float]


@frozen
class Rival:
    """Another queue, which a program of ours drives.

    Attributes:
        command: What runs it; a verb and its parameters follow.
        environment: With the place of its database.
        session: A session in its database.
        waiting: The statement that tells whether jobs are waiting or running.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    session: Session
    waiting: str

    def ask(self, *verb: object) -> dict[str, Any]:
        """Run a verb to its end; return its output."""
        line = [*self.command, *map(str, verb)]
        done = subprocess.run(
            line, env=self.environment, check=True, timeout=LIMIT, stdout=subprocess.PIPE
        )
        return dict(json.loads(done.stdout.splitlines()[-1]))

    def begin(self, kind: str) -> subprocess.Popen[str]:
        """Start a worker process."""
        line = [*self.command, "work", kind]
        return subprocess.Popen(
            line,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def wait_until_done(self) -> None:
        """Wait until no job is left."""
        until = time.monotonic() + LIMIT
        while self.session.value(self.waiting):
            if time.monotonic() > until:
                raise TimeoutError(f"{self.command} is not done after {LIMIT:.0f} s")
            time.sleep(0.1)

    def measure(self, jobs: int) -> Figures:
        """Measure all."""
        singly = self.ask("one", SECONDS)["per_second"]
        self.drain(workers=1)
        bulk = self.ask("bulk", jobs)["per_second"]
        return {
            **{"one_at_a_time": singly, "bulk": bulk, "drain": self.drain()},
            **self.trickle(),
        }

    def trickle(self) -> Figures:
        """Measure how soon jobs start, and what they cost."""
        idle = self.latency(TIMED, EVERY_MS)
        steady = self.latency(RATE * STEADY_SECONDS, 1000 / RATE)
        return {
            "p50": idle["p50"],
            "p99": idle["p99"],
            **{f"steady_{part}": figure for part, figure in steady.items()},
        }

    def drain(self, workers: int = WORKERS) -> float:
        """Return the jobs a second of some workers."""
        self.session.rows("vacuum analyze")
        processes = [self.begin("bulk") for _ in range(workers)]
        self.wait_until_done()
        told = [each for each in map(ended, processes) if each["count"]]
        first, last = min(each["first"] for each in told), max(each["last"] for each in told)
        return float(sum(each["count"] for each in told) / (last - first))

    def latency(self, jobs: int, every_ms: float) -> Figures:
        """Return how soon jobs start, enqueued at an interval in ms, in ms; and the CPU time of the
        worker and the server, in seconds per 1,000 jobs.
        """
        process = self.begin("single")
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(SETTLE)
        backend = int(self.session.value("select pg_backend_pid()"))
        before = cpu_seconds(process.pid, backend) or 0.0
        self.ask("send", WARM_UP + jobs, every_ms)
        self.wait_until_done()
        spent = (cpu_seconds(process.pid, backend) or 0.0) - before
        parts = quantiles(ended(process)["took"][WARM_UP:], n=100)
        return {"p50": parts[49], "p99": parts[98], "cpu": spent / (WARM_UP + jobs) * 1000}


def ended(process: subprocess.Popen[str]) -> dict[str, Any]:
    """End a worker process; return its report."""
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    return dict(json.loads(said.splitlines()[-1]))


def ours(dsn: str, jobs: int) -> Figures:
    """Measure txqueue by its own commands."""

    def bench(*what: object) -> dict[str, Any]:
        line = [Path(sys.executable).parent / "txqueue", "bench", *what, "--json"]
        told = subprocess.run(
            [*map(str, line)],
            env={**os.environ, "TXQUEUE_DSN": dsn},
            check=True,
            timeout=LIMIT,
            stdout=subprocess.PIPE,
        )
        return dict(json.loads(told.stdout))

    enqueued = bench("enqueue", "--jobs", jobs)
    return {
        "one_at_a_time": enqueued["one_at_a_time_per_second"],
        "bulk": enqueued["bulk_per_second"],
        "drain": bench("drain", "--jobs", jobs, "--workers", WORKERS)["jobs_per_second"],
        **our_trickle(bench),
    }


def our_trickle(bench: Callable[..., dict[str, Any]]) -> Figures:
    """Measure how soon jobs start, by plain SQL and where the process has joined the node."""
    idle = bench("latency", "--jobs", TIMED, "--road", "claim")
    short = bench("latency", "--jobs", TIMED)
    pace = ("--rate", RATE, "--seconds", STEADY_SECONDS)
    steady, joined = bench("steady", *pace, "--road", "claim"), bench("steady", *pace)
    return {
        "p50": idle["p50_ms"],
        "p99": idle["p99_ms"],
        "joined_p50": short["p50_ms"],
        "joined_p99": short["p99_ms"],
        "steady_p50": steady["p50_ms"],
        "steady_p99": steady["p99_ms"],
        "steady_cpu": steady["cpu_seconds_per_1000"],
        "steady_joined_p50": joined["p50_ms"],
        "steady_joined_p99": joined["p99_ms"],
        "steady_joined_cpu": joined["cpu_seconds_per_1000"],
    }


@contextmanager
def rivals(dsn: str, folder: Path) -> Iterator[dict[str, Rival]]:
    """Install the rivals, and make each a database."""
    with Session(dsn) as session:
        for name in ("graphile", "pgqueuer"):
            session.rows(f"create database {name}")
    there = psycopg2.extensions.parse_dsn(dsn)
    with (
        Session(dsn_of(there, "graphile")) as graphile,
        Session(dsn_of(there, "pgqueuer")) as pgqueuer,
    ):
        yield {
            "graphile-worker": Rival(
                ("node", str(installed_graphile(folder))),
                environment(there, "graphile"),
                graphile,
                "select exists (select from graphile_worker._private_jobs)",
            ),
            "pgqueuer": Rival(
                (str(installed_pgqueuer(folder)), str(HERE / "with_pgqueuer.py")),
                environment(there, "pgqueuer"),
                pgqueuer,
                "select exists (select from pgqueuer)",
            ),
        }


def dsn_of(there: Mapping[str, str], name: str) -> str:
    """Return the DSN of another database of the same server."""
    return psycopg2.extensions.make_dsn(**{**there, "dbname": name})


def environment(there: Mapping[str, str], name: str) -> dict[str, str]:
    """Return the environment in which clients find a database."""
    place = {"PGHOST": there["host"], "PGPORT": there.get("port", "5432"), "PGUSER": there["user"]}
    return {**os.environ, **place, "PGDATABASE": name}


def installed_graphile(folder: Path) -> Path:
    """Install graphile-worker; returns the program beside it."""
    package = f"graphile-worker@{VERSIONS['graphile-worker']}"
    subprocess.run(
        ["npm", "install", "--silent", "--prefix", folder, package], check=True, timeout=LIMIT
    )
    program = folder / "graphile_worker.js"
    program.write_text((HERE / program.name).read_text())
    return program


def installed_pgqueuer(folder: Path) -> Path:
    """Install PGQueuer; returns the Python that has it."""
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True, timeout=LIMIT)
    python = folder / "venv" / "bin" / "python"
    package = f"pgqueuer[asyncpg]=={VERSIONS['pgqueuer']}"
    subprocess.run([python, "-m", "pip", "install", "--quiet", package], check=True, timeout=LIMIT)
    return python


def better(what: str, mine: float, theirs: float) -> float:
    """Say how many times as good one figure is as another."""
    return round(theirs / mine if what in FALLS else mine / theirs, 2)


def summary(figures: Mapping[str, Mapping[str, list[float]]]) -> dict[str, Any]:
    """Return the medians, and how many times as good txqueue's are as each rival's."""
    medians = {
        name: {what: median(rounds) for what, rounds in its.items()}
        for name, its in figures.items()
    }
    mine = medians.pop("txqueue")
    return {
        "medians": {"txqueue": mine, **medians},
        "times_as_good": {
            name: {what: better(what, mine[what], theirs) for what, theirs in its.items()}
            for name, its in medians.items()
        },
    }


def main(jobs: int = 200_000, rounds: int = 3) -> None:
    """Run and print."""
    console = Console(stderr=True)
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (
        tempfile.TemporaryDirectory(prefix="txqueue-rivals-") as folder,
        EmbeddedServer() as dsn,
        rivals(dsn, Path(folder)) as others,
    ):
        for rival in others.values():
            rival.ask("migrate")
        with Session(dsn) as session:
            warm_log(session)
        measured: dict[str, Callable[[int], Figures]] = {
            "txqueue": lambda jobs: ours(dsn, jobs),
            **{name: rival.measure for name, rival in others.items()},
        }
        for turn in range(rounds):
            for name, measure in measured.items():
                console.print(f"round {turn + 1}: {name}")
                with Session(dsn) as session:
                    session.rows("checkpoint")
                for what, figure in measure(jobs).items():
                    figures[name][what].append(round(figure, 2))
    Console().print_json(data={"versions": VERSIONS, "figures": figures, **summary(figures)})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))

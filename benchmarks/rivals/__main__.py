"""txqueue beside other queues: the same work, on one machine, by turns.

    python -m benchmarks.rivals [--tcp] [jobs [rounds [name …]]]

The others are graphile-worker (needs npm), PGQueuer, procrastinate, and Celery (needs
redis-server); all, or those that are named. Installs them into a temporary folder, runs a fresh
embedded server, and measures one thing with each of them before the next, some rounds: enqueueing
one at a time on one connection and in bulk, and two workers that drain a full queue of jobs that do
nothing; how soon a job starts on an idle worker, one every 20 ms; and that at a steady 500 a
second, with the CPU time in seconds of 1,000 such jobs. txqueue's also where its process has
joined the node.

With --tcp all connections to PostgreSQL lead through a port of this host, which trusts all accounts
of it, as long as this runs; otherwise through a unix socket.

Prints all figures, their medians, and how many times better txqueue is: the middle of the rounds'
ratios. Figures of one run belong to one machine and one hour: compare them with each other and
nothing else.

The rivals' time of a drain is from the first job that ran to the last one that ran; txqueue's also
has the claim of the first and the completion of the last. graphile-worker and Celery delete jobs
that are done; the others keep them. With Celery's defaults, used here, a job is forgotten when a
worker begins it, and Redis answers before it has written anything: a crash of either loses jobs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.rivals.installed import RIVALS, VERSIONS, rivals
from benchmarks.rivals.rival import LIMIT, RATE, STEADY_SECONDS, TIMED, WORKERS, Figures, Stage
from txqueue.embedded import EmbeddedServer
from txqueue.store.inquiries.reader import Session
from txqueue_bench.environment import warm_log
from txqueue_torture.node import free_port

FALLS = ("p50", "p99", "steady_p50", "steady_p99", "steady_cpu")


def ours(dsn: str) -> Mapping[str, Stage]:
    """Measure txqueue by its own commands, by plain SQL and where the process has joined a node."""

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

    def bulk(jobs: int) -> Figures:
        enqueued = bench("enqueue", "--jobs", jobs)
        return {
            "one_at_a_time": enqueued["one_at_a_time_per_second"],
            "bulk": enqueued["bulk_per_second"],
            "drain": bench("drain", "--jobs", jobs, "--workers", WORKERS)["jobs_per_second"],
        }

    def idle(way: str, *road: str) -> Figures:
        told = bench("latency", "--jobs", TIMED, *road)
        return {f"{way}p50": told["p50_ms"], f"{way}p99": told["p99_ms"]}

    def steady(way: str, *road: str) -> Figures:
        told = bench("steady", "--rate", RATE, "--seconds", STEADY_SECONDS, *road)
        return {
            f"steady_{way}p50": told["p50_ms"],
            f"steady_{way}p99": told["p99_ms"],
            f"steady_{way}cpu": told["cpu_seconds_per_1000"],
        }

    return {
        "bulk": bulk,
        "idle": lambda _: idle("", "--road", "claim"),
        "steady": lambda _: steady("", "--road", "claim"),
        "joined": lambda _: idle("joined_") | steady("joined_"),
    }


def better(what: str, mine: float, theirs: float) -> float:
    """Say how many times as good one figure is as another."""
    return round(theirs / mine if what in FALLS else mine / theirs, 2)


def summary(figures: Mapping[str, Mapping[str, list[float]]]) -> dict[str, Any]:
    """Return the medians, and how many times as good txqueue's figures are as each rival's: the
    middle of the rounds' own ratios, as the machine's pace changes from round to round.
    """
    mine = figures["txqueue"]
    return {
        "medians": {
            name: {what: median(rounds) for what, rounds in its.items()}
            for name, its in figures.items()
        },
        "times_as_good": {
            name: {
                what: median(better(what, *pair) for pair in zip(mine[what], rounds, strict=True))
                for what, rounds in its.items()
            }
            for name, its in figures.items()
            if name != "txqueue"
        },
    }


def turns(systems: Mapping[str, Mapping[str, Stage]]) -> Iterator[tuple[str, str, Stage]]:
    """Give one round's measurements: each of them by all systems, before the next."""
    for what in max(systems.values(), key=len):
        for name, stages in systems.items():
            if what in stages:
                yield name, what, stages[what]


@contextmanager
def server(*, by_tcp: bool) -> Iterator[str]:
    """Run a server; return its DSN."""
    if not by_tcp:
        with EmbeddedServer() as dsn:
            yield dsn
        return
    port = free_port()
    with EmbeddedServer(settings={"listen_addresses": "127.0.0.1", "port": str(port)}):
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"


def main(
    jobs: int = 200_000, rounds: int = 3, names: Collection[str] = RIVALS, *, by_tcp: bool = False
) -> None:
    """Run and print."""
    console = Console(stderr=True)
    versions = {name: VERSIONS[name] for name in names}
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (
        tempfile.TemporaryDirectory(prefix="txqueue-rivals-") as folder,
        server(by_tcp=by_tcp) as dsn,
        rivals(dsn, Path(folder), names) as others,
        Session(dsn) as session,
    ):
        for rival in others.values():
            rival.ask("migrate")
        warm_log(session)
        systems = {"txqueue": ours(dsn), **{name: each.stages for name, each in others.items()}}
        for turn in range(rounds):
            for name, what, measure in turns(systems):
                console.print(f"round {turn + 1}, {what}: {name}")
                session.rows("checkpoint")
                for figure, value in measure(jobs).items():
                    figures[name][figure].append(round(value, 2))
    Console().print_json(data={"versions": versions, "figures": figures, **summary(figures)})


if __name__ == "__main__":
    given = [word for word in sys.argv[1:] if word != "--tcp"]
    jobs, rounds, *names = [*given, *("200000", "3")[len(given) :]]
    main(int(jobs), int(rounds), names or RIVALS, by_tcp="--tcp" in sys.argv)

"""txqueue beside other queues: the same work, on one machine, one after the other.

    python -m benchmarks.rivals [jobs [rounds [name …]]]

The others are graphile-worker (needs npm), PGQueuer, procrastinate, and Celery (needs
redis-server); all, or those that are named. Installs them into a temporary folder, runs a fresh
embedded server, and measures each in turn, some rounds: enqueueing one at a time on one connection
and in bulk, two workers that drain a full queue of jobs that do nothing, and how soon a job starts
on an idle worker, one every 20 ms, and at a steady 500 a second, with the CPU time in seconds of
1,000 such jobs; txqueue's also where its process has joined the node.
Prints all figures, their medians, and how many times better txqueue's median is. Figures
of one run belong to one machine and one hour: compare them with each other and nothing else.

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
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from benchmarks.rivals.installed import RIVALS, VERSIONS, rivals
from benchmarks.rivals.rival import LIMIT, RATE, STEADY_SECONDS, TIMED, WORKERS, Figures
from txqueue.bench.environment import warm_log
from txqueue.embedded import EmbeddedServer
from txqueue.store.reader import Session

FALLS = ("p50", "p99", "steady_p50", "steady_p99", "steady_cpu")


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


def main(jobs: int = 200_000, rounds: int = 3, names: Collection[str] = RIVALS) -> None:
    """Run and print."""
    console = Console(stderr=True)
    versions = {name: VERSIONS[name] for name in names}
    figures: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with (
        tempfile.TemporaryDirectory(prefix="txqueue-rivals-") as folder,
        EmbeddedServer() as dsn,
        rivals(dsn, Path(folder), names) as others,
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
    Console().print_json(data={"versions": versions, "figures": figures, **summary(figures)})


if __name__ == "__main__":
    jobs, rounds, *names = [*sys.argv[1:], *("200000", "3")[len(sys.argv) - 1 :]]
    main(int(jobs), int(rounds), names or RIVALS)

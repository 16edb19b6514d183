"""``txqueue bench``: measures this installation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Finite, GlobalOptions, Group
from txqueue.cli.output import Lines, facts, notes, show, styled
from txqueue.demo.environment import bars
from txqueue.model.humanize import amount, duration

if TYPE_CHECKING:
    from txqueue.demo.environment import Stages, TemporarySchema

__all__ = ["bench"]

BAR = 30
LABELS = {
    "jobs_per_second": "jobs/s",
    "limit_per_second": "raw SQL limit, jobs/s",
    "ratio": "ratio",
    "ran_more_than_once": "ran more than once",
    "lost": "lost",
    "history": "in history",
    "failed": "failed",
    "one_at_a_time_per_second": "one at a time, jobs/s",
    "bulk_per_second": "in bulk, jobs/s",
    "p50_ms": "half within, ms",
    "p95_ms": "95 of 100 within, ms",
    "p99_ms": "99 of 100 within, ms",
    "max_ms": "slowest, ms",
    "delivered": "by direct dispatch",
    "worker_seconds": "jobs of a killed worker run again after, s",
    "neighbour_seconds": "of a killed master, another of its host lives, s",
    "master_seconds": "of a killed master, others live, s",
    "lease": "lease, s",
    "cpu_seconds_per_1000": "CPU seconds for 1,000",
}

Measure = Callable[["TemporarySchema", "Stages"], dict[str, Any]]
_embedded = click.option("--embedded", is_flag=True, help="Measure on a fresh embedded server.")
_workers = click.option(
    "--workers",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="How many worker processes run.",
)
_road = click.option(
    "--road",
    type=click.Choice(["direct", "claim"]),
    default="direct",
    show_default=True,
    help="direct: a process that joined the node; claim: plain SQL, with open credit.",
)


def _jobs(default: int, text: str = "The number of jobs.") -> Callable[[Any], Any]:
    return click.option(
        "--jobs", type=click.IntRange(1), default=default, show_default=True, help=text
    )


@click.group(cls=Group, no_args_is_help=False, short_help="Measure this installation.")
def bench() -> None:
    """Measure this installation, in a temporary schema."""


@bench.command("enqueue")
@_jobs(200_000, "How many jobs to enqueue in bulk.")
@_embedded
@click.pass_obj
def bench_enqueue(options: GlobalOptions, jobs: int, embedded: bool) -> int:
    """Measure how fast an application enqueues, one at a time and in bulk."""
    from txqueue_bench.enqueue import enqueuing

    return _run(options, embedded, lambda target, stages: enqueuing(target, stages, jobs))


@bench.command("drain")
@_jobs(200_000)
@_workers
@_embedded
@click.pass_obj
def bench_drain(options: GlobalOptions, jobs: int, workers: int, embedded: bool) -> int:
    """Measure how fast a full queue is drained, and whether every job ran just once."""
    from txqueue_bench.drain import drain

    return _run(options, embedded, lambda target, stages: drain(target, stages, jobs, workers))


@bench.command("latency")
@_jobs(500)
@_workers
@_road
@_embedded
@click.pass_obj
def bench_latency(
    options: GlobalOptions, jobs: int, workers: int, road: str, embedded: bool
) -> int:
    """Measure how soon a job starts on an idle node."""
    from txqueue_bench.latency import latency

    def measure(target: TemporarySchema, stages: Stages) -> dict[str, Any]:
        return latency(target, stages, jobs=jobs, workers=workers, road=road)

    return _run(options, embedded, measure)


@bench.command("steady")
@click.option(
    "--rate",
    type=click.IntRange(1),
    default=500,
    show_default=True,
    help="How many jobs are enqueued in a second.",
)
@click.option(
    "--seconds",
    type=click.IntRange(1),
    default=20,
    show_default=True,
    help="For how many seconds jobs are enqueued.",
)
@_workers
@_road
@_embedded
@click.pass_obj
def bench_steady(
    options: GlobalOptions, *, rate: int, seconds: int, workers: int, road: str, embedded: bool
) -> int:
    """Measure how soon jobs start at a steady rate, and what they cost."""
    from txqueue_bench.latency import steady

    def measure(target: TemporarySchema, stages: Stages) -> dict[str, Any]:
        return steady(target, stages, rate=rate, seconds=seconds, workers=workers, road=road)

    return _run(options, embedded, measure)


@bench.command("decay")
@_jobs(50_000, "How many jobs per wave.")
@click.option(
    "--waves",
    type=click.IntRange(2),
    default=10,
    show_default=True,
    help="How many waves of jobs run.",
)
@click.option(
    "--held-snapshot", is_flag=True, help="Hold a snapshot that keeps vacuum from all dead rows."
)
@click.option(
    "--rounds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Repetitions, each with fresh tables; the median of each wave counts.",
)
@_workers
@_embedded
@click.pass_obj
def bench_decay(
    options: GlobalOptions,
    *,
    jobs: int,
    waves: int,
    held_snapshot: bool,
    rounds: int,
    workers: int,
    embedded: bool,
) -> int:
    """Measure whether a queue gets slower when it is filled and drained again and again."""
    from txqueue_bench.decay import decay, typical

    numbers = count(1)

    def measure(target: TemporarySchema, stages: Stages) -> dict[str, Any]:
        title = f"round {next(numbers)} of {rounds}, " if rounds > 1 else ""
        return decay(
            target=target,
            stages=stages,
            jobs=jobs,
            waves=waves,
            workers=workers,
            held_snapshot=held_snapshot,
            title=title,
        )

    return _run(options=options, embedded=embedded, measure=measure, rounds=rounds, summary=typical)


@bench.command("rescue")
@click.option(
    "--lease", type=Finite(1), default=10, show_default=True, help="The lease in seconds."
)
@_workers
@_embedded
@click.pass_obj
def bench_rescue(options: GlobalOptions, lease: float, workers: int, embedded: bool) -> int:
    """Measure how soon the jobs of a killed worker, and of a killed master, run again."""
    from txqueue_bench.rescue import rescue

    return _run(options, embedded, lambda target, stages: rescue(target, stages, workers, lease))


def _run(
    options: GlobalOptions,
    embedded: bool,
    measure: Measure,
    rounds: int = 1,
    summary: Callable[[list[dict[str, Any]]], dict[str, Any]] = itemgetter(0),
) -> int:
    """Measure and print; return 1 if a job was lost or ran twice."""
    results = []
    with bars(notes(options)) as stages:
        for _ in range(rounds):
            with _schema(options, embedded, stages) as target:
                results.append(measure(target, stages))
    result = summary(results)
    show(options, result, lambda: _lines(result))
    return 1 if _is_faulty(result) else 0


def _schema(
    options: GlobalOptions, embedded: bool, stages: Stages
) -> AbstractContextManager[TemporarySchema]:
    from txqueue_bench.environment import own_schema, warm_schema

    return warm_schema(stages) if embedded else own_schema(options.chosen_dsn, stages)


def _is_faulty(result: Mapping[str, Any]) -> bool:
    bad = ("lost", "ran_more_than_once", "failed")
    return (
        any(result.get(name) for name in bad)
        or result.get("history", result["jobs"]) != result["jobs"]
    )


def _lines(result: Mapping[str, Any]) -> Lines:
    yield styled(f"{result['workload']}: {_jobs_text(result)}", "bold")
    yield facts(
        (label, _cell(name, result[name]))
        for name, label in LABELS.items()
        if result.get(name) is not None
    )
    if "waves" in result:
        yield facts(_bars(result["waves"]))
    yield styled(
        f"PostgreSQL {result['postgres']}, txqueue {result['txqueue']}, fsync {result['fsync']},"
        f" synchronous_commit {result['synchronous_commit']}",
        "dim",
    )


def _jobs_text(result: Mapping[str, Any]) -> str:
    by = f", {result['workers']} workers" if result["workers"] else ""
    snapshot_text = ", one snapshot held" if result.get("held_snapshot") else ""
    rounds = f", {result['rounds']} rounds" if "rounds" in result else ""
    return (
        f"{amount(result['jobs'])} jobs in {duration(result['seconds'])}{rounds}{by}{snapshot_text}"
    )


def _cell(name: str, value: float) -> object:
    is_bad = name in ("lost", "ran_more_than_once", "failed") and value
    text = f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"
    return styled(f"{text:>9}", "bold red" if is_bad else "")


def _bars(waves: list[int]) -> Iterator[tuple[str, object]]:
    most = max(waves)
    for number, speed in enumerate(waves, 1):
        line = styled("█" * round(BAR * speed / most), "cyan")
        yield f"wave {number}", line.append_text(styled(f" {amount(speed)} jobs/s"))

"""``txqueue demo``: a database, a node and jobs on this machine, without any setup."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import Lines, facts, notes, show, styled
from txqueue.demo.progress import bars
from txqueue.errors import ConfigurationError
from txqueue.model.humanize import amount, duration, rate

if TYPE_CHECKING:
    from txqueue.demo.environment import TemporarySchema
    from txqueue.demo.progress import Stages

__all__ = ["demo"]

APP = "txqueue.demo.work"


@click.command(cls=Command, short_help="Run a database, a node and jobs here, and clean up.")
@click.option("--jobs", type=click.IntRange(1), default=100_000, show_default=True)
@click.option("--workers", type=click.IntRange(1), default=2, show_default=True)
@click.pass_obj
def demo(options: GlobalOptions, jobs: int, workers: int) -> int:
    """Start a database and a node here, run some jobs, and clean up."""
    if options.dsn:
        raise ConfigurationError(
            "the demo starts its own server and takes no --dsn",
            "leave it out; to measure your database: txqueue bench drain --dsn DSN",
        )
    from txqueue.demo.environment import embedded_schema

    with bars(notes(options)) as stages, embedded_schema(stages) as target:
        document = _perform(target, stages, jobs, workers)
    show(options, document, lambda: _summary(document))
    return 0 if document["done"] == jobs else 1


def _perform(target: TemporarySchema, stages: Stages, jobs: int, workers: int) -> dict[str, Any]:
    from txqueue.demo.node import RunningNode
    from txqueue.demo.traffic import enqueue_all, outcome, publish, wait_until_done
    from txqueue.demo.work import Nothing

    with target.session() as session:
        publish(session, Nothing)
        began = time.monotonic()
        enqueue_all(session, map(Nothing, range(jobs)), stages.begin("enqueuing", jobs))
        filled = time.monotonic() - began
        stages.begin("starting a node")
        with RunningNode(target, APP, workers) as node:
            advance = stages.begin("performing", jobs)
            wait_until_done(session, node, jobs, advance)
        span = outcome(session)
    return {
        "jobs": jobs,
        "done": span.done,
        "failed": span.failed,
        "seconds": round(span.seconds, 3),
        "jobs_per_second": round(span.done / span.seconds) if span.seconds else 0,
        "enqueue_per_second": round(jobs / filled),
        "workers": workers,
        **target.facts(),
    }


def _summary(result: Mapping[str, Any]) -> Lines:
    yield facts(
        [
            ("jobs", amount(result["jobs"])),
            ("done", styled(amount(result["done"]), "green")),
            ("failed", styled(amount(result["failed"]), "red" if result["failed"] else "")),
            ("performed in", duration(result["seconds"])),
            ("performed", f"{rate(result['jobs_per_second'])} jobs/s"),
            ("enqueued", f"{rate(result['enqueue_per_second'])} jobs/s"),
            ("by", f"{result['workers']} workers, on PostgreSQL {result['postgres']}, embedded"),
        ]
    )

"""``bench drain``: measures how fast a full queue is drained, and whether every job ran once."""

from __future__ import annotations

from array import array
from typing import Any

from txqueue.demo.environment import Pace, Stages, TemporarySchema
from txqueue.demo.node import RunningNode, enqueue_all, outcome, publish, wait_until_done
from txqueue_bench.sql_limit import raw_limit
from txqueue_bench.tally import noted_numbers
from txqueue_bench.work import Counted

__all__ = ["drain", "runs_of"]

APP = "txqueue_bench.work"


def drain(target: TemporarySchema, stages: Stages, jobs: int, workers: int) -> dict[str, Any]:
    """Fill a queue, start a node, and measure until the last job is done.

    The time is measured by the database's clock, from the first assignment to the last end. Every
    worker records the jobs that it runs, which are compared with the enqueued jobs and history.

    Args:
        target: The schema to measure in.
        stages: Shows the progress.
        jobs: How many jobs to enqueue.
        workers: How many worker processes the node has.

    Returns:
        The document that ``--json`` prints.
    """
    with target.session() as session:
        publish(session, Counted)
        enqueue_all(session, map(Counted, range(1, jobs + 1)), stages.begin("enqueuing", jobs))
        stages.begin("starting a node")
        with RunningNode(target, APP, workers) as node:
            advance = stages.begin("performing", jobs)
            # Query rarely: counting very many jobs takes time of the server that is being measured.
            wait_until_done(session, node, jobs, advance, Pace(least=0.5, share=0.01))
        span = outcome(session)
        limit = raw_limit(session, stages.begin("the limit of raw SQL", min(jobs, 100_000)))
    speed = span.done / span.seconds if span.seconds else 0.0
    lost, again = runs_of(noted_numbers(target.folder), jobs)
    return {
        "workload": "drain",
        "jobs": jobs,
        "seconds": round(span.seconds, 3),
        "workers": workers,
        "jobs_per_second": round(speed),
        "limit_per_second": round(limit),
        "ratio": round(speed / limit, 3),
        "ran_more_than_once": again,
        "lost": lost,
        "history": span.done,
        "failed": span.failed,
        **target.facts(),
    }


def runs_of(numbers: array[int], jobs: int) -> tuple[int, int]:
    """Count the jobs that never ran or ran several times.

    Args:
        numbers: The job number of each run.
        jobs: How many jobs there are; their numbers begin at 1.

    Returns:
        How many jobs never ran, and how many ran more than once.
    """
    runs = bytearray(jobs + 1)
    for number in numbers:
        runs[number] = min(runs[number] + 1, 2)
    return runs[1:].count(0), runs[1:].count(2)

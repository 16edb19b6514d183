"""Whether two databases behind one service are drained as fast as one.

    python -m benchmarks.databases [jobs [rounds]]

Runs two fresh embedded servers. By turns all jobs are put into one of them, or half into each; one
`twistd txqueue` drains what there is, with as many worker processes in all. On one machine both
ways have the same processors, so the best that can come out is 1: what is below is the cost of
being two.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence

from rich.console import Console

from txqueue.demo.environment import Pace, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue_bench.work import Counted

APP = "txqueue_bench.work"
WORKERS = 2
SPAN = """
    select extract(epoch from min(assigned_at)), extract(epoch from max(finished_at)) from {0}.job
     where state = 'done' and job_id >= %s
"""


def drained(targets: Sequence[TemporarySchema], jobs: int) -> float:
    """Have one service drain jobs from all schemas; returns jobs a second."""
    share = jobs // len(targets)
    firsts = []
    for target in targets:
        with target.session() as session:
            firsts.append(
                enqueue_all(session, map(Counted, range(1, share + 1)), lambda _: None)[0]
            )
    dsns = "\n".join(target.dsn for target in targets)
    workers = WORKERS // len(targets)
    spans = []
    with RunningNode(targets[0], APP, workers, settings={"TXQUEUE_DSN": dsns}) as node:
        for target, first in zip(targets, firsts, strict=True):
            with target.session() as session:
                pace = Pace(least=0.5, share=0.01)
                wait_until_done(session, node, share, lambda _: None, pace)
                spans += session.rows(SPAN.format(session.schema), (first,))
    return jobs / float(max(end for _, end in spans) - min(begin for begin, _ in spans))


def main(jobs: int = 100_000, rounds: int = 3) -> None:
    """Measure and print."""
    with (
        bars() as stages,
        embedded_schema(stages) as one,
        embedded_schema(stages) as two,
    ):
        for target in (one, two):
            with target.session() as session:
                publish(session, Counted)
        advance = stages.begin("draining by turns", rounds + 1)
        speeds: list[tuple[float, float]] = []
        for number in range(rounds + 1):
            speeds.append((drained([one], jobs), drained([one, two], jobs)))
            advance(number + 1)
        facts = one.facts()
    alone, together = (statistics.median(each) for each in zip(*speeds[1:], strict=True))
    Console().print_json(
        data={
            "jobs": jobs,
            "one_per_second": round(alone),
            "two_per_second": round(together),
            "ratio": round(together / alone, 3),
            **facts,
        }
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

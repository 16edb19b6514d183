"""How evenly jobs of different lengths are spread over the workers.

    python -m benchmarks.makespan [jobs [rounds [workers ...]]]

Runs a fresh embedded server and one node with two workers, then with four. The queue is filled with
jobs of which four in five take 0.1 ms and one takes 20 ms, in random order; each blocks its worker.
Prints the time from the first start to the last end, and how many times the ideal that is: the sum
of the jobs' lengths divided by the number of workers.
"""

from __future__ import annotations

import random
import statistics
import sys
import time
from typing import Any

from attrs import define
from rich.console import Console

from txqueue import WorkItem
from txqueue.demo.environment import Pace, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session

APP = "benchmarks.makespan"
SHORT, LONG, SHARE = 0.0001, 0.02, 0.2
SPAN = """
    select extract(epoch from max(finished_at) - min(assigned_at)) from {0}.job where job_id >= %s
"""


@define
class Blocks(WorkItem):
    """Blocks its worker."""

    seconds: float

    work_type = "benchmarks.makespan.blocks"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Sleep, without letting others run."""
        time.sleep(self.seconds)


def drained(session: Session, node: RunningNode, jobs: int, workers: int) -> float:
    """Fill the queue while it is paused, and have it drained; returns how many times the ideal."""
    lengths = [LONG if number < jobs * SHARE else SHORT for number in range(jobs)]
    random.shuffle(lengths)
    session.rows(f"select {session.schema}.pause('queue', 'default', 'benchmark')")
    first = enqueue_all(session, map(Blocks, lengths), lambda _: None)[0]
    session.rows(f"select {session.schema}.resume('queue', 'default', 'benchmark')")
    wait_until_done(session, node, jobs, lambda _: None, Pace(least=0.2, share=0.01))
    seconds = float(session.rows(SPAN.format(session.schema), (first,))[0][0])
    return seconds / (sum(lengths) / workers)


def measured(target: TemporarySchema, workers: int, jobs: int, rounds: int) -> list[float]:
    """Drain with a node of so many workers; the first round only warms up."""
    with target.session() as session, RunningNode(target, APP, workers) as node:
        publish(session, Blocks)
        return [drained(session, node, jobs, workers) for _ in range(rounds + 1)][1:]


def main(jobs: int = 1_000, rounds: int = 5, *workers: int) -> None:
    """Run and print."""
    with (
        bars() as stages,
        embedded_schema(stages) as target,
    ):
        told = {count: measured(target, count, jobs, rounds) for count in workers or (2, 4)}
    ratios = {
        f"{count}_workers": {
            "times_the_ideal": round(statistics.median(each), 3),
            "rounds": [round(ratio, 3) for ratio in each],
        }
        for count, each in told.items()
    }
    Console().print_json(data={"jobs": jobs, **ratios})


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

"""What more worker processes and more nodes bring, for handlers of different lengths.

    python -m benchmarks.cores [seconds]

Runs a fresh embedded server. For each number of nodes and of their workers, and for each length of
a handler, the queue is filled with as many jobs as should take some seconds, and drained. A handler
blocks its worker by sleeping, so that it needs no processor: what limits is the queue. Prints the
jobs a second, which part of the ideal that is (workers divided by length), and the CPU time of
nodes and server for one job, from which follows how many jobs a second one processor could carry.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from typing import Any

from attrs import define
from rich.console import Console

from txqueue import WorkItem
from txqueue.demo.environment import Pace, TemporarySchema, bars
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue_bench.cpu_time import cpu_seconds
from txqueue_bench.environment import warm_schema

APP = "benchmarks.cores"
# Nodes, and workers of each.
FLEETS = ((1, 1), (1, 2), (1, 4), (1, 8), (2, 2), (4, 2))
LENGTHS = (0.0, 0.0002, 0.001, 0.02)
# Jobs a second of one worker that does nothing, at least.
FASTEST = 30_000
SPAN = """
    select extract(epoch from max(finished_at) - min(assigned_at)) from {0}.job where job_id >= %s
"""


@define
class Sleeps(WorkItem):
    """Blocks its worker."""

    seconds: float

    work_type = "benchmarks.cores.sleeps"

    async def perform(self, job: Any) -> None:  # noqa: ARG002 - the handler's signature
        """Sleep, without letting others run."""
        if self.seconds:
            time.sleep(self.seconds)


def drained(
    session: Session, nodes: list[RunningNode], length: float, jobs: int
) -> tuple[float, float]:
    """Drain jobs of one length; returns the jobs a second, and the CPU time of one in us."""
    session.rows(f"select {session.schema}.pause('queue', 'default', 'benchmark')")
    first = enqueue_all(session, (Sleeps(length) for _ in range(jobs)), lambda _: None)[0]
    session.rows(f"analyze {session.schema}.job_ready")
    before = _used(session, nodes)
    session.rows(f"select {session.schema}.resume('queue', 'default', 'benchmark')")
    wait_until_done(session, nodes[0], jobs, lambda _: None, Pace(least=0.2, share=0.01))
    spent = _used(session, nodes) - before
    seconds = float(session.rows(SPAN.format(session.schema), (first,))[0][0])
    return jobs / seconds, spent / jobs * 1e6


def _used(session: Session, nodes: list[RunningNode]) -> float:
    """The CPU time of the nodes and the server."""
    backend = int(session.value("select pg_backend_pid()"))
    server = cpu_seconds(-1, backend) or 0.0
    return server + sum((cpu_seconds(node.pid, backend) or 0.0) - server for node in nodes)


def measured(
    target: TemporarySchema, nodes: int, workers: int, seconds: float
) -> list[dict[str, Any]]:
    """Measure all lengths with one fleet."""
    found = []
    with target.session() as session, ExitStack() as fleet:
        publish(session, Sleeps)
        running = [
            fleet.enter_context(RunningNode(target, APP, workers, name=f"node-{number}"))
            for number in range(nodes)
        ]
        drained(session, running, 0.0, 2_000)
        for length in LENGTHS:
            ideal = nodes * workers / length if length else None
            jobs = int(seconds * min(ideal or FASTEST, FASTEST))
            speed, cpu = drained(session, running, length, jobs)
            found.append(
                {
                    **{"nodes": nodes, "workers": workers, "handler_ms": length * 1000},
                    "per_second": round(speed),
                    "of_the_ideal": round(speed / ideal, 2) if ideal else None,
                    "cpu_us": round(cpu),
                    "per_core_second": round(1e6 / cpu),
                }
            )
    return found


def main(seconds: float = 3.0) -> None:
    """Run and print."""
    with bars() as stages, warm_schema(stages) as target:
        rows = [row for fleet in FLEETS for row in measured(target, *fleet, seconds)]
        facts = target.facts()
    Console().print_json(data={"rows": rows, **facts})


if __name__ == "__main__":
    main(*map(float, sys.argv[1:]))

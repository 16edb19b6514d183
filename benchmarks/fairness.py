"""How soon a tenant with 100 jobs is done beside one with 200,000.

    python -m benchmarks.fairness [jobs of the large one [of the small one [milliseconds a job]]]

Runs a fresh embedded server and warm nodes. Prints how long the small tenant takes from its first
start to its last end beside the large one, on a node with two workers; how long it takes alone on a
node with one, which is its share; and the ratio of the two, to stay under 1.5. The shorter the
jobs, the more the ratio shows of what a claim itself takes.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from statistics import median

from rich.console import Console

from benchmarks.work import Waits
from txqueue.demo.environment import TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, publish
from txqueue.store.inquiries.reader import Session

APP = "benchmarks.work"
WARM_UP = 2_000
ROUNDS = 3
ENDED = (
    "select extract(epoch from max(finished_at) filter (where tenant = 'small') - min(assigned_at))"
    " from {0}.job where state = 'done' and tenant <> 'warm'"
)
LEFT = (
    "select count(*) from {0}.job where tenant = %s and state in ('waiting', 'ready', 'assigned')"
)


def enqueue(session: Session, tenant: str, jobs: int, seconds: float) -> None:
    """Enqueue a tenant's jobs."""
    job = {"work_type": Waits.work_type, "payload": {"seconds": seconds}, "tenant": tenant}
    for start in range(0, jobs, 1000):
        session.enqueue_text(json.dumps([job] * min(1000, jobs - start)))


def wait_for(session: Session, tenant: str) -> None:
    """Wait until a tenant's jobs are done."""
    while session.value(LEFT.format(session.schema), (tenant,)):
        time.sleep(0.05)


def took(target: TemporarySchema, workers: int, large: int, small: int, seconds: float) -> float:
    """Run both tenants' jobs on a node with some workers; return the small one's seconds."""
    with target.session() as session, RunningNode(target, APP, workers):
        session.rows(f"truncate {session.schema}.job")
        enqueue(session, "warm", WARM_UP, seconds)
        wait_for(session, "warm")
        session.value(f"select {session.schema}.pause('queue', 'default', 'benchmark')::text")
        enqueue(session, "large", large, seconds)
        enqueue(session, "small", small, seconds)
        session.value(f"select {session.schema}.resume('queue', 'default', 'benchmark')::text")
        wait_for(session, "small")
        return float(session.value(ENDED.format(session.schema)))


def main(large: int = 200_000, small: int = 100, milliseconds: int = 100) -> None:
    """Measure and print."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    with bars() as stages, embedded_schema(stages) as target:
        with target.session() as session:
            publish(session, Waits)
        stages.begin("the small tenant alone")
        alone = [took(target, 1, 0, small, milliseconds / 1000) for _ in range(ROUNDS)]
        stages.begin("both tenants")
        beside = [took(target, 2, large, small, milliseconds / 1000) for _ in range(ROUNDS)]
    Console().print_json(
        data={
            "large": large,
            "small": small,
            "job_ms": milliseconds,
            "alone_seconds": round(median(alone), 3),
            "beside_seconds": round(median(beside), 3),
            "ratio": round(median(beside) / median(alone), 2),
        }
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

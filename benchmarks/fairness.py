"""How soon a tenant with 100 jobs is done beside one with 200,000.

    python -m benchmarks.fairness [jobs of the large one [jobs of the small one]]

Runs a fresh embedded server and one warm node with two workers, on jobs of 20 ms. Prints when the
small tenant's last job ended, in seconds from the first start, beside the time that its share alone
takes, its jobs at half the rate of the node; and the ratio of the two, to stay under 1.5.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks.work import Waits
from txqueue.bench.ground import embedded_ground
from txqueue.bench.node import RunningNode
from txqueue.bench.traffic import publish
from txqueue.cli.options import Options
from txqueue.cli.progress import bars
from txqueue.store.reading import Session

APP = "benchmarks.work"
SECONDS = 0.02
WARM_UP = 2_000
RATE = (
    "select count(*) / extract(epoch from max(finished_at) - min(assigned_at))"
    " from {0}.job where state = 'done' and tenant <> 'warm'"
)
ENDED = (
    "select extract(epoch from max(finished_at) filter (where tenant = 'small') - min(assigned_at))"
    " from {0}.job where state = 'done' and tenant <> 'warm'"
)
LEFT = (
    "select count(*) from {0}.job where tenant = %s and state in ('waiting', 'ready', 'assigned')"
)


def enqueue(session: Session, tenant: str, jobs: int) -> None:
    """Enqueue a tenant's jobs."""
    job = {"work_type": Waits.work_type, "payload": {"seconds": SECONDS}, "tenant": tenant}
    for start in range(0, jobs, 1000):
        session.enqueue_text(json.dumps([job] * min(1000, jobs - start)))


def wait_for(session: Session, tenant: str) -> None:
    """Wait until a tenant's jobs are done."""
    while session.value(LEFT.format(session.schema), (tenant,)):
        time.sleep(0.05)


def main(large: int = 200_000, small: int = 100) -> None:
    """Measure and print."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
    with bars(Options()) as stages, embedded_ground(stages) as ground, ground.session() as session:
        publish(session, Waits)
        with RunningNode(ground, APP, 2):
            stages.begin("warming up")
            enqueue(session, "warm", WARM_UP)
            wait_for(session, "warm")
            stages.begin("enqueuing")
            session.value(f"select {session.schema}.pause('queue', 'default', 'benchmark')::text")
            enqueue(session, "large", large)
            enqueue(session, "small", small)
            session.value(f"select {session.schema}.resume('queue', 'default', 'benchmark')::text")
            stages.begin("the small tenant's jobs")
            wait_for(session, "small")
            stages.begin("the rate of the node")
            time.sleep(3.0)
            rate = float(session.value(RATE.format(session.schema)))
            seconds = float(session.value(ENDED.format(session.schema)))
    alone = small / (rate / 2)
    Console().print_json(
        data={
            "large": large,
            "small": small,
            "jobs_per_second": round(rate),
            "seconds": round(seconds, 3),
            "its_share_alone_seconds": round(alone, 3),
            "ratio": round(seconds / alone, 2),
        }
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

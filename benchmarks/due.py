"""How exactly jobs start at the moment they are due: 10,000 of them spread over 10 s.

    python -m benchmarks.due [jobs [seconds]]

Runs a fresh embedded server and one node with two workers. Prints the lateness of the handlers'
first lines in milliseconds, and how many started early, which must be none.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import timedelta

from rich.console import Console

from txqueue.demo.environment import bars, embedded_schema
from txqueue.demo.node import RunningNode, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue_bench.latency import percentile
from txqueue_bench.tally import noted_numbers
from txqueue_bench.work import Timed

APP = "txqueue_bench.work"
LEAD = 5.0


def enqueue_due(session: Session, jobs: int, seconds: float) -> None:
    """Enqueue jobs due one after the other from a few seconds on."""
    due, monotonic = session.value("select clock_timestamp()"), time.clock_gettime_ns(1)
    for start in range(0, jobs, 1000):
        batch = []
        for number in range(start, min(start + 1000, jobs)):
            delay = LEAD + seconds * number / jobs
            batch.append(
                {
                    "work_type": Timed.work_type,
                    "payload": {"sent_at": monotonic + round(delay * 1e9)},
                    "not_before": (due + timedelta(seconds=delay)).isoformat(),
                }
            )
        session.enqueue_text(json.dumps(batch))


def main(jobs: int = 10_000, seconds: float = 10.0) -> None:
    """Measure and print."""
    with (
        bars() as stages,
        embedded_schema(stages) as target,
        target.session() as session,
    ):
        publish(session, Timed)
        with RunningNode(target, APP, 2) as node:
            enqueue_due(session, jobs, seconds)
            wait_until_done(session, node, jobs, stages.begin("due one by one", jobs))
        took = sorted(noted_numbers(target.folder))
    late = {f"p{part}_ms": round(percentile(took, part) / 1e6, 2) for part in (50, 95, 99, 100)}
    early = sum(nanoseconds < 0 for nanoseconds in took)
    Console().print_json(data={"jobs": jobs, "started": len(took), "early": early, **late})


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

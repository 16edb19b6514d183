"""Waves of grouped jobs while a snapshot is held and statistics are taken of empty tables.

    python -m benchmarks.held_groups [jobs of a wave [groups]]

Runs a fresh embedded server, and prints the seconds of each of six waves, and the CPU time of the
server. There are half as many groups as jobs unless a number is given. Statistics are taken
after the second and the fourth, as autovacuum may: a planner that trusts them must not come to read
for each claim all that the snapshot keeps.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence

from rich.console import Console

from txqueue.demo.environment import bars
from txqueue.demo.node import RunningNode, publish
from txqueue.store.inquiries.reader import Session
from txqueue_bench.cpu_time import cpu_seconds
from txqueue_bench.environment import warm_schema
from txqueue_bench.work import Counted

APP = "txqueue_bench.work"
WAVES = 6
ANALYZED = (1, 3)
ASK_EVERY = 0.1
NO_GROUP = -1


def wave(session: Session, jobs: int, groups: int) -> tuple[float, float]:
    """Enqueue jobs, and wait until all are done; returns the seconds and the server's CPU time."""
    began, backend = time.monotonic(), session.value("select pg_backend_pid()")
    used = cpu_seconds(NO_GROUP, backend) or 0.0
    for start in range(0, jobs, 1000):
        numbers = range(start, min(start + 1000, jobs))
        texts = [
            {
                "work_type": Counted.work_type,
                "payload": {"number": number + 1},
                "group": f"g{number % groups}",
            }
            for number in numbers
        ]
        session.enqueue_text(json.dumps(texts))
    live = f"select count(*) from {session.schema}.job where state <> 'done'"
    while session.value(live):
        time.sleep(ASK_EVERY)
    its = (cpu_seconds(NO_GROUP, backend) or 0.0) - used
    return round(time.monotonic() - began, 2), round(its, 2)


def main(words: Sequence[str]) -> None:
    """Measure, and print."""
    jobs = int(words[0]) if words else 8000
    groups = int(words[1]) if len(words) > 1 else jobs // 2
    seconds = []
    with (
        bars() as stages,
        warm_schema(stages) as target,
        target.session() as session,
        target.session() as holder,
    ):
        publish(session, Counted)
        holder.rows("begin isolation level repeatable read")
        holder.rows(f"select count(*) from {target.schema}.job")
        with RunningNode(target, APP, 2):
            for number in range(WAVES):
                seconds.append(wave(session, jobs, groups))
                if number in ANALYZED:
                    session.rows("analyze")
    Console().print(f"seconds, and CPU seconds, of each wave of {jobs} jobs: {seconds}")


if __name__ == "__main__":
    main(sys.argv[1:])

"""How evenly cool-downs start after all nodes were away: 1,200 of 60 s, away for 80 s.

    python -m benchmarks.outage [schedules [seconds [seconds away]]]

Runs a fresh embedded server and one node with a worker. Prints for each of three periods after the
outage the starts, and the starts of the busiest second as a multiple of the mean.
"""

from __future__ import annotations

import json
import sys
import time
from collections import Counter

from rich.console import Console

from txqueue.demo.environment import bars, embedded_schema
from txqueue.demo.node import RunningNode, publish
from txqueue.store.inquiries.reader import Session
from txqueue_bench.work import Timed

APP = "txqueue_bench.work"
PERIODS = 3
MADE = """
    insert into txqueue.schedule (name, kind, seconds, job)
    select 'sync ' || n, 'cooldown', %s, %s from generate_series(1, %s) as n"""
STARTS = """
    select floor(extract(epoch from assigned_at) - %s)::int, count(*)
      from txqueue.job where assigned_at >= to_timestamp(%s) group by 1"""


def now(session: Session) -> float:
    """The time by the database's clock."""
    return float(session.value("select extract(epoch from clock_timestamp())"))


def starts_after(session: Session, back: float) -> Counter[int]:
    """How many jobs have started in each second since the nodes are back."""
    return Counter(dict(session.rows(STARTS, (back, back))))


def shape(starts: Counter[int], begin: int, seconds: int) -> dict[str, float]:
    """The starts of one period, and its busiest second."""
    counts = [starts[second] for second in range(begin, begin + seconds)]
    return {"starts": sum(counts), "max/mean": round(max(counts) * seconds / sum(counts), 2)}


def main(schedules: int = 1200, seconds: int = 60, away: float = 80.0) -> None:
    """Measure and print."""
    job = json.dumps({"work_type": Timed.work_type, "payload": {"sent_at": 0}})
    with (
        bars() as stages,
        embedded_schema(stages) as target,
        target.session() as session,
    ):
        publish(session, Timed)
        session.rows(MADE, (seconds, job, schedules))
        stages.begin("before the outage")
        with RunningNode(target, APP, 1):
            time.sleep(2 * seconds)
        stages.begin("away")
        time.sleep(away)
        stages.begin("after the outage")
        back = now(session)
        with RunningNode(target, APP, 1):
            time.sleep(PERIODS * seconds + 5)
        starts = starts_after(session, back)
    first = min(starts)
    periods = [shape(starts, first + seconds * period, seconds) for period in range(PERIODS)]
    Console().print_json(data={"schedules": schedules, "periods": periods})


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

"""How late plain schedules are beside conditions whose tables are locked: 60 beside 12, for 20 s.

    python -m benchmarks.conditions [plain [conditions [seconds]]]

Runs a fresh embedded server and one node with a worker. All schedules are due once a second. Prints
how late the plain ones start, in seconds, and what part of their moments was lost.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console

from txqueue.demo.environment import bars, embedded_schema
from txqueue.demo.node import RunningNode, publish
from txqueue.store.inquiries.reader import Session
from txqueue_bench.work import Timed

APP = "txqueue_bench.work"
MADE = """
    insert into txqueue.schedule (name, kind, seconds, job, condition_table, condition_column,
                                  condition_value)
    select %s || n, 'every', 1, %s, %s || n, case when %s is not null then 'id' end,
           case when %s is not null then '1' end
      from generate_series(1, %s) as n"""
LATE = """
    select extract(epoch from job.assigned_at - (job.options ->> 'due')::timestamptz)::float
      from txqueue.job where options ->> 'schedule' like 'plain%%' and assigned_at >= %s"""


def make(session: Session, name: str, many: int, table: str | None = None) -> None:
    """Make schedules, each with a condition on a table of its own if one is named."""
    job = json.dumps({"work_type": Timed.work_type, "payload": {"sent_at": 0}})
    session.rows(MADE, (name, job, table, table, table, many))


def lateness(late: list[float], expected: int) -> dict[str, Any]:
    """The figures of the plain schedules."""
    late.sort()
    figures = {"p50": late[len(late) // 2], "p95": late[len(late) * 95 // 100], "max": late[-1]}
    rounded = {name: round(value, 2) for name, value in figures.items()}
    return {"moments": expected, "lost": round(1 - len(late) / expected, 2), "late": rounded}


def main(plain: int = 60, conditions: int = 12, seconds: int = 20) -> None:
    """Measure and print."""
    with (
        bars() as stages,
        embedded_schema(stages) as target,
        target.session() as session,
        target.session() as holder,
    ):
        publish(session, Timed)
        for number in range(1, conditions + 1):
            session.rows(f"create table public.held{number} (id integer primary key)")
        make(session, "plain ", plain)
        make(session, "held ", conditions, "public.held")
        with RunningNode(target, APP, 1):
            time.sleep(3)
            holder.rows("begin")
            for number in range(1, conditions + 1):
                holder.rows(f"lock table public.held{number} in access exclusive mode")
            began = session.value("select clock_timestamp()")
            time.sleep(seconds)
            late = [row[0] for row in session.rows(LATE, (began,))]
            holder.rows("rollback")
    Console().print_json(data=lateness(late, plain * seconds))


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

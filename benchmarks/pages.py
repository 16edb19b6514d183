"""How fast the dashboard's pages are with many jobs.

    python -m benchmarks.pages [finished jobs [ready jobs [requests of each page]]]

Runs a fresh embedded server, fills it by SQL with finished, ready and failed jobs and thirty days
of minutes, and asks a dashboard in a process of its own for each page in turn. Prints the median
and the 95th percentile of each page in ms, and those of `select 1` in the same run.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from statistics import quantiles
from urllib.parse import urlencode

from rich.console import Console

from benchmarks.history import filled
from benchmarks.viewers import WEB, dashboard, got
from txqueue.demo.environment import bars, embedded_schema
from txqueue.demo.node import enqueue_all, publish
from txqueue.store.inquiries.reader import Session
from txqueue.web.pages.routes import MENU
from txqueue_bench.work import Counted

DAYS = 10
PAGES = (
    *MENU.titles,
    "/?span=24h",
    "/?span=30d",
    "/jobs?state=done",
    "/jobs?state=ready&queue=default",
    "/jobs?tag=campaign",
    "/jobs?payload=number%3D5",
    "/jobs?error=refused",
    "/jobs?since=2h",
    "/queues/queue?name=default",
    f"/types/type?{urlencode({'name': Counted.work_type})}",
)
MINUTES = """
    insert into {0}.minute_mark (at, seconds, last_job, enqueued)
    select now() - interval '1 minute' * number, 60, 1, 100
      from generate_series(1, 60 * 48) as number
    union all
    select now() - interval '2 days' - interval '1 hour' * number, 3600, 1, 6000
      from generate_series(1, 24 * 28) as number;
    insert into {0}.minute_counts
        (at, queue, work_type, done, failed, wait_p50, wait_p95, run_p50, run_p95, ready)
    select at, queue, kind, 60, 1, 0.01, 0.2, 0.1, 1, 5
      from {0}.minute_mark, unnest(%(queues)s::text[]) as queue, unnest(%(kinds)s::text[]) as kind
"""
FAILED = """
    insert into {0}.job (job_id, rank, not_before, enqueued_at, finished_at, failed_at, weight,
        priority, attempt, lane, state, work_type, queue, payload, error, fingerprint)
    select -1000000000 - n, now(), now(), now(), now(), now(), 1,
        4, 3, 0, 'failed', %(kind)s, 'default', '{{}}',
        'ConnectionError: connection ' || n || ' refused', 'kind ' || n %% 50
      from generate_series(1, 10000) as n
"""


def fill(session: Session, finished: int, ready: int, advance: Callable[[int], None]) -> None:
    """Make the jobs and the minutes."""
    filled(session, finished, DAYS, advance)
    enqueue_all(session, map(Counted, range(1, ready + 1)), lambda _: None)
    queues = ["default", *(f"queue {number}" for number in range(9))]
    kinds = [Counted.work_type, *(f"kind {number}" for number in range(9))]
    session.rows(MINUTES.format(session.schema), {"queues": queues, "kinds": kinds})  # type: ignore[arg-type]
    session.rows(FAILED.format(session.schema), {"kind": Counted.work_type})  # type: ignore[arg-type]
    session.rows("vacuum analyze")


def timed(ask: Callable[[], object], times: int) -> dict[str, float]:
    """Ask some times; return the median and the 95th percentile in ms."""
    took = []
    for _ in range(times):
        began = time.perf_counter()
        ask()
        took.append((time.perf_counter() - began) * 1000)
    parts = quantiles(took, n=20)
    return {"p50": round(parts[9], 2), "p95": round(parts[18], 2)}


def main(finished: int = 10_000_000, ready: int = 1_000_000, times: int = 40) -> None:
    """Run and print."""
    with (
        bars() as stages,
        embedded_schema(stages) as target,
        target.session() as session,
    ):
        publish(session, Counted)
        fill(session, finished, ready, stages.begin("filling", finished))
        with dashboard(target):
            pages = {path: timed(lambda: got(WEB, path), times) for path in PAGES}  # noqa: B023
        floor = timed(lambda: session.value("select 1"), 200)
    Console().print_json(
        data={"finished": finished, "ready": ready, "select_1": floor, "pages": pages}
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))

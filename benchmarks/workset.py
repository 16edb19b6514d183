"""A workset of 8 over 1,000,000 items, killed in the middle: items a second, and what is lost.

    python -m benchmarks.workset [items [workers]]

Runs a fresh embedded server and one node. Its master and workers are killed with SIGKILL once a
third is done; another node goes on. Prints the items a second of the second node, of two sessions
that do the same with plain SQL, and the most rows that JOB ever had.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from attrs import define
from rich.console import Console

from txqueue import WorksetItem
from txqueue.demo.environment import Advance, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode
from txqueue.store.enqueueing.worksets import spec_of
from txqueue.store.inquiries.reader import Session

APP = "benchmarks.workset"
AT_ONCE = 50_000
STATUS = "select done, remaining, jobs from txqueue.workset_status"
JOBS = "select count(*) from txqueue.job where state in ('waiting', 'ready', 'assigned')"
PLAIN = """
    with gone as (delete from plain where part = %s returning number)
    select json_agg(row_to_json(gone))::text from gone
"""


@define
class Entry(WorksetItem):
    """Does nothing."""

    number: int

    work_type = "benchmarks.entry"
    size = 8
    batch = 500

    @classmethod
    async def perform_part(cls, items: Sequence[Any], part: Any) -> None:
        """Do nothing with any of them."""


def fill(session: Session, items: int) -> None:
    """Fill the workset, and a plain table with the same."""
    session.value("select txqueue.ensure_workset(%s)", (spec_of(Entry),))
    for first in range(0, items, AT_ONCE):
        session.value(
            "select txqueue.fill_workset('entry',"
            " (select jsonb_agg(jsonb_build_object('number', n))"
            " from generate_series(%s::int, %s) as n))",
            (first, min(first + AT_ONCE, items) - 1),
        )
    session.rows(
        "create table plain (part bigint, at int, number bigint, primary key (part, at));"
        " insert into plain select n / 500, mod(n, 500), n"
        f" from generate_series(0, {items - 1}) as n"
    )


def plain(target: TemporarySchema, items: int, sessions: int = 2) -> float:
    """Take and delete parts of the plain table in some sessions; returns the items a second."""
    parts = items // Entry.batch

    def take(place: int) -> None:
        with target.session() as session:
            for part in range(place, parts, sessions):
                session.rows(PLAIN, (part,))

    began = time.monotonic()
    with ThreadPoolExecutor(sessions) as threads:
        list(threads.map(take, range(sessions)))
    return items / (time.monotonic() - began)


def status(session: Session) -> tuple[int, int, int]:
    """How many items are done and remain, and how many jobs there are."""
    done, remaining, jobs = session.rows(STATUS)[0]
    return done, remaining, jobs


def work(session: Session, node: RunningNode, until: int, advance: Advance) -> tuple[float, int]:
    """Wait until so many are done; returns the items a second, and the most jobs that were seen."""
    most, (first, _, _) = 0, status(session)
    began: float | None = None
    while True:
        node.ensure_alive()
        done, remaining, jobs = status(session)
        most = max(most, int(session.value(JOBS)))
        advance(done)
        if began is None and done > first:
            began, first = time.monotonic(), done
        if done >= until or (remaining == 0 and jobs == 0):
            return (done - first) / (time.monotonic() - (began or 0.0)), most
        time.sleep(0.1)


def main(items: int = 1_000_000, workers: int = 2) -> None:
    """Measure and print."""
    with (
        bars() as stages,
        embedded_schema(stages) as target,
        target.session() as session,
    ):
        stages.begin("filling")
        fill(session, items)
        session.value("select txqueue.start_workset('entry')")
        with RunningNode(target, APP, workers, "first") as node:
            _, most = work(session, node, items // 3, stages.begin("until it is killed", items))
            os.killpg(node.pid, signal.SIGKILL)
            node.kill()
        at_kill, _, _ = status(session)
        with RunningNode(target, APP, workers, "first") as node:
            speed, again = work(session, node, items, stages.begin("resumed", items))
        counted, remaining, _ = status(session)
        stages.begin("plain SQL")
        limit = plain(target, items)
    Console().print_json(
        data={
            "items": items,
            "done_at_kill": at_kill,
            "counted": counted,
            "remaining": remaining,
            "most_jobs": max(most, again),
            "items_per_second": round(speed),
            "plain_sql_per_second": round(limit),
            "ratio": round(speed / limit, 3),
        }
    )


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

"""What a large history costs: the drain of a full queue, `txqueue job`, dropping a day.

    python -m benchmarks.history [finished jobs [days [jobs to drain [rounds]]]]

Runs a fresh embedded server with two schemas. In one of them daily partitions are filled by SQL
with as many finished jobs as asked; the other has next to no history. A node drains the same queue
in each, by turns, so that what else the machine does meets both; what counts is the ratio of the
medians. Then jobs are looked up by number, and retention drops one day, while another session goes
on looking jobs up: its times show the effect on other sessions. Most of a drop is what the file
system takes to give the space back, after the locks are let go; so a bare file of that size is
given back as well.
"""

from __future__ import annotations

import os
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from attrs import frozen
from rich.console import Console

from txqueue.demo.environment import Pace, Stages, TemporarySchema, bars, embedded_schema
from txqueue.demo.node import RunningNode, enqueue_all, publish, wait_until_done
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.job_details import about_job
from txqueue.store.schema.migrations import migrate
from txqueue_bench.cpu_time import cpu_seconds
from txqueue_bench.work import Counted

APP = "txqueue_bench.work"
WORKERS = 2
LOOKED_UP = 200
# How many days ago the last day of history was.
YOUNGEST = 10
LEAF = """
    create table {0}.{1} (like {0}.job_done including defaults);
    insert into {0}.{1} (job_id, rank, not_before, enqueued_at, assigned_at, finished_at,
        assignment, node_id, incarnation, weight, priority, attempt, lane, state, work_type, queue,
        payload)
    select -n, at, at, at, at + interval '0.5 ms', at + interval '2 ms', n / 1000, 1, 1, 1, 4, 1, 0,
        'done', 'txqueue_bench.counted', 'default', jsonb_build_object('number', n)
      from generate_series(%(first)s::bigint, %(last)s::bigint) as n,
           lateral (select %(day)s::timestamptz + (n - %(first)s) * interval '10 us' as at) as its;
"""
ATTACH = """
    create index on {0}.{1} (job_id);
    alter table {0}.job_done attach partition {0}.{1} for values from (%s) to (%s);
"""
SIZE = """
    select sum(pg_total_relation_size(inhrelid)) from pg_inherits
     where inhparent = '{0}.job_done'::regclass
"""
SPAN = """
    select count(*), extract(epoch from max(finished_at) - min(assigned_at)) from {0}.job
     where state = 'done' and job_id >= %s and finished_at > now() - interval '1 day'
"""


@frozen
class Drain:
    """One drain: jobs a second, and what each job cost."""

    speed: float
    server_us: float
    node_us: float
    wal_octets: float


def drained(target: TemporarySchema, session: Session, jobs: int) -> Drain:
    """Fill the queue, and have a node work it off."""
    first = enqueue_all(session, map(Counted, range(1, jobs + 1)), lambda _: None)[0]
    session.rows(f"analyze {session.schema}.job_ready")
    backend = int(session.value("select pg_backend_pid()"))
    with RunningNode(target, APP, WORKERS) as node:
        before = _used(node.pid, backend), _written(session)
        wait_until_done(session, node, jobs, lambda _: None, Pace(least=0.5, share=0.01))
        after = _used(node.pid, backend), _written(session)
    count, seconds = session.rows(SPAN.format(session.schema), (first,))[0]
    if count != jobs:
        raise RuntimeError(f"{count} of {jobs} jobs are done")
    server, node_only = (1e6 * (b - a) / jobs for a, b in zip(before[0], after[0], strict=True))
    return Drain(jobs / float(seconds), server, node_only, (after[1] - before[1]) / jobs)


def _used(group: int, backend: int) -> tuple[float, float]:
    """Processor time of the server, and of the node."""
    server, both = cpu_seconds(-1, backend) or 0.0, cpu_seconds(group, backend) or 0.0
    return server, both - server


def _written(session: Session) -> float:
    return float(session.value("select pg_current_wal_lsn() - '0/0'"))


def filled(session: Session, jobs: int, days: int, advance: Callable[[int], None]) -> float:
    """Make days of history; returns the jobs made a second."""
    began = time.perf_counter()
    each = jobs // days
    for day in range(days):
        moment = session.value(
            "select date_trunc('day', now(), 'UTC') - %s * interval '1 day'", (day + YOUNGEST,)
        )
        leaf = f"job_done_{moment:%Y%m%d}"
        span = {"first": day * each + 1, "last": (day + 1) * each, "day": moment}
        session.rows(LEAF.format(session.schema, leaf), span)  # type: ignore[arg-type]
        until = session.value("select %s::timestamptz + interval '1 day'", (moment,))
        session.rows(ATTACH.format(session.schema, leaf), (moment, until))
        session.rows(f"vacuum (analyze) {session.schema}.{leaf}")
        advance((day + 1) * each)
    took = time.perf_counter() - began
    session.rows(f"update {session.schema}.setting set history_kept = interval '9999 days'")
    session.rows(f"select {session.schema}.ensure_history(); checkpoint")
    return jobs / took


def looked_up(session: Session, jobs: int) -> list[float]:
    """Look jobs up by number, as `txqueue job` does; returns what each took, in ms."""
    chosen = random.Random(839)
    return [look_up(session, -chosen.randint(1, jobs)) for _ in range(LOOKED_UP)]


def look_up(session: Session, number: int) -> float:
    """Look up one job; return the time in ms."""
    began = time.perf_counter()
    found = session.find(about_job(session.schema, number))
    if found["job_id"] != number:
        raise RuntimeError(f"job {number} was not found")
    return (time.perf_counter() - began) * 1000


@contextmanager
def looking_up(target: TemporarySchema, number: int) -> Iterator[list[float]]:
    """Look one job up again and again meanwhile; gives what each look took, in ms."""
    stopped, took = Event(), list[float]()

    def go_on() -> None:
        with target.session() as session:
            while not stopped.is_set():
                took.append(look_up(session, number))

    thread = Thread(target=go_on)
    thread.start()
    try:
        yield took
    finally:
        stopped.set()
        thread.join()


def dropped(session: Session, days: int) -> dict[str, float]:
    """Have retention drop the oldest day; returns how large it was, and what that took, in ms."""
    kept = f"update {session.schema}.setting set history_kept = %s * interval '1 day'"
    session.rows(kept, (days + YOUNGEST - 3,))
    size = session.value(SIZE.format(session.schema))
    began = time.perf_counter()
    with session.transaction():
        did = session.value(f"select {session.schema}.ensure_history()")
        held = time.perf_counter() - began
    took = time.perf_counter() - began
    if [change[:1] for change in did] != ["-"]:
        raise RuntimeError(f"not one day was dropped: {did}")
    freed = int(size - session.value(SIZE.format(session.schema)))
    return {"drop_mib": freed / (1 << 20), "drop_locked_ms": held * 1000, "drop_ms": took * 1000}


def given_back(folder: Path, octets: int) -> float:
    """Write a file, and give its space back; returns what that took, in ms."""
    file = folder / "bare"
    with file.open("wb") as bare:
        for _ in range(octets >> 20):
            bare.write(os.urandom(1 << 20))
        bare.flush()
        os.fsync(bare.fileno())
    began = time.perf_counter()
    os.truncate(file, 0)
    took = time.perf_counter() - began
    file.unlink()
    return took * 1000


def summary(name: str, drains: Sequence[Drain]) -> dict[str, object]:
    """What the middle one of some drains was."""
    return {
        f"{name}_jobs_per_second": round(_median(drains, "speed")),
        f"{name}_server_us": round(_median(drains, "server_us"), 2),
        f"{name}_node_us": round(_median(drains, "node_us"), 2),
        f"{name}_wal_octets": round(_median(drains, "wal_octets")),
    }


def by_turns(
    empty: TemporarySchema, full: TemporarySchema, stages: Stages, jobs: int, rounds: int
) -> tuple[list[Drain], list[Drain]]:
    """Drain both queues again and again; the first round does not count."""
    advance = stages.begin("draining by turns", rounds + 1)
    drains: tuple[list[Drain], list[Drain]] = ([], [])
    for round_ in range(rounds + 1):
        for target, kept in zip((empty, full), drains, strict=True):
            with target.session() as session:
                kept.append(drained(target, session, jobs))
        advance(round_ + 1)
    return drains[0][1:], drains[1][1:]


def measured(target: TemporarySchema, stages: Stages, sizes: Sequence[int]) -> dict[str, object]:
    """Measure all of it."""
    jobs, days, drain, rounds = sizes
    empty = TemporarySchema(target.dsn, "txqueue_empty", target.folder)
    migrate(empty.dsn, empty.schema)
    with target.session() as session, target.session() as asking:
        for each in (empty, target):
            with each.session() as other:
                publish(other, Counted)
        speed = filled(session, jobs, days, stages.begin("making history", jobs))
        without, beside = by_turns(empty, target, stages, drain, rounds)
        stages.begin("looking jobs up, dropping a day")
        size = session.value(SIZE.format(session.schema))
        took = looked_up(asking, jobs)
        with looking_up(target, -1) as meanwhile:
            drop = dropped(session, days)
        drop["bare_file_ms"] = given_back(target.folder, int(drop["drop_mib"]) << 20)
    ratios = {
        f"ratio_{name}": round(_median(beside, name) / _median(without, name), 3)
        for name in ("speed", "server_us", "node_us", "wal_octets")
    }
    return {
        "history": jobs,
        "days": days,
        "made_per_second": round(speed),
        "octets_a_job": round(float(size) / jobs),
        **summary("empty", without),
        **summary("full", beside),
        **ratios,
        "job_p50_ms": round(statistics.median(took), 2),
        "job_p95_ms": round(sorted(took)[len(took) * 95 // 100], 2),
        **{name: round(value, 1) for name, value in drop.items()},
        "longest_look_meanwhile_ms": round(max(meanwhile), 1),
        **target.facts(),
    }


def _median(drains: Sequence[Drain], name: str) -> float:
    return float(statistics.median(getattr(each, name) for each in drains))


def main(jobs: int = 10_000_000, days: int = 20, drain: int = 100_000, rounds: int = 3) -> None:
    """Measure and print."""
    with bars() as stages, embedded_schema(stages) as target:
        document = measured(target, stages, (jobs, days, drain, rounds))
    Console().print_json(data=document)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))

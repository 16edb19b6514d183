"""Measures the limit of PostgreSQL alone, by moving rows twice with plain SQL."""

from __future__ import annotations

import time
from itertools import pairwise

from txqueue.demo.environment import Advance
from txqueue.store.inquiries.reader import Session

__all__ = ["raw_limit"]

ROWS = 100_000
BATCH = 2000
TABLES = ("limit_ready", "limit_assigned", "limit_done")


def raw_limit(session: Session, advance: Advance) -> float:
    """Return the raw SQL limit: how many rows per second one connection moves from table to table.

    Up to 100,000 whole rows of jobs are copied from history into a table without partitions, with
    one index, on job_id. Then they are moved, 2,000 at a time, to a second such table and from
    there to a third, as a queue does when it claims and completes. Each move is one statement and
    one durable commit: ``delete ... returning *`` by job_id and ``insert ... select``, which every
    queue that keeps its history needs. Jobs are neither chosen, locked, checked nor sent to the
    client. A node uses several connections, so that it may exceed this limit of one.

    Args:
        session: A session of a database whose history has no gaps in the job numbers.
        advance: Called with how many rows are moved.

    Returns:
        How many rows per second were moved, each of them twice.
    """
    first, rows = _prepare(session)
    began = time.monotonic()
    for start in range(0, rows, BATCH):
        low = first + start
        for source, target in pairwise(TABLES):
            _move(session, source, target, low)
        advance(min(start + BATCH, rows))
    return rows / (time.monotonic() - began)


def _prepare(session: Session) -> tuple[int, int]:
    schema = session.schema
    for name in TABLES:
        session.rows(f"create table {schema}.{name} (like {schema}.job)")
        session.rows(f"create index on {schema}.{name} (job_id)")
    session.rows(
        f"insert into {schema}.{TABLES[0]}"
        f" select * from {schema}.job where state = 'done' order by job_id limit {ROWS}"
    )
    session.rows(f"analyze {schema}.{TABLES[0]}")
    row = session.rows(f"select min(job_id), count(*) from {schema}.{TABLES[0]}")[0]
    return int(row[0]), int(row[1])


def _move(session: Session, source: str, target: str, low: int) -> None:
    schema = session.schema
    session.rows(
        f"with gone as (delete from {schema}.{source} where job_id between %s and %s returning *)"
        f" insert into {schema}.{target} select * from gone",
        (low, low + BATCH - 1),
    )

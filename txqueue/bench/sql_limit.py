"""The limit of PostgreSQL alone: the same rows moved twice by plain SQL."""

from __future__ import annotations

import time
from itertools import pairwise

from txqueue.bench.progress import Advance
from txqueue.store.reader import Session

__all__ = ["raw_limit"]

ROWS = 100_000
BATCH = 2000
TABLES = ("limit_ready", "limit_assigned", "limit_done")


def raw_limit(session: Session, advance: Advance) -> float:
    """Measure the raw SQL limit: jobs a second that one connection claims and completes.

    It copies up to 100,000 whole rows of jobs from history into a table without partitions, with
    one index, on job_id. Then it moves them, 2,000 at a time, to a second such table and from there
    to a third. Each move is one statement and one durable commit: ``delete ... returning *`` by
    job_id and ``insert ... select``, which no queue that keeps its history can do without. There is
    no choice of jobs, no lock, no check, no row sent to the client. One connection does it, while a
    node uses several: a ratio above 1 is possible.

    Args:
        session: A session of a database whose history has no gaps in the job numbers.
        advance: Called with how many rows are moved.

    Returns:
        Rows moved twice per second.
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
    found = session.rows(f"select min(job_id), count(*) from {schema}.{TABLES[0]}")[0]
    return int(found[0]), int(found[1])


def _move(session: Session, source: str, target: str, low: int) -> None:
    schema = session.schema
    session.rows(
        f"with gone as (delete from {schema}.{source} where job_id between %s and %s returning *)"
        f" insert into {schema}.{target} select * from gone",
        (low, low + BATCH - 1),
    )

"""Reads archived days of history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from txqueue.archive.storage import open_storage, reachable
from txqueue.errors import ArchiveUnavailable

_ORDER = [("finished_at", "descending"), ("job_id", "descending")]


def archived_jobs(
    days: Sequence[Mapping[str, Any]],
    since: datetime,
    until: datetime,
    *,
    limit: int,
    filters: Mapping[str, str | None],
    columns: Sequence[str],
    unread: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Return archived jobs that ended in a time span, the latest first.

    Args:
        days: ``state, day, location`` of each day, the latest first.
        since: The start of the time span, included.
        until: The end of the time span, excluded.
        limit: The largest number of jobs.
        filters: ``state, queue, work_type``; a filter that is None is ignored.
        columns: The columns to return.
        unread: Gets a text for each day that cannot be read, which is then left out.

    Raises:
        ArchiveUnavailable: When the archive cannot be read, and there is no such list.
    """
    condition = (ds.field("finished_at") >= since) & (ds.field("finished_at") < until)
    for name, value in filters.items():
        if value is not None:
            condition &= ds.field(name) == value
    jobs: list[dict[str, Any]] = []
    for day in sorted({file["day"] for file in days}, reverse=True):
        files = [file for file in days if file["day"] == day]
        jobs += _of_one_day(files, condition, limit, columns, unread)
        if len(jobs) >= limit:
            break
    return jobs[:limit]


def archived_job(days: Sequence[Mapping[str, Any]], job_id: int) -> dict[str, Any] | None:
    """Return all columns of an archived job; None if no archived job has that number.

    Args:
        days: ``state, day, location`` of each day to search.
        job_id: The job's number.

    Raises:
        ArchiveUnavailable: When the archive cannot be read.
    """
    for day in days:
        for batch in batches_of(day, ds.field("job_id") == job_id):
            for row in batch.to_pylist():
                return dict(row)
    return None


def batches_of(
    day: Mapping[str, Any], condition: Any, columns: Sequence[str] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the jobs of an archived day that meet a condition, some at a time.

    Args:
        day: ``state, day, location``.
        condition: A pyarrow expression.
        columns: The columns to read; None for all.

    Raises:
        ArchiveUnavailable: When the archive cannot be read.
    """
    storage = open_storage(day["location"])
    path = storage.path(day["state"], day["day"])
    with reachable(storage.location):
        dataset = ds.dataset(path, filesystem=storage.filesystem, format="parquet")
        # A file of an older version may have fewer columns.
        names = dataset.schema.names
        stored_columns = [name for name in columns or names if name in names]
        yield from dataset.to_batches(columns=stored_columns, filter=condition)


@contextmanager
def noting(unread: list[str] | None) -> Iterator[None]:
    """Note why an archived day cannot be read in the block, so that only this day is left out."""
    try:
        yield
    except ArchiveUnavailable as error:
        if unread is None:
            raise
        unread.append(error.what)


def _of_one_day(
    days: Sequence[Mapping[str, Any]],
    condition: Any,
    limit: int,
    columns: Sequence[str],
    unread: list[str] | None,
) -> list[dict[str, Any]]:
    """Return the latest jobs of archives of one day, at most `limit`, without keeping many more."""
    tables: list[pa.Table] = []
    for day in days:
        with noting(unread):
            for batch in batches_of(day, condition, columns):
                joined = pa.concat_tables(
                    [*tables, pa.Table.from_batches([batch])], promote_options="default"
                )
                tables = [_last(joined, limit)]
    return [dict(row) for table in tables for row in table.to_pylist()]


def _last(table: pa.Table, limit: int) -> pa.Table:
    if table.num_rows <= 1:
        return table
    return table.take(pc.select_k_unstable(table, min(limit, table.num_rows), sort_keys=_ORDER))

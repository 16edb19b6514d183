"""Reads archived days of history, and counts their jobs per hour and work type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from attrs import define

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
    unread: list[str],
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
def noting(unread: list[str]) -> Iterator[None]:
    """Note why an archived day cannot be read in the block, so that only this day is left out."""
    try:
        yield
    except ArchiveUnavailable as error:
        unread.append(error.what)


def _of_one_day(
    days: Sequence[Mapping[str, Any]],
    condition: Any,
    limit: int,
    columns: Sequence[str],
    unread: list[str],
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


_COUNTS = ("done", "failed", "cancelled")
_READ = (
    *("work_type", "state", "enqueued_at", "not_before", "assigned_at", "started_at"),
    "finished_at",
)
_SUMS = [("took", "sum"), ("took", "count"), ("took", "max"), ("waited", "sum"), ("hour", "count")]


@define
class _Hour:
    """Counts and sums over the jobs of a work type that ended in an hour.

    Run times and waiting times are of those jobs only that have started.
    """

    done: int = 0
    failed: int = 0
    cancelled: int = 0
    busy: float = 0.0
    starts: int = 0
    longest: float | None = None
    wait_sum: float = 0.0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Hour:
        """Read a row of ``stats()``, which lacks the number of started jobs."""
        jobs = row["done"] + row["failed"] + row["cancelled"]
        mean = row["mean"]
        starts = 0 if mean is None else round(row["busy"] / mean) if mean else jobs
        wait_sum = starts * (row["waited"] or 0.0)
        counts = {name: row[name] for name in _COUNTS}
        times = {"busy": row["busy"], "longest": row["longest"], "wait_sum": wait_sum}
        return cls(**counts, **times, starts=starts)

    def add(self, sums: Mapping[str, Any]) -> None:
        """Add the counts and sums of a batch of jobs."""
        state = sums["state"]
        setattr(self, state, getattr(self, state) + sums["hour_count"])
        self.busy += sums["took_sum"] or 0.0
        self.starts += sums["took_count"]
        self.wait_sum += sums["waited_sum"] or 0.0
        if sums["took_max"] is not None:
            self.longest = max(self.longest or 0.0, sums["took_max"])

    def row(self) -> dict[str, Any]:
        """Return the row as ``stats()`` does."""
        return {
            **{name: getattr(self, name) for name in (*_COUNTS, "busy")},
            "mean": self.busy / self.starts if self.starts else None,
            "longest": self.longest,
            "waited": self.wait_sum / self.starts if self.starts else None,
        }


def with_archived(
    rows: Iterable[Mapping[str, Any]],
    days: Sequence[Mapping[str, Any]],
    since: datetime,
    until: datetime,
    *,
    unread: list[str],
) -> list[dict[str, Any]]:
    """Add the jobs of archived days to the rows of ``stats()``.

    Args:
        rows: The rows of ``stats()``.
        days: ``state, day, location`` of each day.
        since: The start of the time span, included.
        until: The end of the time span, excluded.
        unread: Gets a text for each day that cannot be read, which is then left out.
    """
    hours = {(row["hour"], row["work_type"]): _Hour.of(row) for row in rows}
    condition = (ds.field("finished_at") >= since) & (ds.field("finished_at") < until)
    for day in days:
        with noting(unread):
            sums_of_batches = [_summed(batch) for batch in batches_of(day, condition, _READ)]
            for sums in chain.from_iterable(sums_of_batches):
                hours.setdefault((sums["hour"], sums["work_type"]), _Hour()).add(sums)
    return [
        {"hour": hour, "work_type": work_type, **hours[hour, work_type].row()}
        for hour, work_type in sorted(hours)
    ]


def _summed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    column = {name: batch.column(name) for name in batch.schema.names}
    started = pc.coalesce(column["started_at"], column["assigned_at"])
    enqueued_at, not_before = column["enqueued_at"], column["not_before"]
    due_at = pc.if_else(pc.greater(not_before, enqueued_at), not_before, enqueued_at)
    table = pa.table(
        {
            "hour": pc.floor_temporal(column["finished_at"], unit="hour"),
            "work_type": column["work_type"],
            "state": column["state"],
            "took": _seconds(started, column["finished_at"]),
            "waited": _seconds(due_at, started),
        }
    )
    rows: list[dict[str, Any]] = (
        table.group_by(["hour", "work_type", "state"]).aggregate(_SUMS).to_pylist()
    )
    return rows


def _seconds(begin: Any, end: Any) -> Any:
    return pc.divide(pc.cast(pc.microseconds_between(begin, end), pa.float64()), 1e6)

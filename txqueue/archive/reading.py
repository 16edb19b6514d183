"""Reads archived days again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from txqueue.archive.depot import opened, reachable

__all__ = ["archived_jobs"]

_ORDER = [("finished_at", "descending"), ("job_id", "descending")]


def archived_jobs(
    days: Sequence[Mapping[str, Any]],
    since: datetime,
    until: datetime,
    *,
    limit: int,
    filters: Mapping[str, str | None],
    columns: Sequence[str],
) -> list[dict[str, Any]]:
    """Return archived jobs that ended from one moment until another, the last first.

    Args:
        days: ``state, day, location`` each, the last day first.
        since: The first moment.
        until: The moment before which they ended.
        limit: At most so many.
        filters: ``state, queue, work_type``; what is None does not count.
        columns: What to return of each.

    Raises:
        ArchiveUnavailable: When it cannot be read.
    """
    condition = (ds.field("finished_at") >= since) & (ds.field("finished_at") < until)
    for name, value in filters.items():
        if value is not None:
            condition &= ds.field(name) == value
    found: list[dict[str, Any]] = []
    for day in sorted({each["day"] for each in days}, reverse=True):
        some = [each for each in days if each["day"] == day]
        found += _of_one_day(some, condition, limit, columns)
        if len(found) >= limit:
            break
    return found[:limit]


def _of_one_day(
    days: Sequence[Mapping[str, Any]], condition: Any, limit: int, columns: Sequence[str]
) -> list[dict[str, Any]]:
    found = [_last_of(day, condition, limit, columns) for day in days]
    table = _last(pa.concat_tables(found, promote_options="default"), limit)
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _last_of(
    day: Mapping[str, Any], condition: Any, limit: int, columns: Sequence[str]
) -> pa.Table:
    """Keep no more than is wanted, however many the day has."""
    depot = opened(day["location"])
    path = depot.path(day["state"], day["day"])
    with reachable(depot.location):
        dataset = ds.dataset(path, filesystem=depot.filesystem, format="parquet")
        # An older version may have had fewer columns.
        known = [name for name in columns if name in dataset.schema.names]
        kept = dataset.schema.empty_table().select(known)
        for batch in dataset.to_batches(columns=known, filter=condition):
            kept = _last(pa.concat_tables([kept, pa.Table.from_batches([batch])]), limit)
        return kept


def _last(table: pa.Table, limit: int) -> pa.Table:
    if table.num_rows <= 1:
        return table
    return table.take(pc.select_k_unstable(table, min(limit, table.num_rows), sort_keys=_ORDER))

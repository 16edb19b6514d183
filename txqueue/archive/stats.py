"""Counts archived jobs per hour and work type, as ``stats()`` does in the database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from attrs import define

from txqueue.archive.reading import batches_of, noting

__all__ = ["with_archived"]

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
    began: int = 0
    longest: float | None = None
    waited: float = 0.0

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> _Hour:
        """Read a row of ``stats()``, which lacks the number of started jobs."""
        jobs = row["done"] + row["failed"] + row["cancelled"]
        mean = row["mean"]
        began = 0 if mean is None else round(row["busy"] / mean) if mean else jobs
        waited = began * (row["waited"] or 0.0)
        counts = {name: row[name] for name in _COUNTS}
        times = {"busy": row["busy"], "longest": row["longest"], "waited": waited}
        return cls(**counts, **times, began=began)

    def add(self, sums: Mapping[str, Any]) -> None:
        """Add the counts and sums of a batch of jobs."""
        state = sums["state"]
        setattr(self, state, getattr(self, state) + sums["hour_count"])
        self.busy += sums["took_sum"] or 0.0
        self.began += sums["took_count"]
        self.waited += sums["waited_sum"] or 0.0
        if sums["took_max"] is not None:
            self.longest = max(self.longest or 0.0, sums["took_max"])

    def row(self) -> dict[str, Any]:
        """Return the row as ``stats()`` does."""
        return {
            **{name: getattr(self, name) for name in (*_COUNTS, "busy")},
            "mean": self.busy / self.began if self.began else None,
            "longest": self.longest,
            "waited": self.waited / self.began if self.began else None,
        }


def with_archived(
    rows: Iterable[Mapping[str, Any]],
    days: Sequence[Mapping[str, Any]],
    since: datetime,
    until: datetime,
    *,
    unread: list[str] | None = None,
) -> list[dict[str, Any]]:
    """Add the jobs of archived days to the rows of ``stats()``.

    Args:
        rows: The rows of ``stats()``.
        days: ``state, day, location`` of each day.
        since: The start of the time span, included.
        until: The end of the time span, excluded.
        unread: Gets a text for each day that cannot be read, which is then left out.

    Raises:
        ArchiveUnavailable: When the archive cannot be read, and there is no such list.
    """
    hours = {(row["hour"], row["work_type"]): _Hour.of(row) for row in rows}
    condition = (ds.field("finished_at") >= since) & (ds.field("finished_at") < until)
    for day in days:
        with noting(unread):
            found = [_summed(batch) for batch in batches_of(day, condition, _READ)]
            for sums in chain.from_iterable(found):
                hours.setdefault((sums["hour"], sums["work_type"]), _Hour()).add(sums)
    return [
        {"hour": hour, "work_type": work_type, **hours[hour, work_type].row()}
        for hour, work_type in sorted(hours)
    ]


def _summed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    column = {name: batch.column(name) for name in batch.schema.names}
    began = pc.coalesce(column["started_at"], column["assigned_at"])
    enqueued, not_before = column["enqueued_at"], column["not_before"]
    due = pc.if_else(pc.greater(not_before, enqueued), not_before, enqueued)
    table = pa.table(
        {
            "hour": pc.floor_temporal(column["finished_at"], unit="hour"),
            "work_type": column["work_type"],
            "state": column["state"],
            "took": _seconds(began, column["finished_at"]),
            "waited": _seconds(due, began),
        }
    )
    found: list[dict[str, Any]] = (
        table.group_by(["hour", "work_type", "state"]).aggregate(_SUMS).to_pylist()
    )
    return found


def _seconds(begin: Any, end: Any) -> Any:
    return pc.divide(pc.cast(pc.microseconds_between(begin, end), pa.float64()), 1e6)

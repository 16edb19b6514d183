"""Days of history: reads them for the archive, records their state, and queries ended jobs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from typing import Any
from uuid import uuid4

from attrs import frozen

from txqueue.errors import Refused
from txqueue.store.driver.session_bounds import UNCOMPILED
from txqueue.store.inquiries.inquiry import Inquiry, Rows, ask
from txqueue.store.inquiries.reader import Session

# Few Parquet readers support dates beyond these; infinity is written as the nearer one.
_MOMENT = (
    "case when {0} is not null then (extract(epoch from"
    " least(greatest({0}, '0001-01-01 00:00Z'), '9999-12-31 00:00Z')) * 1000000)::bigint end"
)
# A damaged value becomes the error, so that one row keeps no day out of the archive. Of texts, only
# an error can be so long that it is stored apart.
_READABLE = {"jsonb": "{1}.readable_json({0})::text", "error": "{1}.readable_text({0})"}
# Those of older code are in the row.
_STEPS = "coalesce({0}, case when {1} ? 'steps' then {2}.kept_steps(job_id) end)"
_KINDS = {
    "bigint": ("int64", "{}"),
    "integer": ("int32", "{}"),
    "smallint": ("int16", "{}"),
    "double precision": ("float64", "{}"),
    "boolean": ("bool", "{}"),
    "timestamp with time zone": ("moment", _MOMENT),
}
_COLUMNS = """
    select attname::text, format_type(atttypid, null) from pg_attribute
     where attrelid = %s::regclass and attnum > 0 and not attisdropped order by attnum
"""
TURN = 300.0
"""Seconds after which a process that no longer renews the duty to archive loses it."""

# How many pages of history one statement reads, at first and at most, and the most bytes of rows.
_FIRST_BLOCKS, _MOST_BLOCKS, _LARGEST_PAGE = 64, 2048, 32_000_000
_LISTED = """
    job_id, state::text as state, work_type, queue, "group", tenant, priority, attempt, node_id,
    enqueued_at, assigned_at, started_at, finished_at,
    split_part({schema}.readable_text(error), E'\\n', 1) as error
"""
_BLOCKS = "select pg_relation_size(%s) / current_setting('block_size')::integer"
_FILTERS = {
    "state": "state = %s::{schema}.job_state",
    "queue": "queue = %s",
    "work_type": "work_type = %s",
}


@frozen
class Day:
    """One day of history: the partition with the jobs that ended in one state on one day.

    Attributes:
        leaf: The partition's name.
        state: The state of its jobs.
        day: The day, in UTC.
    """

    leaf: str
    state: str
    day: date

    @property
    def bounds(self) -> tuple[datetime, datetime]:
        """The day's midnight, and the next day's, in UTC."""
        begin = datetime(self.day.year, self.day.month, self.day.day, tzinfo=UTC)
        return begin, begin + timedelta(days=1)


@frozen
class Column:
    """A column of a job as the archive stores it.

    Attributes:
        name: The column's name.
        kind: ``moment`` (microseconds since 1970), ``string``, or the name of a number's type.
        selected: The SQL expression that reads it.
        readable: The one that reads it even if it is damaged, and takes longer.
    """

    name: str
    kind: str
    selected: str
    readable: str


class PastDays:
    """The days of history of one schema.

    Args:
        session: The database session.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._schema = session.schema
        self._holder = str(uuid4())
        self._renewed_at: float | None = None

    @property
    def location(self) -> str | None:
        """The location of the queue's archive; None if no archive is configured."""
        location: str | None = self._session.value(f"select archive from {self._schema}.setting")
        return location

    @contextmanager
    def alone(self) -> Iterator[bool]:
        """Have the duty to archive during the block; its value is whether it was free."""
        is_mine = self._hold(TURN)
        self._renewed_at = time.monotonic() if is_mine else None
        try:
            yield is_mine
        finally:
            self._renewed_at = None
            if is_mine:
                self._hold(0.0)

    def keep(self) -> None:
        """Renew the duty to archive if a third of its time is over."""
        if self._renewed_at is not None and time.monotonic() - self._renewed_at > TURN / 3:
            self._renewed_at = time.monotonic()
            # If it was lost, another attempt for a day ends this one: see `end`.
            self._hold(TURN)

    def _hold(self, seconds: float) -> bool:
        return bool(self._call("hold_archiving(%s, %s)", self._holder, seconds))

    def due(self, before: date | None = None) -> list[Day]:
        """Return the days to archive: those before the given day, by default past retention."""
        sql = f"select leaf, state, day from {self._schema}.history_due(%s)"
        return [Day(*row) for row in self._session.rows(sql, (before,))]

    def columns(self) -> list[Column]:
        """Return all columns of a job."""
        rows = self._session.rows(_COLUMNS, (f"{self._schema}.job",))
        return [_column(name, kind, self._schema) for name, kind in rows]

    def begin(self, day: Day) -> int | None:
        """Start archiving a day; return the number that `end` takes, or None for a dropped day."""
        attempt: int | None = self._call("begin_archive(%s)", day.leaf)
        return attempt

    def pages(self, day: Day, columns: Sequence[Column]) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the jobs of a day, some pages of the table at a time.

        Each statement reads some pages, so that no snapshot is held for long.
        """
        sql = (
            f"{UNCOMPILED}select {{}} from {self._schema}.job_{day.state}"
            " where finished_at >= %s and finished_at < %s"
            " and ctid >= format('(%%s,0)', %s)::tid and ctid < format('(%%s,0)', %s)::tid"
        )
        begin, step = 0, _FIRST_BLOCKS
        end = int(self._session.value(_BLOCKS, (f"{self._schema}.{day.leaf}",)))
        while begin < end:
            rows = self._read(sql, columns, (*day.bounds, begin, begin + step))
            yield rows
            begin += step
            step = next_step(step, size_of(rows))

    def _read(
        self, sql: str, columns: Sequence[Column], bounds: Sequence[object]
    ) -> list[tuple[Any, ...]]:
        try:
            selected = ", ".join(column.selected for column in columns)
            return self._session.rows(sql.format(selected), bounds)
        except Refused:
            # One of the rows may be damaged.
            readable = ", ".join(column.readable for column in columns)
            return self._session.rows(sql.format(readable), bounds)

    def count(self, day: Day) -> int:
        """Count the jobs of a day."""
        sql = f"{UNCOMPILED}select count(*) from {self._schema}.job_{day.state}"
        where = " where finished_at >= %s and finished_at < %s"
        return int(self._session.value(sql + where, day.bounds))

    def end(self, day: Day, attempt: int, location: str, jobs: int, checksum: str) -> bool:
        """Record that a day was archived and verified; return False if the day has changed since.

        Args:
            day: The day.
            attempt: The number that `begin` returned.
            location: The archive's location.
            jobs: How many jobs the day has.
            checksum: The checksum of its rows.
        """
        call = (
            "end_archive(its_leaf => %s, its_attempt => %s, its_location => %s, its_jobs => %s,"
            " its_checksum => %s)"
        )
        return bool(self._call(call, day.leaf, attempt, location, jobs, checksum))

    def drop(self, day: Day) -> bool:
        """Drop an archived day; return False if another session uses its partition."""
        return bool(self._call("drop_archived(%s)", day.leaf))

    def _call(self, call: str, *arguments: object) -> Any:
        return self._session.value(f"select {self._schema}.{call}", arguments)


def next_step(step: int, size: int) -> int:
    """Return how many pages to read next, given how many were read and the size of their rows."""
    larger = min(2 * step, step * _LARGEST_PAGE // max(size, 1))
    return max(1, min(larger, _MOST_BLOCKS))


def size_of(rows: Sequence[tuple[Any, ...]]) -> int:
    """Return the approximate size of rows: the characters of their texts."""
    return sum(len(value) for row in rows for value in row if isinstance(value, str))


def about_past(
    schema: str, since: datetime, until: datetime, limit: int, filters: Mapping[str, str | None]
) -> Inquiry[Rows]:
    """Query jobs of the table of history that ended in a time span, the latest first.

    Args:
        schema: The name of the schema.
        since: The start of the time span, included.
        until: The end of the time span, excluded.
        limit: The largest number of rows.
        filters: ``state, queue, work_type``; a filter that is None is ignored.
    """
    values = {key: value for key, value in filters.items() if value is not None}
    conditions = "".join(" and " + _FILTERS[key].format(schema=schema) for key in values)
    return ask(
        f"select {_LISTED.format(schema=schema)} from {schema}.job"
        " where state in ('done', 'failed', 'cancelled')"
        f" and finished_at >= %s and finished_at < %s{conditions}"
        " order by finished_at desc, job_id desc limit %s",
        (since, until, *values.values(), limit),
    )


def about_archived(schema: str, since: datetime, until: datetime) -> Inquiry[Rows]:
    """Query the days of a time span that exist only in the archive, the latest first."""
    return ask(
        "select leaf, state::text as state, day, location, jobs,"
        f" hours is not null as is_counted from {schema}.archived"
        " where dropped_at is not null and day >= (%s at time zone 'UTC')::date"
        " and day <= (%s at time zone 'UTC')::date order by day desc, state",
        (since, until),
    )


def about_stats(schema: str, since: datetime, until: datetime) -> Inquiry[Rows]:
    """Query counts, run times and waiting times of ended jobs per hour and work type."""
    return ask(f"select * from {schema}.stats(%s, %s)", (since, until))


def about_failures(
    schema: str, after: str | None = None, limit: int | None = None
) -> Inquiry[Rows]:
    """Query the kinds of failure of each work type; a fingerprint identifies a kind.

    Args:
        schema: The name of the schema.
        after: Fingerprint and work type of the last one of the previous page; None for the first.
        limit: The largest number of rows; None for all.
    """
    return ask(
        f"select * from {schema}.failures"
        " where %s::text is null or (fingerprint || ' ' || work_type) collate \"C\" > %s"
        " order by (fingerprint || ' ' || work_type) collate \"C\" limit %s",
        (after, after, limit),
    )


def _column(name: str, kind: str, schema: str) -> Column:
    known, selected = _KINDS.get(kind, ("string", "{0}::text"))
    readable = _READABLE.get(name) or _READABLE.get(kind, selected)
    if name == "steps":
        options = _READABLE["jsonb"].format("options", schema) + "::jsonb"
        readable = _STEPS.format(f"{schema}.readable_json(steps)", options, schema) + "::text"
        return Column(name, known, _STEPS.format(name, "options", schema) + "::text", readable)
    quoted = f'"{name}"'
    return Column(name, known, selected.format(quoted), readable.format(quoted, schema))

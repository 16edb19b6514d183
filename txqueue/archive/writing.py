"""Archives days of history: writes, reads back and compares each day before dropping it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from typing import Any

import pyarrow as pa
from attrs import frozen

from txqueue.archive.checksum import Checksum
from txqueue.archive.storage import ArchiveStorage, open_storage, reachable
from txqueue.errors import ArchiveUnavailable, ConfigurationError
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.history import Column, Day, PastDays

__all__ = ["Archived", "archive"]

_MOMENT = pa.timestamp("us", tz="UTC")


@frozen
class Archived:
    """The result of archiving a day of history.

    Attributes:
        day: The day.
        state: The state of its jobs.
        jobs: How many jobs the day has.
        checksum: The checksum over all columns.
        path: The path of the file.
        outcome: ``dropped``; ``in use``: another session uses the day, which is dropped later; or
            ``changed``: the day changed during archiving, and is archived again later.
    """

    day: date
    state: str
    jobs: int
    checksum: str
    path: str
    outcome: str


def archive(
    session: Session,
    location: str | None = None,
    before: date | None = None,
    advance: Callable[[Archived], None] = lambda _: None,
) -> list[Archived]:
    """Archive days of history and drop them; safe to run on many hosts at once.

    Args:
        session: A connection of a role that may maintain history.
        location: The archive's location; by default that of the queue's settings.
        before: Archive all days before this one; by default those past retention.
        advance: Called with the result of each day.

    Returns:
        The result of each day; empty if another process is archiving.

    Raises:
        ConfigurationError: When there is no location, or the location is not valid.
        ArchiveUnavailable: When the archive cannot be written, or a file differs from the day.
    """
    session.ensure_version()
    past = PastDays(session)
    chosen = location or past.location
    if chosen is None:
        raise ConfigurationError(
            "there is no archive", "give --to, or set txqueue.setting.archive to a location"
        )
    storage = open_storage(chosen)
    done: list[Archived] = []
    with past.alone() as is_alone:
        for day in past.due(before) if is_alone else ():
            if (one := _archived(past, storage, day)) is not None:
                advance(one)
                done.append(one)
    return done


def _archived(past: PastDays, storage: ArchiveStorage, day: Day) -> Archived | None:
    attempt = past.begin(day)
    if attempt is None:
        return None
    path = storage.path(day.state, day.day)
    with reachable(storage.location):
        written = _written(past, storage, day, path)
        _ensure_same(written, storage, path, past.count(day))
    is_verified = past.end(day, attempt, storage.location, written.rows, written.text)
    outcome = "changed" if not is_verified else "dropped" if past.drop(day) else "in use"
    return Archived(
        day=day.day,
        state=day.state,
        jobs=written.rows,
        checksum=written.text,
        path=path,
        outcome=outcome,
    )


def _written(past: PastDays, storage: ArchiveStorage, day: Day, path: str) -> Checksum:
    columns = past.columns()
    schema = pa.schema([pa.field(column.name, _type(column)) for column in columns])
    checksum = Checksum(schema)
    with storage.writing(path, schema) as writer:
        for batch in _batches(past.pages(day, columns), schema):
            checksum.add(batch)
            writer.write_batch(batch)
    return checksum


def _ensure_same(written: Checksum, storage: ArchiveStorage, path: str, jobs: int) -> None:
    """Read a file back, and compare it with what was written and with the table's row count."""
    batches = storage.batches(path)
    read = None
    for batch in batches:
        read = read or Checksum(batch.schema)
        read.add(batch)
    same = read is not None and read.text == written.text
    if not (same or (read is None and written.rows == 0)) or written.rows != jobs:
        raise ArchiveUnavailable(
            f"{path} does not hold the {jobs} jobs that were written to it",
            "nothing was dropped; look at the storage, and archive again",
        )


def _batches(
    pages: Iterator[Sequence[tuple[Any, ...]]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for rows in pages:
        if rows:
            values = zip(zip(*rows, strict=True), schema, strict=True)
            yield pa.record_batch(
                [_array(column, field.type) for column, field in values], schema=schema
            )


def _array(values: Sequence[Any], kind: Any) -> Any:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).cast(kind)
    return pa.array(values, kind)


def _type(column: Column) -> Any:
    return _MOMENT if column.kind == "moment" else pa.type_for_alias(column.kind)

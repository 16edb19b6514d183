"""Archives days of history: writes, reads back and compares each day, by a checksum, before
dropping it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import date
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from attrs import frozen

from txqueue.archive.storage import ArchiveStorage, open_storage, reachable
from txqueue.errors import ArchiveUnavailable, ConfigurationError
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.history import Column, Day, PastDays

# Between the values of a row, after it, and in place of a null, which no text of PostgreSQL has.
_UNIT, _ROW, _NULL = pa.scalar("\x1f", pa.large_string()), "\x1e", "\0"


class Checksum:
    """A checksum of rows in their order, over the values and nulls of each column.

    Args:
        schema: The columns.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._digest = blake2b(str(schema.remove_metadata()).encode(), digest_size=16)
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add a batch of rows to the checksum."""
        self.rows += batch.num_rows
        texts = [_texts(column) for column in batch.columns]
        rows = pc.binary_join_element_wise(
            *texts, _UNIT, null_handling="replace", null_replacement=_NULL
        )
        # The ends of batches make no difference.
        self._digest.update(_ROW.join([*rows.to_pylist(), ""]).encode())

    @property
    def text(self) -> str:
        """Return the checksum of all rows added so far, as hexadecimal text."""
        return self._digest.hexdigest()


def _texts(column: Any) -> Any:
    # As text, Arrow needs a database of time zones for moments.
    is_moment = pa.types.is_timestamp(column.type)
    return (column.cast(pa.int64()) if is_moment else column).cast(pa.large_string())


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
    past_days = PastDays(session)
    target = location or past_days.location
    if target is None:
        raise ConfigurationError(
            "there is no archive", "give --to, or set txqueue.setting.archive to a location"
        )
    storage = open_storage(target)
    archived_days: list[Archived] = []
    with past_days.alone() as is_alone:
        for day in past_days.due(before) if is_alone else ():
            if (archived := _archived(past_days, storage, day)) is not None:
                advance(archived)
                archived_days.append(archived)
    return archived_days


def _archived(past_days: PastDays, storage: ArchiveStorage, day: Day) -> Archived | None:
    attempt = past_days.begin(day)
    if attempt is None:
        return None
    path = storage.path(day.state, day.day)
    with reachable(storage.location):
        checksum = _written(past_days, storage, day, path)
        _ensure_same(checksum, storage, path, past_days, day)
    is_verified = past_days.end(day, attempt, storage.location, checksum.rows, checksum.text)
    outcome = "changed" if not is_verified else "dropped" if past_days.drop(day) else "in use"
    return Archived(
        day=day.day,
        state=day.state,
        jobs=checksum.rows,
        checksum=checksum.text,
        path=path,
        outcome=outcome,
    )


def _written(past_days: PastDays, storage: ArchiveStorage, day: Day, path: str) -> Checksum:
    columns = past_days.columns()
    schema = pa.schema([pa.field(column.name, _type(column)) for column in columns])
    checksum = Checksum(schema)
    with storage.writing(path, schema) as writer:
        for batch in _batches(past_days.pages(day, columns), schema):
            checksum.add(batch)
            writer.write_batch(batch)
            past_days.keep()
    return checksum


def _ensure_same(
    expected: Checksum, storage: ArchiveStorage, path: str, past_days: PastDays, day: Day
) -> None:
    """Read a file back, and compare it with what was written and with the table's row count."""
    batches = storage.batches(path)
    actual = None
    for batch in batches:
        actual = actual or Checksum(batch.schema)
        actual.add(batch)
        past_days.keep()
    jobs = past_days.count(day)
    is_same = actual is not None and actual.text == expected.text
    if not (is_same or (actual is None and expected.rows == 0)) or expected.rows != jobs:
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

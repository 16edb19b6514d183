"""Calls of the stored functions that fill worksets, start them and read their progress."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from txqueue.errors import InvalidWork, JobNotFound
from txqueue.model.payload import encode
from txqueue.model.workset_item import WorksetItem, WorksetStatus, columns_of
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.enqueueing.application_table import ApplicationTable, Query
from txqueue.store.enqueueing.calls import job_object, json_text
from txqueue.store.schema.files import checked_name

__all__ = ["Worksets", "fill", "spec_of"]

# About how many items one statement inserts.
TOGETHER = 5_000


async def fill(
    query: Query, schema: str, cls: type[WorksetItem], items: Iterable[WorksetItem]
) -> int:
    """Put items into the workset of a class within one transaction; return how many were added.

    Raises:
        InvalidWork: When an item is of another class, or its fields do not fit JSON.
        QueueFull: When the workset's bound is reached.
    """
    if cls.source is not None:
        raise InvalidWork(
            f"the items of {cls.__qualname__} are the rows of {cls.source.name}",
            "insert rows there, and start the workset",
        )
    await query(f"select {schema}.ensure_workset(cast(%s as jsonb))", (spec_of(cls),))
    total = 0
    for text in _texts(cls, items):
        rows = await query(
            f"select {schema}.fill_workset(%s, cast(%s as jsonb))", (cls.workset, text)
        )
        total += int(rows[0][0])
    return total


def _texts(cls: type[WorksetItem], items: Iterable[WorksetItem]) -> Iterator[str]:
    together = cls.batch * max(1, TOGETHER // cls.batch)
    remaining = iter(items)
    while entries := [_encoded(cls, item) for item in islice(remaining, together)]:
        yield json_text(entries)


def _encoded(cls: type[WorksetItem], item: WorksetItem) -> dict[str, Any]:
    if type(item) is not cls:
        raise InvalidWork(
            f"a {type(item).__qualname__} is not an item of this workset",
            f"pass a {cls.__qualname__}",
        )
    return encode(item)


def spec_of(cls: type[WorksetItem]) -> str:
    """Return the JSON description that ``ensure_workset()`` takes."""
    return json.dumps(
        {
            "name": cls.workset,
            "work_type": cls.work_type,
            "job": job_object(cls.job_type()),
            "size": cls.size,
            "batch": cls.batch,
            "bound": cls.bound,
            "source": cls.source.name if cls.source else None,
            "columns": columns_of(cls),
        }
    )


class Worksets:
    """The operations of clients on worksets.

    Args:
        connections: The connection pool.
        schema: The name of the schema.
    """

    def __init__(self, connections: ConnectionPool, schema: str) -> None:
        self._query = connections.query
        self._dicts = connections.query_dicts
        self._schema = checked_name(schema)

    async def start(self, cls: type[WorksetItem]) -> int:
        """Enqueue a workset's jobs; return how many."""
        expected = None if cls.source is None else await ApplicationTable(cls, self._query).count()
        await self._query(f"select {self._schema}.ensure_workset(%s)", (spec_of(cls),))
        started = await self._query(
            f"select {self._schema}.start_workset(%s, %s)", (cls.workset, expected)
        )
        return int(started[0][0])

    async def status(self, cls: type[WorksetItem]) -> WorksetStatus:
        """Return a workset's progress.

        Raises:
            JobNotFound: When the workset was never filled or started.
        """
        rows = await self._dicts(
            f"select done, failed, remaining, jobs"
            f" from {self._schema}.workset_status where name = %s",
            (cls.workset,),
        )
        if not rows:
            raise JobNotFound(f"there is no workset {cls.workset}", "fill it or start it")
        return WorksetStatus(
            total=sum(rows[0][k] for k in ("done", "failed", "remaining")), **rows[0]
        )

    async def retry(self, cls: type[WorksetItem]) -> int:
        """Retry the failed items of a workset; return how many."""
        rows = await self._query(f"select {self._schema}.retry_workset(%s)", (cls.workset,))
        return int(rows[0][0])

"""Calls of the stored functions by which a job works through the parts of a workset."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final

from attrs import field, frozen

from txqueue.model.job import Token
from txqueue.model.workset_item import WorksetItem
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.enqueueing.application_table import ApplicationTable, Query

__all__ = ["NextPart", "Part", "Parts", "Performed", "count_call"]

# The SQL arguments that identify a job and its fencing token; `_fence` returns their values.
_FENCE: Final = "its_incarnation => %s, its_assignment => %s, its_job_id => %s"
_NEXT_PART: Final = """
    select held, part, first, last, keys, items, attempt, taken, content, due_in
      from {schema}.next_part({fence}, its_name => %s, performed => %s, failures => %s)"""


@frozen
class Part:
    """A part of a workset: items that a job has taken.

    Attributes:
        id: The part's number.
        first: The first key, for an application's table.
        last: The last key.
        keys: The keys of the items, if the part has not all from first to last.
        items: How many items the part has.
        attempt: How often the items have failed.
        taken: How often jobs have taken the part, this time included.
        content: The items as JSON; None for an application's table.
    """

    id: int
    first: str | None
    last: str | None
    keys: list[str] | None
    items: int
    attempt: int
    taken: int
    content: str | None = field(repr=False)


@frozen
class NextPart:
    """The next part for a job of a workset.

    Attributes:
        held: Whether the job's assignment is still valid.
        part: The part; None if there is none to take.
        due_in: Seconds until the next part is due; None if none is left.
    """

    held: bool
    part: Part | None
    due_in: float | None


@frozen
class Performed:
    """A part that a job has processed.

    Attributes:
        part: The part's number.
        failures: The failed items: ``key``, ``error``, and ``delay`` before a retry, each.
    """

    part: int
    failures: list[dict[str, Any]]


class Parts:
    """The operations of a workset's job, fenced by its token.

    Args:
        connections: The connection pool.
        schema: The name of the schema.
    """

    def __init__(self, connections: ConnectionPool, schema: str) -> None:
        self.connections = connections
        self.schema = schema

    async def next(
        self, cls: type[WorksetItem], token: Token, job_id: int, performed: Performed | None
    ) -> NextPart:
        """Count the items of a processed part, if given, and take the next, in one transaction."""
        rows = await self.connections.query(
            _NEXT_PART.format(schema=self.schema, fence=_FENCE),
            (
                *_fence(token, job_id),
                cls.workset,
                *((performed.part, json.dumps(performed.failures)) if performed else (None, None)),
            ),
        )
        held, number, *fields, due_in = rows[0]
        part = None if number is None else Part(number, *fields)
        return NextPart(held, part, due_in)

    async def split(
        self, token: Token, job_id: int, part: Part, keys: Sequence[str], size: int
    ) -> bool:
        """Split a part into smaller ones; return False if the job no longer holds it."""
        rows = await self.connections.query(
            f"select {self.schema}.split_workset_part("
            f"{_FENCE}, its_part => %s, its_keys => %s::text[], size => %s)",
            (*_fence(token, job_id), part.id, list(keys), size),
        )
        return bool(rows[0][0])

    async def end(self, cls: type[WorksetItem], token: Token, job_id: int) -> bool:
        """End the job unless parts are left or the workset is being filled; tell if it ended."""
        return await _end(
            self.connections.query, self.schema, (*_fence(token, job_id), cls.workset, False)
        )

    async def pass_on(
        self, cls: type[WorksetItem], token: Token, job_id: int, performed: Performed | None
    ) -> None:
        """Count the items of a processed part, if given, and replace this job by a new one."""
        async with self.connections.transaction() as connection:
            if performed is not None:
                await connection.query(*count_call(self.schema, token, job_id, performed))
            await _end(connection.query, self.schema, (*_fence(token, job_id), cls.workset, True))

    async def rows(self, cls: type[WorksetItem], part: Part) -> tuple[str, list[str]]:
        """Read a part of an application's table: the items as JSON, and their keys."""
        table = ApplicationTable(cls, self.connections.query)
        return await table.rows(part.first, part.last, part.keys)

    async def cut(self, cls: type[WorksetItem]) -> bool | None:
        """Divide the next rows of an application's table into parts.

        Returns:
            False if all rows were in parts before; None while another session divides the table.
        """
        async with self.connections.transaction() as connection:
            rows = await connection.query(
                f"select is_cut, cut_to from {self.schema}.lock_next_cut(%s)", (cls.workset,)
            )
            is_cut, cut_to = rows[0]
            if is_cut is None or is_cut:
                return None if is_cut is None else False
            cut = await ApplicationTable(cls, connection.query).cut(cut_to)
            await connection.query(
                f"select {self.schema}.add_parts(its_name => %s, firsts => %s::text[],"
                " lasts => %s::text[], counts => %s::integer[], is_all => %s)",
                (cls.workset, cut.firsts, cut.lasts, cut.counts, cut.is_all),
            )
        return True


def count_call(
    schema: str, token: Token, job_id: int, performed: Performed
) -> tuple[str, Sequence[object]]:
    """Return the statement that counts a processed part's items in the caller's transaction."""
    return f"select {schema}.end_part({_FENCE}, its_part => %s, failures => %s)", (
        *_fence(token, job_id),
        performed.part,
        json.dumps(performed.failures),
    )


async def _end(query: Query, schema: str, parameters: Sequence[object]) -> bool:
    call = f"select {schema}.end_slot({_FENCE}, its_name => %s, is_renewed => %s)"
    rows = await query(call, parameters)
    return bool(rows[0][0])


def _fence(token: Token, job_id: int) -> tuple[int, int, int]:
    return token.incarnation, token.assignment, job_id

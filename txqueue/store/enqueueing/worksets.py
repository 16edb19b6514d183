"""Calls of the stored functions for worksets: filled, started, read, worked through part after
part; and the rows of an application's table that are their items.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final

from attrs import field, frozen

from txqueue.errors import InvalidWork, JobNotFound, Refused, SchemaMismatch
from txqueue.model.job import Token
from txqueue.model.payload import encode
from txqueue.model.workset_item import WorksetItem, WorksetStatus, columns_of, decimals_of
from txqueue.store.driver.connection import Statement
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.enqueueing.calls import job_object, json_text
from txqueue.store.schema.files import checked_name

Query = Callable[[str, Sequence[object]], Awaitable[list[tuple[Any, ...]]]]
# How many parts are cut at a time.
AHEAD = 64
# What is known of the key; a view has no index, and may have any rows.
_KEY = """
    select class.relkind in ('r', 'p', 'm') as is_table, its.attnotnull as is_given, exists (
           select from pg_index as known
             join pg_attribute as first
               on first.attrelid = known.indrelid and first.attnum = known.indkey[0]
            where known.indrelid = class.oid and known.indisunique and known.indnkeyatts = 1
              and known.indpred is null and first.attname = its.attname) as is_unique
      from pg_class as class join pg_attribute as its on its.attrelid = class.oid
     where class.oid = to_regclass(%s) and its.attname = %s"""


class ApplicationTable:
    """The table whose rows are the items of a class.

    Args:
        cls: The class, which has a source.
        query: Runs a statement.
    """

    def __init__(self, cls: type[WorksetItem], query: Query) -> None:
        assert cls.source is not None
        self._cls = cls
        self._query = query
        self._name = cls.source.name
        self._key_name = cls.source.key
        self._key = _quoted(cls.source.key)
        self._where = cls.source.where

    async def count(self) -> int:
        """Count the rows.

        Raises:
            Refused: When the key does not name each row: parts end at a key, so rows without one
                would be skipped, and those that share one skipped or performed twice.
        """
        is_given, is_unique = await self._examine_key()
        # What an index or a constraint excludes is not counted again.
        keyless = "0" if is_given else f"count(*) filter (where {self._key} is null)"
        distinct = "count(*)" if is_unique else f"count(distinct {self._key})"
        [counted] = await self._query(
            f"select count(*), {keyless}, {distinct} from {self._name} where ({self._where})", ()
        )
        total, without_key, keys = map(int, counted)
        if without_key:
            raise Refused(
                f"{without_key:,} of the rows of {self._name} have no {self._key_name}, by which"
                " parts are cut",
                f'give them one, or leave them out: where="{self._key_name} is not null"',
            )
        if keys < total:
            raise self._not_unique()
        return total

    async def _examine_key(self) -> tuple[bool, bool]:
        """Tell whether each row has a key, and whether it is unique; False if only rows tell.

        Raises:
            Refused: When there is no such table, or it has no index that makes the key unique.
        """
        rows = await self._query(_KEY, (self._name, self._key_name))
        if not rows:
            raise Refused(
                f"there is no table or view {self._name} with a column {self._key_name}",
                "create it, or name it with its schema: ExistingTable('schema.table', key='id')",
            )
        is_table, is_given, is_unique = rows[0]
        if is_table and not is_unique:
            raise Refused(
                f"{self._key_name} of {self._name} has no unique index, by which the workset's"
                " parts are cut",
                "name the primary key, or a column with a unique index that is not partial",
            )
        return bool(is_given), bool(is_unique)

    async def cut(self, cut_to: str | None) -> tuple[list[str], list[str], list[int], bool]:
        """Divide the next rows beyond a key into parts; without a key, the first rows.

        Returns:
            The first key of each part, the last keys, how many rows they have, and whether no row
            is left.

        Raises:
            Refused: When several rows have the same key. Those that come later than the check at
                the start are all in one answer, which says so.
        """
        key, where, batch = _escaped(self._key), _escaped(self._where), self._cls.batch
        beyond, parameters = (
            (f" and {key} is not null", ()) if cut_to is None else (f" and {key} > %s", (cut_to,))
        )
        ahead = (
            f"select {key} as _key from {self._name} where ({where}){beyond}"
            " order by 1 fetch first (%s) rows with ties"
        )
        with self._being_there():
            parts = await self._query(
                "select (array_agg(_key order by _place))[1]::text,"
                " (array_agg(_key order by _place desc))[1]::text, count(*)::int,"
                " bool_or(_is_again)"
                " from (select _key, row_number() over (order by _key) as _place,"
                f" lag(_key) over (order by _key) = _key as _is_again from ({ahead}) as ahead)"
                f" as placed group by (_place - 1) / {batch} order by (_place - 1) / {batch}",
                (*parameters, AHEAD * batch),
            )
        if any(row[3] for row in parts):
            raise self._not_unique()
        firsts, lasts, counts = ([row[column] for row in parts] for column in range(3))
        return firsts, lasts, counts, sum(counts) < AHEAD * batch

    async def rows(
        self, first: str | None, last: str | None, keys: Sequence[str] | None
    ) -> tuple[str, list[str]]:
        """Read the rows with some keys, or from one key to another.

        Returns:
            The items as JSON, and their keys.
        """
        key, where = _escaped(self._key), _escaped(self._where)
        condition = f"{key} between %s and %s" if keys is None else f"{key} = any(%s)"
        bounds = (first, last) if keys is None else (_literal(keys),)
        with self._being_there():
            [(content, found)] = await self._query(
                "select json_agg(_item order by _place)::text, array_agg(_key order by _place)"
                f" from (select {key}::text as _key, row_number() over (order by {key}) as _place,"
                f" (select row_to_json(_row) from (select {self._columns()}) as _row) as _item"
                f" from {self._name} where {condition} and ({where})) as listed",
                bounds,
            )
        return content or "[]", found or []

    def _columns(self) -> str:
        exact = decimals_of(self._cls)
        names = ((name, _escaped(_quoted(name))) for name, _ in columns_of(self._cls))
        # A JSON number would be parsed as a float.
        expressions = (f"{text}::text as {text}" if name in exact else text for name, text in names)
        return ", ".join(expressions) or "null as _nothing"

    @contextmanager
    def _being_there(self) -> Iterator[None]:
        """Tell a missing table of the application from one of txqueue's schema."""
        try:
            yield
        except SchemaMismatch as error:
            raise Refused(
                f"the rows of {self._name} cannot be read: {error.what}",
                "create it again; the workset continues by itself",
            ) from None

    def _not_unique(self) -> Refused:
        return Refused(
            f"{self._key_name} of {self._name} is not unique: several rows have the same key",
            "name a column that differs in each row, by which failed items are kept and retried",
        )


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _escaped(text: str) -> str:
    """Return what a statement that has parameters has for a text."""
    return text.replace("%", "%%")


def _literal(keys: Sequence[str]) -> str:
    """Return an array literal, which takes the type of the column it is compared with."""
    escaped = (key.replace("\\", "\\\\").replace('"', '\\"') for key in keys)
    return "{" + ",".join(f'"{key}"' for key in escaped) + "}"


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


# The SQL arguments that identify a job and its fencing token.
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


@frozen
class Parts:
    """A workset, of which one run of a job takes parts; fenced by the run's token.

    Attributes:
        connections: The connection pool.
        schema: The name of the schema.
        cls: The class of the items.
        token: The fencing token of the run.
        job_id: The number of the job.
    """

    connections: ConnectionPool
    schema: str
    cls: type[WorksetItem]
    token: Token
    job_id: int

    @property
    def _fence(self) -> tuple[int, int, int]:
        return self.token.incarnation, self.token.assignment, self.job_id

    async def next(self, performed: Performed | None) -> NextPart:
        """Count the items of a processed part, if given, and take the next, in one transaction."""
        counted = (performed.part, json.dumps(performed.failures)) if performed else (None, None)
        rows = await self.connections.query(
            _NEXT_PART.format(schema=self.schema, fence=_FENCE),
            (*self._fence, self.cls.workset, *counted),
        )
        held, number, *fields, due_in = rows[0]
        part = None if number is None else Part(number, *fields)
        return NextPart(held, part, due_in)

    async def split(self, part: Part, keys: Sequence[str], size: int) -> bool:
        """Split a part into smaller ones; return False if the job no longer holds it."""
        rows = await self.connections.query(
            f"select {self.schema}.split_workset_part("
            f"{_FENCE}, its_part => %s, its_keys => %s::text[], size => %s)",
            (*self._fence, part.id, list(keys), size),
        )
        return bool(rows[0][0])

    def counting(self, performed: Performed) -> Statement:
        """Return the statement that counts a processed part's items in the caller's transaction."""
        call = f"select {self.schema}.end_part({_FENCE}, its_part => %s, failures => %s)"
        return call, (*self._fence, performed.part, json.dumps(performed.failures))

    async def end(self) -> bool:
        """End the job unless parts are left or the workset is being filled; tell if it ended."""
        return await self._end(self.connections.query, is_renewed=False)

    async def pass_on(self, performed: Performed | None) -> None:
        """Count the items of a processed part, if given, and replace this job by a new one."""
        async with self.connections.transaction() as connection:
            if performed is not None:
                await connection.query(*self.counting(performed))
            await self._end(connection.query, is_renewed=True)

    async def _end(self, query: Query, *, is_renewed: bool) -> bool:
        call = f"select {self.schema}.end_slot({_FENCE}, its_name => %s, is_renewed => %s)"
        rows = await query(call, (*self._fence, self.cls.workset, is_renewed))
        return bool(rows[0][0])

    async def rows(self, part: Part) -> tuple[str, list[str]]:
        """Read a part of an application's table: the items as JSON, and their keys."""
        table = ApplicationTable(self.cls, self.connections.query)
        return await table.rows(part.first, part.last, part.keys)

    async def cut(self) -> bool | None:
        """Divide the next rows of an application's table into parts.

        Returns:
            False if all rows were in parts before; None while another session divides the table.
        """
        async with self.connections.transaction() as connection:
            rows = await connection.query(
                f"select is_cut, cut_to from {self.schema}.lock_next_cut(%s)", (self.cls.workset,)
            )
            is_cut, cut_to = rows[0]
            if is_cut is None or is_cut:
                return None if is_cut is None else False
            parts = await ApplicationTable(self.cls, connection.query).cut(cut_to)
            await connection.query(
                f"select {self.schema}.add_parts(its_name => %s, firsts => %s::text[],"
                " lasts => %s::text[], counts => %s::integer[], is_all => %s)",
                (self.cls.workset, *parts),
            )
        return True

"""The rows of an application's table, or view, that are the items of a workset."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from attrs import frozen

from txqueue.errors import Refused, SchemaMismatch
from txqueue.model.workset_item import WorksetItem, columns_of, decimals_of

__all__ = ["ApplicationTable", "NewParts", "Query"]

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


@frozen
class NewParts:
    """The next rows, divided into parts.

    Attributes:
        firsts: The first key of each part.
        lasts: The last key of each part.
        counts: How many rows each part has.
        is_all: Whether no row is left.
    """

    firsts: list[str]
    lasts: list[str]
    counts: list[int]
    is_all: bool


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

    async def cut(self, cut_to: str | None) -> NewParts:
        """Divide the next rows beyond a key into parts; without a key, the first rows.

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
        return NewParts(firsts, lasts, counts, is_all=sum(counts) < AHEAD * batch)

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

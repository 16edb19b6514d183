"""The catalogue of a migrated database as values, of which `tests.db.schema_picture` makes text.

Of the lanes, which are alike, only lane 0 is read; of the daily partitions, which depend on the
date, none.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, TypeVar

import psycopg2
from attrs import frozen

__all__ = [
    "Catalog",
    "Column",
    "Constraint",
    "Function",
    "Grant",
    "Index",
    "Relation",
    "Sequence",
    "Type",
    "read_catalog",
]

Row = TypeVar("Row")


@frozen
class Type:
    """An enum, a domain or a composite type.

    Attributes:
        name: Its name.
        definition: The SQL after the name; empty for a composite type, which has columns.
        comment: Its comment.
    """

    name: str
    definition: str
    comment: str


@frozen
class Sequence:
    """A sequence that no identity column owns.

    Attributes:
        name: Its name.
        definition: The SQL after the name: what differs from the defaults.
        comment: Its comment.
    """

    name: str
    definition: str
    comment: str


@frozen
class Relation:
    """A table, a partition or a view.

    Attributes:
        name: Its name.
        parent: The table of which it is a partition, or an empty text.
        bound: The values for which it is a partition.
        key: How it is partitioned itself, or an empty text.
        options: Its storage parameters.
        is_view: Whether it is a view.
        logs_rows: Whether its replica identity is the full row.
        comment: Its comment.
    """

    name: str
    parent: str
    bound: str
    key: str
    options: str
    is_view: bool
    logs_rows: bool
    comment: str


@frozen
class Column:
    """A column of a table, a view or a composite type.

    Attributes:
        relation: The table, view or type.
        name: Its name, quoted if SQL needs that.
        type: Its type, with the collation if it is not the type's own.
        is_required: Whether it is `not null`.
        value: The SQL of its default, identity or expression, or an empty text.
        comment: Its comment.
    """

    relation: str
    name: str
    type: str
    is_required: bool
    value: str
    comment: str


@frozen
class Constraint:
    """A key or check of a table.

    Attributes:
        relation: The table.
        columns: The columns that it concerns.
        definition: The SQL.
    """

    relation: str
    columns: list[str]
    definition: str


@frozen
class Index:
    """An index that no key owns.

    Attributes:
        relation: The table, or the partition to which it belongs.
        definition: The SQL after `create`.
    """

    relation: str
    definition: str


@frozen
class Function:
    """The signature of a stored function.

    Attributes:
        name: Its name.
        arguments: The SQL of its arguments.
        result: The SQL of its result.
    """

    name: str
    arguments: str
    result: str


@frozen
class Grant:
    """A privilege of a role other than the owner.

    Attributes:
        role: The role.
        privilege: What it may do.
        kind: `schema`, `relation` or `function`.
        name: With what.
    """

    role: str
    privilege: str
    kind: str
    name: str


@frozen
class Catalog:
    """All definitions of the schema, each list in the order to be shown."""

    version: int
    types: list[Type]
    sequences: list[Sequence]
    relations: list[Relation]
    columns: list[Column]
    constraints: list[Constraint]
    indexes: list[Index]
    functions: list[Function]
    grants: list[Grant]


def read_catalog(dsn: str) -> Catalog:
    """Read the definitions of the schema `txqueue`."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        # The server names what is on the search path without its schema.
        cursor.execute("set search_path = txqueue, pg_temp")
        return Catalog(
            version=_read(cursor, "select max(number) from migration", int)[0],
            types=_read(cursor, TYPES, Type),
            sequences=_read(cursor, SEQUENCES, Sequence),
            relations=_read(cursor, RELATIONS, Relation),
            columns=_read(cursor, COLUMNS, Column),
            constraints=_read(cursor, CONSTRAINTS, Constraint),
            indexes=_read(cursor, INDEXES, Index),
            functions=_read(cursor, FUNCTIONS, Function),
            grants=_read(cursor, GRANTS, Grant),
        )


def _read(cursor: Any, query: str, made: Callable[..., Row]) -> list[Row]:
    cursor.execute(query)
    return [made(*row) for row in cursor.fetchall()]


IS_SHOWN: Final = "{name} !~ '_([1-7]|[0-9]{{8}})$'"
"""A condition that leaves out lanes 1 to 7 and daily partitions."""

TYPES: Final = """
    select typname,
           case typtype
               when 'e' then
                   (select format('as enum (%s)',
                                  string_agg(quote_literal(enumlabel), ', ' order by enumsortorder))
                      from pg_enum where enumtypid = its.oid)
               when 'd' then
                   concat_ws(' ', 'as', format_type(typbasetype, typtypmod),
                       case when typnotnull then 'not null' end,
                       (select string_agg(pg_get_constraintdef(oid, true), ' ' order by conname)
                          from pg_constraint where contypid = its.oid and contype = 'c'))
               else ''
           end,
           coalesce(obj_description(its.oid, 'pg_type'), '')
      from pg_type as its left join pg_class as class on class.oid = typrelid
     where typnamespace = 'txqueue'::regnamespace and (typtype in ('e', 'd') or relkind = 'c')
     order by its.oid"""

SEQUENCES: Final = """
    select relname,
           concat_ws(' ',
               case when seqtypid <> 'bigint'::regtype then 'as ' || seqtypid::regtype end,
               case when seqincrement <> 1 then 'increment ' || seqincrement end,
               case when seqmin <> 1 then 'minvalue ' || seqmin end,
               case when seqmax not in (32767, 2147483647, 9223372036854775807)
                    then 'maxvalue ' || seqmax end,
               case when seqstart <> seqmin then 'start ' || seqstart end,
               case when seqcycle then 'cycle' end),
           coalesce(obj_description(its.oid, 'pg_class'), '')
      from pg_class as its join pg_sequence on seqrelid = its.oid
     where relnamespace = 'txqueue'::regnamespace
       and not exists (select from pg_depend
                        where classid = 'pg_class'::regclass and objid = its.oid and deptype = 'i')
     order by relname"""

RELATIONS: Final = f"""
    select relname, coalesce(inhparent::regclass::text, ''),
           coalesce(pg_get_expr(relpartbound, its.oid), ''),
           coalesce(pg_get_partkeydef(its.oid), ''),
           coalesce(array_to_string(reloptions, ', '), ''), relkind = 'v', relreplident = 'f',
           coalesce(obj_description(its.oid, 'pg_class'), '')
      from pg_class as its left join pg_inherits on inhrelid = its.oid
     where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p', 'v')
       and {IS_SHOWN.format(name="relname")}
     order by relkind = 'v', case when relkind = 'v' then relname end, its.oid"""

COLUMNS: Final = """
    select relname, quote_ident(attname),
           concat_ws(' ', format_type(atttypid, atttypmod),
               case when attcollation <> typcollation then 'collate ' || quote_ident(collname) end),
           attnotnull,
           case when attidentity = 'a' then 'generated always as identity'
                when attidentity = 'd' then 'generated by default as identity'
                when attgenerated = 's'
                then format('generated always as (%s) stored', pg_get_expr(adbin, adrelid, true))
                when attgenerated = 'v'
                then format('generated always as (%s) virtual', pg_get_expr(adbin, adrelid, true))
                when adbin is not null then 'default ' || pg_get_expr(adbin, adrelid, true)
                else '' end,
           coalesce(col_description(its.oid, attnum), '')
      from pg_class as its
      join pg_attribute on attrelid = its.oid
      join pg_type on pg_type.oid = atttypid
      left join pg_collation on pg_collation.oid = attcollation
      left join pg_attrdef on adrelid = its.oid and adnum = attnum
     where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p', 'v', 'c')
       and attnum > 0 and not attisdropped and not relispartition
     order by relname, attnum"""

# PostgreSQL 18 also lists what is `not null` as a constraint.
CONSTRAINTS: Final = """
    select conrelid::regclass::text,
           array(select quote_ident(attname) from pg_attribute
                  where attrelid = conrelid and attnum = any (conkey)
                  order by array_position(conkey, attnum)),
           pg_get_constraintdef(its.oid, true)
      from pg_constraint as its join pg_class as class on class.oid = conrelid
     where connamespace = 'txqueue'::regnamespace and contype <> 'n' and not relispartition
     order by 1, contype = 'c', contype = 'u', 2, 3"""

INDEXES: Final = f"""
    select owner.relname, pg_get_indexdef(its.oid, 0, true)
      from pg_index join pg_class as its on its.oid = indexrelid
      join pg_class as owner on owner.oid = indrelid
     where owner.relnamespace = 'txqueue'::regnamespace and not its.relispartition
       and not exists (select from pg_constraint where conindid = its.oid)
       and {IS_SHOWN.format(name="owner.relname")}
     order by 1, 2"""

FUNCTIONS: Final = f"""
    select proname, pg_get_function_arguments(oid), pg_get_function_result(oid)
      from pg_proc
     where pronamespace = 'txqueue'::regnamespace and {IS_SHOWN.format(name="proname")}
     order by proname, pronargs"""

GRANTS: Final = f"""
    select case grantee when 0 then 'public' else grantee::regrole::text end,
           lower(privilege_type), kind, name
      from (select 'schema', nspname, coalesce(nspacl, acldefault('n', nspowner)), nspowner
              from pg_namespace where nspname = 'txqueue'
            union all
            select 'relation', relname, coalesce(relacl, acldefault('r', relowner)), relowner
              from pg_class
             where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p', 'v', 'S')
               and not relispartition
            union all
            select 'function', proname, coalesce(proacl, acldefault('f', proowner)), proowner
              from pg_proc where pronamespace = 'txqueue'::regnamespace)
           as its (kind, name, acl, owner), aclexplode(acl)
     where grantee <> owner and {IS_SHOWN.format(name="name")}
     group by 1, 2, kind, name
     order by 1, kind = 'function', kind = 'relation', 2 desc, name"""

"""The views, functions and grants of a migrated database as values, of which
`tests.db.schema_picture` makes text. Of the lanes, which are alike, only lane 0 is read.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import Any, Final, TypeVar

import psycopg2
from attrs import frozen

__all__ = ["Catalog", "Function", "Grant", "View", "read_catalog"]

Row = TypeVar("Row")


@frozen
class View:
    """A view.

    Attributes:
        name: Its name.
        columns: The names and types of its columns.
        comment: Its comment.
    """

    name: str
    columns: str
    comment: str


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
    """The definitions of the schema, each list in the order to be shown."""

    version: int
    tables: list[str]
    views: list[View]
    functions: list[Function]
    grants: list[Grant]


def read_catalog(dsn: str) -> Catalog:
    """Read the definitions of the schema `txqueue`."""
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        # The server names what is on the search path without its schema.
        cursor.execute("set search_path = txqueue, pg_temp")
        return Catalog(
            version=_read(cursor, "select max(number) from migration", int)[0],
            tables=_read(cursor, TABLES, str),
            views=_read(cursor, VIEWS, View),
            functions=_read(cursor, FUNCTIONS, Function),
            grants=_read(cursor, GRANTS, Grant),
        )


def _read(cursor: Any, query: str, made: Callable[..., Row]) -> list[Row]:
    cursor.execute(query)
    return [made(*row) for row in cursor.fetchall()]


IS_SHOWN: Final = "{name} !~ '_([1-7]|[0-9]{{8}})$'"
"""A condition that leaves out lanes 1 to 7 and daily partitions."""

TABLES: Final = """
    select relname from pg_class
     where relnamespace = 'txqueue'::regnamespace and relkind in ('r', 'p') and not relispartition
     order by relname"""

VIEWS: Final = """
    select relname,
           (select string_agg(quote_ident(attname) || ' ' || format_type(atttypid, atttypmod), ', '
                              order by attnum)
              from pg_attribute where attrelid = its.oid and attnum > 0),
           coalesce(obj_description(its.oid, 'pg_class'), '')
      from pg_class as its
     where relnamespace = 'txqueue'::regnamespace and relkind = 'v'
     order by relname"""

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

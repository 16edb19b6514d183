"""The owner of the schema, as which each migration runs, and objects in it that others own."""

from __future__ import annotations

from typing import Any, Final

import psycopg2
from psycopg2.extensions import quote_ident

from txqueue.errors import Refused

__all__ = ["STRAYS", "act_as_owner", "adopt_strays"]

STRAYS: Final = """
    select kind, name, pg_get_userbyid(its.owner)::text as owner,
           pg_get_userbyid(nspowner)::text as rightful
      from pg_namespace, lateral (
           select case relkind when 'v' then 'view' when 'S' then 'sequence' when 'c' then 'type'
                  else 'table' end, oid::regclass::text, relowner
             from pg_class
            where relnamespace = pg_namespace.oid and relkind in ('r', 'p', 'v', 'S', 'c')
              -- A sequence of a column goes with its table.
              and not exists (
                  select from pg_depend where classid = 'pg_class'::regclass
                     and objid = pg_class.oid and relkind = 'S' and deptype in ('a', 'i'))
            union all
           select 'function', oid::regprocedure::text, proowner
             from pg_proc where pronamespace = pg_namespace.oid
            union all
           select 'type', oid::regtype::text, typowner
             from pg_type where typnamespace = pg_namespace.oid and typtype in ('e', 'd')
           ) as its (kind, name, owner)
     where nspname = %s and its.owner <> nspowner
     order by 1, 2"""
"""The objects of a schema that another role owns, which its functions cannot use."""


def adopt_strays(cursor: Any, schema: str) -> None:
    """Give the objects of the schema to its owner, in the open transaction.

    Raises:
        Refused: When this role may not do so.
    """
    cursor.execute(STRAYS, (schema,))
    strays = cursor.fetchall()
    try:
        for kind, name, _, rightful in strays:
            cursor.execute(f"alter {kind} {name} owner to {quote_ident(rightful, cursor)}")
    except psycopg2.errors.InsufficientPrivilege:
        kind, name, owner, rightful = strays[0]
        raise Refused(
            f"{len(strays)} objects in the schema {schema} do not belong to its owner {rightful}:"
            f" the {kind} {name} belongs to {owner}",
            f"migrate once as a superuser, or as a member of both {rightful} and {owner}",
        ) from None


def act_as_owner(cursor: Any, schema: str) -> None:
    """Have the open transaction act as the schema's owner, if there is one, who owns what it makes.

    Raises:
        Refused: When this role may not do so.
    """
    sql = "select pg_get_userbyid(nspowner)::text from pg_namespace where nspname = %s"
    cursor.execute(sql, (schema,))
    for (owner,) in cursor.fetchall():
        try:
            cursor.execute("select set_config('role', %s, true)", (owner,))
        except psycopg2.errors.InsufficientPrivilege:
            what = f"the schema {schema} belongs to {owner}"
            raise Refused(what, f"migrate as {owner}") from None

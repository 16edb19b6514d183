"""Replaces the schema's functions and views by those of this version.

A function is dropped if its result type changes, or if this version does not have it. The rights
that the application's own roles have on functions and views stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import psycopg2
from attrs import frozen

from txqueue.errors import Refused

__all__ = ["define_functions", "keeping_rights", "rehearse_functions"]

_DEFINED: Final = re.compile(r"^create or replace (function|view) \w+\.(\w+)", re.MULTILINE)
# Views first, which may call the functions.
_OBJECTS: Final = """
    select 'view' as kind, oid, relname::text, '{}'::bigint[], oid::regclass::text as target, xmin,
           relowner as owner, relacl as rights
      from pg_class where relnamespace = current_schema()::regnamespace and relkind = 'v'
    union all
    select 'function', oid, proname::text, string_to_array(proargtypes::text, ' ')::bigint[],
           oid::regprocedure::text, xmin, proowner, proacl
      from pg_proc where pronamespace = current_schema()::regnamespace
     order by 1 desc"""
# The errors of definitions that need tables, columns, types or functions of the release.
_OF_LATER_TABLES: Final = (
    psycopg2.errors.UndefinedTable,
    psycopg2.errors.UndefinedColumn,
    psycopg2.errors.UndefinedObject,
    psycopg2.errors.UndefinedFunction,
)
_RIGHTS: Final = f"""
    select granted.oid, privilege_type, quote_ident(rolname),
           case when is_grantable then ' with grant option' else '' end
      from ({_OBJECTS}) as granted, aclexplode(rights) as acl, pg_roles
     where pg_roles.oid = acl.grantee and grantee <> owner and rolname <> all (%s)
     order by 1, 3"""


@frozen
class _Object:
    """A function or a view.

    Attributes:
        kind: ``function`` or ``view``.
        oid: Its number.
        name: Its name without the schema.
        arguments: The numbers of the types of a function's arguments.
        target: What identifies it in a statement.
        written: A text that changes when a function is redefined.
    """

    kind: str
    oid: int
    name: str
    arguments: list[int]
    target: str
    written: str


@contextmanager
def keeping_rights(cursor: Any, own_roles: Sequence[str]) -> Iterator[None]:
    """Grant the rights again at the end of the block that others have on what it drops.

    Args:
        cursor: The cursor of the migration.
        own_roles: The schema's own roles, which get their rights otherwise.
    """
    before = _objects(cursor)
    cursor.execute(_RIGHTS, (list(own_roles),))
    rights = cursor.fetchall()
    yield
    after = _objects(cursor)
    made = [each for oid, each in after.items() if oid not in before]
    for oid, right, grantee, option in rights:
        for each in [] if oid in after else _successors(before[oid], made):
            # A view is a table to grant.
            kind = each.kind.replace("view", "table")
            cursor.execute(f"grant {right} on {kind} {each.target} to {grantee}{option}")


def _objects(cursor: Any) -> dict[int, _Object]:
    cursor.execute(_OBJECTS)
    return {row[1]: _Object(*row[:6]) for row in cursor.fetchall()}


def _successors(former: _Object, made: Iterable[_Object]) -> list[_Object]:
    """Return what takes the place of a function or view.

    That is the new one with the same arguments; else those that have further ones; else, as
    arguments have other types, all new ones of the name.
    """
    named = [each for each in made if (each.kind, each.name) == (former.kind, former.name)]
    same = [each for each in named if each.arguments == former.arguments]
    places = len(former.arguments)
    longer = [each for each in named if each.arguments[:places] == former.arguments]
    return same or longer or named


def define_functions(cursor: Any, definitions: Iterable[str]) -> None:
    """Define functions and views, and drop all others of the schema.

    Raises:
        Refused: When a view, default or function of the user's needs what is removed.
    """
    _define_all(cursor, definitions, ())


def rehearse_functions(cursor: Any, definitions: Iterable[str]) -> None:
    """Do the same, as far as the tables before the migration allow, and undo it.

    Raises:
        Refused: When a view, default or function of the user's needs what would be removed.
    """
    cursor.execute("savepoint before")
    _define_all(cursor, definitions, _OF_LATER_TABLES)
    cursor.execute("rollback to savepoint before")


def _define_all(
    cursor: Any, definitions: Iterable[str], passed_over: tuple[type[Exception], ...]
) -> None:
    # Functions call one another, whatever their alphabetical order.
    cursor.execute("set local check_function_bodies = off")
    before = _objects(cursor)
    kept: set[tuple[str, str]] = set()
    for sql in definitions:
        names = _DEFINED.findall(sql)
        kept.update((kind, name) for kind, name in names if kind == "view")
        try:
            _define(cursor, sql)
        except passed_over:
            cursor.execute("rollback to savepoint defined")
            kept.update(names)
    for oid, each in _objects(cursor).items():
        # It was not defined anew: an older one, or one with another signature.
        if before.get(oid) == each and (each.kind, each.name) not in kept:
            _drop(cursor, each)


def _define(cursor: Any, sql: str) -> None:
    """Define a function or view, in place of an existing one unless its result changes type.

    Raises:
        Refused: When a view, default or function of the user's needs what is removed.
    """
    cursor.execute("savepoint defined")
    try:
        cursor.execute(sql)
    except (psycopg2.errors.InvalidFunctionDefinition, psycopg2.errors.InvalidTableDefinition):
        cursor.execute("rollback to savepoint defined")
        _drop_defined(cursor, sql)
        cursor.execute(sql)
    cursor.execute("release savepoint defined")


def _drop_defined(cursor: Any, sql: str) -> None:
    """Drop the functions or view of a definition's name, so that the result type can change."""
    names = _DEFINED.findall(sql)
    for each in _objects(cursor).values():
        if (each.kind, each.name) in names:
            _drop(cursor, each)


def _drop(cursor: Any, its: _Object) -> None:
    """Drop a function or view.

    Raises:
        Refused: When others need it; the message names them.
    """
    try:
        cursor.execute(f"drop {its.kind} {its.target}")
    except psycopg2.errors.DependentObjectsStillExist as error:
        what = f"the {its.kind} {its.target}"
        users = "; ".join((error.diag.message_detail or "").splitlines())
        raise Refused(
            f"this release replaces or removes {what}, and others need it: {users}",
            "take it out of those (a column: alter table ... alter ... drop default; a view or"
            " function: save its definition), migrate, and put it back",
        ) from None

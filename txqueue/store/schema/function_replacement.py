"""The functions and views that the SQL files define, their replacement in the schema, and its
owner.

A function is dropped if its result type changes, or if this version does not have it. The rights
that the application's own roles have on functions and views stay.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final

import psycopg2
from attrs import frozen
from psycopg2.extensions import quote_ident

from txqueue.errors import Refused
from txqueue.store.schema.files import functions

# A view's name; or a function's name, arguments, attributes and body.
_DEFINED: Final = re.compile(
    r"^create or replace (?:view \w+\.(\w+)"
    r"|function \w+\.(\w+)\((.*?)\)\s+(?:returns|language)\b(.*?)\bas \$\$(.*?)\$\$)",
    re.MULTILINE | re.DOTALL,
)
_SETTING: Final = re.compile(r'\bset "?(\w+)"? = ([^\n]+)')
_BETWEEN_ARGUMENTS: Final = re.compile(r",(?![^(]*\))")
# The names of types in pg_type that SQL spells otherwise.
_TYPES: Final = {
    "bigint": "int8",
    "boolean": "bool",
    "double precision": "float8",
    "integer": "int4",
    "smallint": "int2",
}


@frozen
class Definition:
    """A function, or a view.

    Attributes:
        name: Its name; that of a function with `()`.
        signature: The name, for a function with the types of its arguments, as in `pg_type`.
        digest: A digest of a function's rights, settings and body; None for a view.
    """

    name: str
    signature: str
    digest: str | None


def definitions(schema: str) -> Iterator[Definition]:
    """Yield each function and view of the package."""
    for _, sql in functions(schema):
        for view, name, arguments, attributes, body in _DEFINED.findall(sql):
            if view:
                yield Definition(view, view, None)
            else:
                signature = f"{name}({','.join(_types(arguments))})"
                yield Definition(f"{name}()", signature, _digest(attributes, body))


def _types(arguments: str) -> Iterator[str]:
    """Yield the types of the arguments that a caller passes."""
    for argument in filter(None, _BETWEEN_ARGUMENTS.split(arguments.strip())):
        first, its_type = argument.partition(" default ")[0].split(None, 1)
        if first == "inout":
            its_type = its_type.split(None, 1)[1]
        if first != "out":
            yield _type_name(its_type.strip().rpartition(".")[2])


def _type_name(spelled: str) -> str:
    base = spelled.removesuffix("[]")
    return ("_" if base != spelled else "") + _TYPES.get(base, base)


def _digest(attributes: str, body: str) -> str:
    """Return the digest that `OTHER_FUNCTIONS` makes of a function's row in the catalog."""
    settings = sorted(
        f"{name}={value.strip()}".replace("'", "") for name, value in _SETTING.findall(attributes)
    )
    rights = "t" if "security definer" in attributes else "f"
    return sha256("\n".join([rights, *(settings or [""]), body]).encode()).hexdigest()


_IS_DEFINED: Final = re.compile(r"^create or replace (function|view) \w+\.(\w+)", re.MULTILINE)
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
        names = _IS_DEFINED.findall(sql)
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
    names = _IS_DEFINED.findall(sql)
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

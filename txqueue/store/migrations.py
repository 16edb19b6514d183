"""Creates and upgrades the schema: numbered steps, one transaction each, under a lock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
from attrs import frozen

from txqueue.errors import ConfigurationError
from txqueue.store.failures import translated
from txqueue.store.schema import Migration, checked_name, functions, migrations
from txqueue.store.version import check, latest_version

__all__ = ["MigrationReport", "check_database", "migrate", "schema_sql"]

_LOCK = "select pg_advisory_lock(hashtextextended('txqueue migrate', 839))"
_LEDGER = """
    create schema if not exists {schema};
    create table if not exists {schema}.migration (
        number     integer primary key,
        name       text not null,
        applied_at timestamptz not null default now()
    );
"""


@frozen
class MigrationReport:
    """What a migration did: the version before, the version after, the steps applied."""

    before: int
    after: int
    applied: list[str]


def migrate(dsn: str, schema: str = "txqueue") -> MigrationReport:
    """Create the schema or bring it up to date; safe when many do it at once.

    Args:
        dsn: A libpq URI or keyword string of a role that may create in the database.
        schema: The name of the schema.

    Returns:
        What was done.

    Raises:
        DatabaseUnavailable: When the server does not answer.
        SchemaMismatch: When the database is newer than this code.
    """
    checked_name(schema)
    with translated(), _session(dsn) as cursor:
        cursor.execute(_LOCK)
        before = _version(cursor, schema) or 0
        if before > latest_version():
            check(before, schema)
        pending = [step for step in migrations(schema) if step.number > before]
        for step in pending:
            _apply(cursor, schema, step)
        _apply_functions(cursor, schema)
    return MigrationReport(
        before, latest_version(), [f"{step.number:04}_{step.name}" for step in pending]
    )


def check_database(dsn: str, schema: str = "txqueue") -> None:
    """Make sure that the database answers and that a node can work in it.

    Raises:
        ConfigurationError: When transactions are not ``read committed`` by default.
        DatabaseUnavailable: When the server does not answer.
        SchemaMismatch: When the schema is missing, older or newer.
    """
    with translated(), _session(dsn) as cursor:
        version = _version(cursor, checked_name(schema))
        cursor.execute("show default_transaction_isolation")
        level = cursor.fetchone()[0]
    check(version, schema)
    if level != "read committed":
        raise ConfigurationError(
            f"transactions are {level} by default: a node would not see what others have done",
            "alter role ... set default_transaction_isolation = 'read committed'",
        )


def schema_sql(schema: str = "txqueue") -> str:
    """Return everything that a migration of an empty database runs, as one SQL script."""
    parts = [_LEDGER.format(schema=checked_name(schema)), f"set search_path = {schema}, pg_temp;"]
    parts += [step.sql for step in migrations(schema)]
    parts += ["set check_function_bodies = off;"] + [sql for _, sql in functions(schema)]
    parts += [
        f"insert into {schema}.migration (number, name) values ({step.number}, '{step.name}');"
        for step in migrations(schema)
    ]
    parts += ["select ensure_history();", "select grant_roles();"]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


@contextmanager
def _session(dsn: str) -> Iterator[Any]:
    connection = psycopg2.connect(dsn, application_name="txqueue migrate", connect_timeout=10)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()


def _version(cursor: Any, schema: str) -> int | None:
    cursor.execute("select to_regclass(%s) is not null", (f"{schema}.migration",))
    if not cursor.fetchone()[0]:
        return None
    cursor.execute(f"select max(number) from {schema}.migration")
    return int(cursor.fetchone()[0] or 0)


@contextmanager
def _transaction(cursor: Any, schema: str) -> Iterator[None]:
    cursor.execute("begin")
    try:
        cursor.execute("set local client_min_messages = warning")
        cursor.execute(_LEDGER.format(schema=schema))
        cursor.execute(f"set local search_path = {schema}, pg_temp")
        yield
    except BaseException:
        cursor.execute("rollback")
        raise
    cursor.execute("commit")


def _apply(cursor: Any, schema: str, step: Migration) -> None:
    with _transaction(cursor, schema):
        cursor.execute(step.sql)
        cursor.execute(
            "insert into migration (number, name) values (%s, %s)", (step.number, step.name)
        )


def _apply_functions(cursor: Any, schema: str) -> None:
    with _transaction(cursor, schema):
        # Functions call one another, whichever comes first in the alphabet.
        cursor.execute("set local check_function_bodies = off")
        for _, sql in functions(schema):
            cursor.execute(sql)
        _drop_former_functions(cursor)
        cursor.execute("select ensure_history()")
        cursor.execute("select grant_roles()")


def _drop_former_functions(cursor: Any) -> None:
    """Drop what this transaction has not written: functions of older versions, other signatures."""
    cursor.execute(
        "select oid::regprocedure::text from pg_proc"
        " where pronamespace = current_schema()::regnamespace and xmin <> pg_current_xact_id()::xid"
    )
    for (signature,) in cursor.fetchall():
        cursor.execute(f"drop function {signature}")

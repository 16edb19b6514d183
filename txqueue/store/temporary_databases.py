"""Creates databases for tests and empties them; no stored function does that by mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final
from urllib.parse import quote, urlencode

from psycopg2.errors import LockNotAvailable
from psycopg2.extensions import make_dsn, parse_dsn, quote_ident

from txqueue.errors import TransactionMisused
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.enqueueing.calls import Statement
from txqueue.store.schema.files import checked_name

_NAME: Final = "txqueue tests"
# What outlives jobs: the schema itself, its settings, and what nodes lock by. A truncation makes
# new files for a table and all its indexes, and waits for every reader, so rows are deleted.
# Drivers may read a percent sign as the begin of a parameter.
_DELETE: Final = """do $$
declare
    its_table regclass;
    bucket    regclass;
begin
    for its_table in
        select oid from pg_class
         where relnamespace = '{schema}'::regnamespace and relkind = 'r'
           and pg_relation_size(oid) > 0
           and relname not in ('migration', 'migrating', 'setting', 'history_day', 'key_lock',
               'duty', 'claiming')
           and not (relname in ('node_info', 'work_type') and exists (
                 select from {schema}.node_info where state in ('alive', 'draining')
                    and heartbeat_at > clock_timestamp() - lease))
    loop
        execute 'delete from ' || its_table;
    end loop;
    for bucket in
        select oid from pg_class
         where relnamespace = '{schema}'::regnamespace and relkind = 'S'
           and starts_with(relname, 'bucket_')
    loop
        execute 'drop sequence ' || bucket;
    end loop;
    perform setval('{schema}.has_tenants', 0), setval('{schema}.has_late_ends', 0),
        setval('{schema}.has_limits', 0);
end $$"""
_HAS_SCHEMA: Final = "select to_regclass(%s) is not null"


def delete_all(schema: str) -> Statement:
    """Return the statement that deletes all jobs, and what belongs to them."""
    return _DELETE.replace("{schema}", checked_name(schema)), ()


@contextmanager
def created_database(server: str, name: str) -> Iterator[str]:
    """Create a database, and drop it at the end with all its connections.

    Args:
        server: The DSN of a server, of a role that may create databases.
        name: The name of the database.

    Yields:
        The DSN of the database.
    """
    _run(server, "create database {} encoding 'UTF8' template template0", name)
    try:
        yield make_dsn(server, dbname=name)
    finally:
        _run(server, "drop database {} with (force)", name)


def _run(server: str, statement: str, name: str) -> None:
    with closing(connect(server, _NAME)) as connection, connection.cursor() as cursor:
        cursor.execute(statement.format(quote_ident(name, connection)))


@contextmanager
def emptier(dsn: str, schema: str = "txqueue") -> Iterator[Callable[[], None]]:
    """Return a function that deletes all jobs of a database, if it has the schema.

    The function raises `TransactionMisused` when an open transaction holds some of them.
    """
    with closing(connect(dsn, _NAME)) as connection:
        yield partial(_empty, connection, checked_name(schema))


def _empty(connection: Any, schema: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(_HAS_SCHEMA, (f"{schema}.job",))
        if not cursor.fetchone()[0]:
            return
        cursor.execute("set lock_timeout = '2s'")
        try:
            cursor.execute(delete_all(schema)[0])
        except LockNotAvailable:
            raise TransactionMisused(
                "a transaction of this test is still open and holds jobs, which cannot be deleted",
                "roll back or close each connection at the end of the test",
            ) from None


def uri_of(dsn: str) -> str:
    """Return a DSN as a URI, for drivers that take no keywords."""
    parts = parse_dsn(dsn)
    user, name = (quote(parts.pop(each, ""), safe="") for each in ("user", "dbname"))
    return f"postgresql://{user and f'{user}@'}/{name}?{urlencode(parts)}"

"""Creates and upgrades the schema: numbered steps, one transaction each, under a lock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any, Final, TypeVar

import psycopg2
from attrs import define, field, frozen

from txqueue.errors import ConfigurationError, Refused, SchemaMismatch
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.driver.errors import answered, translated
from txqueue.store.driver.session_bounds import PLAIN, SET, SET_LOCAL, UNLIMITED, as_arrays
from txqueue.store.schema.files import (
    FIND,
    OLDEST,
    Migration,
    SchemaVersion,
    check_version,
    checked_name,
    functions,
    latest_version,
    migrations,
    tables,
)
from txqueue.store.schema.function_replacement import (
    act_as_owner,
    adopt_strays,
    define_functions,
    keeping_rights,
    rehearse_functions,
)

_LEDGER = """
    create table if not exists {schema}.migration (
        number     integer primary key,
        name       text not null,
        applied_at timestamptz not null default now(),
        serves     integer
    );
    comment on table {schema}.migration is 'The migrations that have been applied.';
    comment on column {schema}.migration.serves is
        'The oldest version whose code works with the schema; the step''s own if null.';
    create table if not exists {schema}.migrating ();
    comment on table {schema}.migrating is 'To be locked by the one session that migrates.';
"""
# A function that nodes call and this role may not.
_LACKING: Final = """
    select current_user::text, format('%%s.%%s()', pronamespace::regnamespace, proname)
      from pg_proc
     where pronamespace = to_regnamespace(%s)
       and proname in ('register_node', 'heartbeat', 'next_job', 'complete', 'settle', 'release')
       and not has_function_privilege(oid, 'execute')
     order by 2 limit 1"""
T = TypeVar("T")

ROLES: Final = ("enqueue", "worksets", "worker", "read")
# Seconds to wait for a lock at first and at most: other sessions wait behind this one, and an
# autovacuum gives way after a second. A pause is so many times as long as the wait before it.
FIRST_WAIT, LONGEST_WAIT, PAUSES = 0.2, 2.0, 4.0
# Seconds to wait for the locks of all steps, and for another session that migrates.
PATIENCE, OTHERS_PATIENCE = 60.0, 600.0
_SETTINGS: Final = as_arrays({**PLAIN, **UNLIMITED, "client_min_messages": "warning"})
# Any role sees this of the sessions of others, and no more. A prepared transaction has no session.
_HOLDERS: Final = """
    select distinct lock.virtualtransaction, coalesce(
               coalesce(nullif(application_name, ''), 'a session') || ' of ' || usename
               || ' (pid ' || lock.pid || ')', 'a prepared transaction')
      from pg_locks as lock join pg_class as class on class.oid = lock.relation
      left join pg_stat_activity as other on other.pid = lock.pid
     where class.relnamespace = to_regnamespace(%s) and class.relname like %s and lock.granted
       and lock.database = (select oid from pg_database where datname = current_database())
       and lock.pid is distinct from pg_backend_pid()"""


@frozen
class MigrationReport:
    """The result of a migration.

    Attributes:
        before: The schema's version before; 0 for no schema.
        after: The schema's version after.
        applied: The names of the steps that were carried out.
        shared: The roles that already existed when the schema was created: another database of
            the server may use them, and their members have the same rights here.
        advanced: The names of the sequences that were behind their tables, and were set.
    """

    before: int
    after: int
    applied: list[str]
    shared: list[str] = field(factory=list)
    advanced: list[str] = field(factory=list)


def migrate(dsn: str, schema: str = "txqueue") -> MigrationReport:
    """Create or upgrade the schema; several processes may do this at once.

    Args:
        dsn: A libpq URI or keyword string of a role that may create schemas.
        schema: The name of the schema.

    Returns:
        A report of the migration.

    Raises:
        DatabaseUnavailable: When the server does not answer.
        SchemaMismatch: When the schema is newer than this code, or older than `OLDEST`.
        Refused: When another role owns the schema, a right is missing, or a transaction locks a
            table for longer than a minute.
    """
    checked_name(schema)
    with answered(PATIENCE), _session(dsn) as cursor:
        with _transaction(cursor):
            _ensure_utf8(cursor)
        patience = Patience(cursor, schema)
        patience.run(partial(_ensure_ledger, cursor, schema))
        before = patience.run(partial(_prepare, cursor, schema))
        shared = [] if before else _known_roles(cursor, schema)
        applied = [
            f"{step.number:04}_{step.name}"
            for step in _steps(schema, before)
            if patience.run(partial(_apply, cursor, schema, step))
        ]
        advanced = patience.run(partial(_apply_functions, cursor, schema))
    return MigrationReport(
        before=before, after=latest_version(), applied=applied, shared=shared, advanced=advanced
    )


def _steps(schema: str, version: int) -> list[Migration]:
    return migrations(schema) if version else [tables(schema)]


def _ensure_utf8(cursor: Any) -> None:
    """Check that the database can store every text.

    Raises:
        Refused: When its encoding is another than UTF-8.
    """
    cursor.execute("select current_database(), current_setting('server_encoding')")
    name, encoding = cursor.fetchone()
    if encoding != "UTF8":
        raise Refused(
            f"the database {name} has the encoding {encoding}, which cannot store every payload",
            "create one with: create database ... encoding 'UTF8' template template0",
        )


def _prepare(cursor: Any, schema: str, wait: float) -> int:
    """Look for what would make the migration refuse; return the schema's version before it.

    Raises:
        Refused: When this role may not migrate, or others need what the migration drops.
        SchemaMismatch: When the schema is newer than this code, or older than `OLDEST`.
    """
    with _transaction(cursor):
        cursor.execute(f"set local lock_timeout = '{wait}s'")
        adopt_strays(cursor, schema)
    with _step(cursor, schema, wait) as version:
        if 0 < version < OLDEST:
            raise _too_old(version, schema)
        if 0 < version < latest_version():
            rehearse_functions(cursor, [sql for _, sql in functions(schema)])
    return version


def _checked_version(cursor: Any, schema: str) -> int:
    """Return the number of the last migration step, 0 if there is none.

    Raises:
        SchemaMismatch: When this code does not know it.
    """
    version = _version(cursor, schema)
    number = 0 if version is None else version.number
    if number > latest_version():
        raise _newer(number, schema)
    return number


def _known_roles(cursor: Any, schema: str) -> list[str]:
    """Return the schema's roles that exist; roles belong to the server, not to a database."""
    cursor.execute(
        "select rolname::text from pg_roles where rolname = any (%s) order by 1",
        (_roles(schema),),
    )
    return [name for (name,) in cursor.fetchall()]


def _roles(schema: str) -> list[str]:
    return [f"{schema}_{purpose}" for purpose in ROLES]


def _newer(version: int, schema: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the schema {schema!r} has version {version}, newer than the {latest_version()} this code"
        " knows",
        "migrate with the newer txqueue",
    )


def _too_old(version: int, schema: str) -> SchemaMismatch:
    return SchemaMismatch(
        f"the schema {schema!r} has version {version}, older than the {OLDEST} from which this code"
        " migrates",
        "migrate with the last alpha first, whose newest version is 37, then with this txqueue",
    )


def check_database(dsn: str, schema: str = "txqueue") -> None:
    """Check that the database answers and that a node can work with it.

    Raises:
        ConfigurationError: When transactions are not ``read committed`` by default.
        DatabaseUnavailable: When the server does not answer.
        SchemaMismatch: When the schema is missing, older, or too new.
    """
    with translated(), _session(dsn) as cursor:
        version = _version(cursor, checked_name(schema))
        cursor.execute("show default_transaction_isolation")
        level = cursor.fetchone()[0]
    check_version(version, schema)
    if level != "read committed":
        raise ConfigurationError(
            f"transactions are {level} by default: a node would not see the writes of others",
            "alter role ... set default_transaction_isolation = 'read committed'",
        )


def check_node_role(dsn: str, schema: str = "txqueue") -> None:
    """Check that the role may do what a node does.

    Raises:
        ConfigurationError: When it lacks a right.
        DatabaseUnavailable: When the server does not answer.
    """
    with translated(), _session(dsn) as cursor:
        cursor.execute(_LACKING, (checked_name(schema),))
        lack = cursor.fetchone()
    if lack is not None:
        role, right = lack
        raise ConfigurationError(
            f"the role {role} may not call {right}, as nodes do", f"grant txqueue_worker to {role}"
        )


def schema_sql(schema: str = "txqueue") -> str:
    """Return the SQL script of a migration of an empty database."""
    ledger = _LEDGER.format(schema=checked_name(schema))
    parts = [f"create schema if not exists {schema};", ledger]
    parts += [f"set search_path = {schema}, pg_temp;"]
    made = tables(schema)
    parts += [made.sql, "set check_function_bodies = off;"] + [sql for _, sql in functions(schema)]
    parts += [
        f"insert into {schema}.migration (number, name, serves)"
        f" values ({made.number}, '{made.name}', {made.serves});",
        *("select ensure_history();", "select grant_roles();"),
    ]
    return "\n".join(part.strip("\n") + "\n" for part in parts)


@contextmanager
def _session(dsn: str) -> Iterator[Any]:
    with closing(connect(dsn, "txqueue migrate")) as connection, connection.cursor() as cursor:
        cursor.execute(SET, (*as_arrays(UNLIMITED), connection.get_backend_pid()))
        yield cursor


def _version(cursor: Any, schema: str) -> SchemaVersion | None:
    cursor.execute("select to_regclass(%s) is not null", (f"{schema}.migration",))
    if not cursor.fetchone()[0]:
        return None
    cursor.execute(FIND.format(schema=schema))
    return SchemaVersion(*cursor.fetchone())


def _ensure_ledger(cursor: Any, schema: str, wait: float) -> None:
    """Create the schema and its first tables unless they exist.

    Raises:
        Refused: When this role may not act as the schema's owner, or the schema is another's.
    """
    with _owned(cursor, schema):
        if _has_table(cursor, schema, "migrating"):
            return
        # Others may create them, too, and there is nothing else to lock yet.
        cursor.execute(f"set local lock_timeout = '{wait}s'")
        cursor.execute("select pg_advisory_xact_lock(hashtext(%s))", (f"migrate {schema}",))
        _ensure_empty(cursor, schema)
        cursor.execute("select to_regnamespace(%s) is null", (schema,))
        if cursor.fetchone()[0]:
            cursor.execute(f"create schema {schema}")
        cursor.execute(_LEDGER.format(schema=schema))


def _ensure_empty(cursor: Any, schema: str) -> None:
    cursor.execute("select 1 from pg_class where relnamespace = to_regnamespace(%s)", (schema,))
    if cursor.fetchone() and not _has_table(cursor, schema, "migration"):
        raise Refused(
            f"the schema {schema} has tables that are not txqueue's",
            "choose another name for the schema (--schema, TXQUEUE_SCHEMA)",
        )


def _has_table(cursor: Any, schema: str, name: str) -> bool:
    cursor.execute("select to_regclass(%s) is not null", (f"{schema}.{name}",))
    return bool(cursor.fetchone()[0])


@define
class Patience:
    """Runs the steps of a migration, which together wait for the locks of others up to a bound.

    Other statements wait behind a waiting step, so waits are short at first, and the pauses after
    them are longer. A step that did not get its locks runs again.
    """

    cursor: Any
    schema: str
    wait: float = field(factory=lambda: FIRST_WAIT)
    waited: float = 0.0
    holders: frozenset[tuple[str, str]] = frozenset()

    def run(self, step: Callable[[float], T]) -> T:
        """Run a step, with the seconds that it may wait for a lock, until no lock keeps it.

        Raises:
            Refused: When tables stay locked; the message names the sessions that lock them.
        """
        while True:
            began = time.monotonic()
            try:
                return step(self.wait)
            except (psycopg2.errors.LockNotAvailable, psycopg2.errors.DeadlockDetected):
                self.waited += time.monotonic() - began
            found = _holders(self.cursor, self.schema)
            # What was in the way of each try is one transaction, unless several took turns.
            self.holders = self.holders & found or found
            if self.waited > PATIENCE:
                raise _blocked(self.schema, self.holders)
            pause = self.wait * PAUSES
            time.sleep(pause)
            self.waited += pause
            self.wait = min(2 * self.wait, LONGEST_WAIT)


def _holders(cursor: Any, schema: str, table: str = "%") -> frozenset[tuple[str, str]]:
    """Return the transactions that have locked tables of the schema, each with a name."""
    cursor.execute(_HOLDERS, (schema, table))
    return frozenset(cursor.fetchall())


def _names(holders: frozenset[tuple[str, str]]) -> str:
    return ", ".join(sorted(name for _, name in holders)) or "another session"


def _blocked(schema: str, holders: frozenset[tuple[str, str]]) -> Refused:
    return Refused(
        f"tables of the schema {schema} were locked for more than {PATIENCE:g} s,"
        f" by {_names(holders)}",
        "end that transaction, or wait for it, then migrate again; nothing is half done",
    )


@contextmanager
def _transaction(cursor: Any) -> Iterator[None]:
    """Open a transaction without the time limits and other settings of the role or database.

    Nothing is set beyond the transaction, because a pooler may lend the session to others.
    """
    cursor.execute(f"begin isolation level read committed; {SET_LOCAL}", _SETTINGS)
    try:
        yield
    except BaseException:
        if not cursor.connection.closed:
            cursor.execute("rollback")
        raise
    cursor.execute("commit")


@contextmanager
def _owned(cursor: Any, schema: str) -> Iterator[None]:
    """Open a transaction of the schema's owner, who owns what it makes.

    Raises:
        Refused: When this role may not act as the owner.
    """
    with _transaction(cursor):
        act_as_owner(cursor, schema)
        yield


@contextmanager
def _step(cursor: Any, schema: str, wait: float) -> Iterator[int]:
    """Open the transaction of a step, alone among migrations; its value is the schema's version.

    The lock is one that only the owner can take.

    Raises:
        Refused: When another session that migrates takes too long.
        SchemaMismatch: When the schema is newer than this code.
    """
    with _owned(cursor, schema):
        _lock_migrating(cursor, schema)
        cursor.execute(f"set local lock_timeout = '{wait}s'")
        version = _checked_version(cursor, schema)
        cursor.execute(f"set local search_path = {schema}, pg_temp")
        yield version


def _lock_migrating(cursor: Any, schema: str) -> None:
    """Wait for other sessions that migrate.

    Raises:
        Refused: When one takes too long.
    """
    cursor.execute(f"set local lock_timeout = '{OTHERS_PATIENCE}s'; savepoint unlocked")
    try:
        cursor.execute(f"lock table {schema}.migrating in exclusive mode")
    except psycopg2.errors.LockNotAvailable:
        cursor.execute("rollback to savepoint unlocked")
        raise Refused(
            f"another session has been migrating the schema {schema} for more than"
            f" {OTHERS_PATIENCE:g} s: {_names(_holders(cursor, schema, 'migrating'))}",
            "wait for it, or end it, then migrate again",
        ) from None


def _apply(cursor: Any, schema: str, step: Migration, wait: float) -> bool:
    """Carry out a step; return whether it was still to be done."""
    with _step(cursor, schema, wait) as version:
        if version >= step.number:
            return False
        cursor.execute(step.sql)
        cursor.execute(
            "insert into migration (number, name, serves) values (%s, %s, %s)",
            (step.number, step.name, step.serves),
        )
    return True


def _apply_functions(cursor: Any, schema: str, wait: float) -> list[str]:
    """Define this version's functions; return the sequences that were behind their tables."""
    with _step(cursor, schema, wait), keeping_rights(cursor, _roles(schema)):
        define_functions(cursor, [sql for _, sql in functions(schema)])
        cursor.execute("select ensure_history()")
        cursor.execute("select grant_roles()")
        cursor.execute("select advance_sequences()")
        return list(cursor.fetchone()[0])

"""Provides a schema to measure in: on an embedded server, or in an existing database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from txqueue.demo.environment import Stages, TemporarySchema, embedded_schema, temporary_folder
from txqueue.errors import Refused, TxqueueError
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import ROLES, migrate

__all__ = ["drop_roles", "drop_schema", "missing_roles", "own_schema", "warm_log", "warm_schema"]

SCHEMA = "txqueue_bench"
# Size in MiB of recycled WAL files: more than a measurement with default options writes.
_LOG_MIB = 1024
_LOCK = "select pg_try_advisory_lock(hashtextextended('txqueue bench', 839))"


@contextmanager
def warm_schema(stages: Stages) -> Iterator[TemporarySchema]:
    """Run a fresh embedded server with `warm_log`, and delete it at the end.

    Args:
        stages: Shows the progress.

    Yields:
        The schema to measure in.
    """
    with embedded_schema(stages) as target:
        stages.begin("warming up")
        with target.session() as session:
            warm_log(session)
        yield target


def warm_log(session: Session) -> None:
    """Make a fresh server reuse WAL files, as a server does that has run for a while.

    A server that creates WAL files drains a queue a fifth slower, whatever the queue does.

    Args:
        session: A superuser's session.
    """
    piece = "pg_logical_emit_message(false, 'warming up', repeat('x', 1 << 20))"
    session.rows(f"select count({piece}) from generate_series(1, %s)", (_LOG_MIB,))
    session.rows("checkpoint")


@contextmanager
def own_schema(dsn: str, stages: Stages) -> Iterator[TemporarySchema]:
    """Make a separate schema in an existing database, and drop it at the end.

    Args:
        dsn: The DSN of the database, with a role that may create a schema.
        stages: Shows the progress.

    Yields:
        The schema to measure in.

    Raises:
        Refused: When another measurement runs in the database.
    """
    stages.begin(f"making the schema {SCHEMA}")
    with Session(dsn, SCHEMA, "txqueue bench") as session, temporary_folder() as folder:
        if not session.value(_LOCK):
            raise Refused("another bench runs in this database", "wait until it is over")
        new_roles = missing_roles(session)
        drop_schema(session)
        try:
            migrate(dsn, SCHEMA)
            yield TemporarySchema(dsn, SCHEMA, folder)
        finally:
            drop_schema(session)
            drop_roles(session, new_roles)


def drop_schema(session: Session) -> None:
    """Drop the session's schema with all its contents."""
    session.rows("set client_min_messages = warning")
    session.rows(f"drop schema if exists {session.schema} cascade")


def missing_roles(session: Session) -> list[str]:
    """Return the roles that the server lacks, and that the migration will create."""
    names = [f"{session.schema}_{role}" for role in ROLES]
    return [name for name in names if session.value("select to_regrole(%s) is null", (name,))]


def drop_roles(session: Session, names: list[str]) -> None:
    """Drop the named roles, except those in use."""
    for name in names:
        # Another database of the server may use the role by now.
        with suppress(TxqueueError):
            session.rows(f"drop role if exists {name}")

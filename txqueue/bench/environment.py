"""Provides a schema to measure in: on an embedded server, or in an existing database."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import field, frozen

from txqueue.bench.progress import Stages
from txqueue.errors import Refused, TxqueueError
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import ROLES, migrate

__all__ = [
    "BenchSchema",
    "drop_roles",
    "drop_schema",
    "embedded_schema",
    "missing_roles",
    "own_schema",
    "warm_log",
]

SCHEMA = "txqueue_bench"
# Size in MiB of recycled WAL files: more than a measurement with default options writes.
_LOG_MIB = 1024
_LOCK = "select pg_try_advisory_lock(hashtextextended('txqueue bench', 839))"


@frozen
class BenchSchema:
    """A fresh schema to measure in.

    Attributes:
        dsn: The DSN of the database.
        schema: The schema's name.
        folder: A temporary folder for the measurement's files, deleted at the end.
    """

    dsn: str = field(repr=False)
    schema: str
    folder: Path

    def session(self) -> Session:
        """Open a connection."""
        return Session(self.dsn, self.schema, "txqueue bench")

    def facts(self) -> dict[str, Any]:
        """Return what every result says about the environment, such as versions."""
        with self.session() as session:
            names = ("synchronous_commit", "fsync")
            settings = {name: session.value(f"show {name}") for name in names}
            server = str(session.value("show server_version")).split()[0]
        return {"postgres": server, "txqueue": version("txqueue"), **settings}


@contextmanager
def embedded_schema(stages: Stages, *, warm: bool = False) -> Iterator[BenchSchema]:
    """Run a fresh embedded server, and delete it at the end.

    Args:
        stages: Shows the progress.
        warm: Whether to prepare the server's WAL files; see `warm_log`.

    Yields:
        The schema to measure in.

    Raises:
        EmbeddedUnavailable: When the server's programs are missing, or it cannot be started.
    """
    from txqueue.embedded import EmbeddedServer

    stages.begin("starting PostgreSQL")
    with EmbeddedServer() as dsn, _folder() as folder:
        migrate(dsn)
        target = BenchSchema(dsn, "txqueue", folder)
        if warm:
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
def own_schema(dsn: str, stages: Stages) -> Iterator[BenchSchema]:
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
    with Session(dsn, SCHEMA, "txqueue bench") as session, _folder() as folder:
        if not session.value(_LOCK):
            raise Refused("another bench runs in this database", "wait until it is over")
        made = missing_roles(session)
        drop_schema(session)
        try:
            migrate(dsn, SCHEMA)
            yield BenchSchema(dsn, SCHEMA, folder)
        finally:
            drop_schema(session)
            drop_roles(session, made)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="txqueue-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


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

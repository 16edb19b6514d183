"""The place of a measurement: an embedded server, or a separate schema on an existing one."""

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
from txqueue.store.migrations import ROLES, migrate
from txqueue.store.reader import Session

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
# More WAL than a default measurement writes.
_LOG_MIB = 1024
_LOCK = "select pg_try_advisory_lock(hashtextextended('txqueue bench', 839))"


@frozen
class BenchSchema:
    """A fresh schema to measure in.

    Attributes:
        dsn: The database.
        schema: The schema.
        folder: A temporary folder, deleted at the end.
    """

    dsn: str = field(repr=False)
    schema: str
    folder: Path

    def session(self) -> Session:
        """Open a connection."""
        return Session(self.dsn, self.schema, "txqueue bench")

    def facts(self) -> dict[str, Any]:
        """Return the facts about the environment that every result includes."""
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
        warm: Whether to prepare its WAL as on a server that has run for a while; see `warm_log`.

    Yields:
        The target.

    Raises:
        EmbeddedUnavailable: When there is no such server here.
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
    """Make a fresh server recycle WAL files, as every server does after a while.

    Writing new WAL files costs a fifth of a drain's speed, which has nothing to do with the queue.

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
        dsn: The database, in which the role may create a schema.
        stages: Shows the progress.

    Yields:
        The target.

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
    """Return the roles that the migration will create; roles belong to the server."""
    names = [f"{session.schema}_{role}" for role in ROLES]
    return [name for name in names if session.value("select to_regrole(%s) is null", (name,))]


def drop_roles(session: Session, names: list[str]) -> None:
    """Drop roles that are not in use."""
    for name in names:
        # Another database of the server may use the role by now.
        with suppress(TxqueueError):
            session.rows(f"drop role if exists {name}")

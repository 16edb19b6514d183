"""Where a measurement takes place: a server of its own, or a schema of its own on yours."""

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
    "Ground",
    "drop_roles",
    "drop_schema",
    "embedded_ground",
    "missing_roles",
    "own_schema",
    "warm_log",
]

SCHEMA = "txqueue_bench"
# More than any measurement logs unless it is told to be larger.
_LOG_MIB = 1024
_LOCK = "select pg_try_advisory_lock(hashtextextended('txqueue bench', 839))"


@frozen
class Ground:
    """A fresh schema to measure in.

    Attributes:
        dsn: The database.
        schema: The schema.
        folder: A folder that goes away at the end.
    """

    dsn: str = field(repr=False)
    schema: str
    folder: Path

    def session(self) -> Session:
        """Open a connection."""
        return Session(self.dsn, self.schema, "txqueue bench")

    def facts(self) -> dict[str, Any]:
        """Return what every result tells of its surroundings."""
        with self.session() as session:
            names = ("synchronous_commit", "fsync")
            settings = {name: session.value(f"show {name}") for name in names}
            server = str(session.value("show server_version")).split()[0]
        return {"postgres": server, "txqueue": version("txqueue"), **settings}


@contextmanager
def embedded_ground(stages: Stages, *, warm: bool = False) -> Iterator[Ground]:
    """Run a fresh embedded server; at the end it is gone.

    Args:
        stages: Told what happens.
        warm: Whether its log is made as one that has run for a while has it; see `warm_log`.

    Yields:
        The ground.

    Raises:
        EmbeddedUnavailable: When there is no such server here.
    """
    from txqueue.embedded import EmbeddedServer

    stages.begin("starting PostgreSQL")
    with EmbeddedServer() as dsn, _folder() as folder:
        migrate(dsn)
        ground = Ground(dsn, "txqueue", folder)
        if warm:
            stages.begin("warming up")
            with ground.session() as session:
                warm_log(session)
        yield ground


def warm_log(session: Session) -> None:
    """Have a fresh server write its log from now on over files of old, as every other server does.

    New files are filled with zeros first, in memory that nobody has touched: a fifth of a drain's
    speed, and nothing that a queue could do better.

    Args:
        session: A superuser's.
    """
    piece = "pg_logical_emit_message(false, 'warming up', repeat('x', 1 << 20))"
    session.rows(f"select count({piece}) from generate_series(1, %s)", (_LOG_MIB,))
    session.rows("checkpoint")


@contextmanager
def own_schema(dsn: str, stages: Stages) -> Iterator[Ground]:
    """Make a schema of its own in a database that is in use; at the end it is gone.

    Args:
        dsn: The database, in which the role may create a schema.
        stages: Told what happens.

    Yields:
        The ground.

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
            yield Ground(dsn, SCHEMA, folder)
        finally:
            drop_schema(session)
            drop_roles(session, made)


@contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="txqueue-bench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


def drop_schema(session: Session) -> None:
    """Drop the session's schema with all that is in it."""
    session.rows("set client_min_messages = warning")
    session.rows(f"drop schema if exists {session.schema} cascade")


def missing_roles(session: Session) -> list[str]:
    """Return the roles that the migration will make; they are the server's, not the schema's."""
    names = [f"{session.schema}_{role}" for role in ROLES]
    return [name for name in names if session.value("select to_regrole(%s) is null", (name,))]


def drop_roles(session: Session, names: list[str]) -> None:
    """Drop roles, as far as nobody uses them."""
    for name in names:
        # Another database of the server may have come to use it.
        with suppress(TxqueueError):
            session.rows(f"drop role if exists {name}")

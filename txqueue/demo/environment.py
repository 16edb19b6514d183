"""Provides a temporary schema on an embedded server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from attrs import field, frozen

from txqueue.demo.progress import Stages
from txqueue.store.inquiries.reader import Session
from txqueue.store.schema.migrations import migrate

__all__ = ["TemporarySchema", "embedded_schema", "temporary_folder"]


@frozen
class TemporarySchema:
    """A fresh schema to try or measure txqueue in.

    Attributes:
        dsn: The DSN of the database.
        schema: The schema's name.
        folder: A temporary folder for files, deleted at the end.
    """

    dsn: str = field(repr=False)
    schema: str
    folder: Path

    def session(self) -> Session:
        """Open a connection."""
        return Session(self.dsn, self.schema, "txqueue demo")

    def facts(self) -> dict[str, Any]:
        """Return what every result says about the environment, such as versions."""
        with self.session() as session:
            names = ("synchronous_commit", "fsync")
            settings = {name: session.value(f"show {name}") for name in names}
            server = str(session.value("show server_version")).split()[0]
        return {"postgres": server, "txqueue": version("txqueue"), **settings}


@contextmanager
def embedded_schema(stages: Stages) -> Iterator[TemporarySchema]:
    """Run a fresh embedded server, and delete it at the end.

    Args:
        stages: Shows the progress.

    Yields:
        The schema.

    Raises:
        EmbeddedUnavailable: When the server's programs are missing, or it cannot be started.
    """
    from txqueue.embedded import EmbeddedServer

    stages.begin("starting PostgreSQL")
    with EmbeddedServer() as dsn, temporary_folder() as folder:
        migrate(dsn)
        yield TemporarySchema(dsn, "txqueue", folder)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """Make a folder, and delete it at the end."""
    with tempfile.TemporaryDirectory(prefix="txqueue-demo-", ignore_cleanup_errors=True) as name:
        yield Path(name)

"""Databases of tests: on an embedded server, or on one that the environment names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from uuid import uuid4

from txqueue.store.schema.migrations import migrate
from txqueue.store.temporary_databases import created_database

SERVER: Final = "TXQUEUE_TEST_SERVER"
"""The variable that names a server on which databases may be created."""


@contextmanager
def server() -> Iterator[str]:
    """Return the DSN of a server: the one that is named, or an embedded one until the end.

    Raises:
        EmbeddedUnavailable: When the server's programs are missing, or it cannot be started.
    """
    if named := os.environ.get(SERVER):
        yield named
        return
    from txqueue.embedded import EmbeddedServer

    # A test's commits need not survive the machine.
    with EmbeddedServer(settings={"fsync": "off"}) as dsn:
        yield dsn


@contextmanager
def migrated_database(server_dsn: str) -> Iterator[str]:
    """Return the DSN of a new database with the schema, which is dropped at the end."""
    with created_database(server_dsn, f"txqueue_test_{uuid4().hex[:12]}") as dsn:
        migrate(dsn)
        yield dsn

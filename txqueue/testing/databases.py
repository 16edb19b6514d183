"""Databases of tests: on an embedded server, or on one that the environment names; and what deletes
the jobs that a test has committed.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final
from uuid import uuid4

from txqueue.errors import ConfigurationError, DatabaseUnavailable
from txqueue.store.driver.hosts import dsn_of_parameters
from txqueue.store.schema.migrations import migrate
from txqueue.store.temporary_databases import created_database, delete_all, emptier
from txqueue.testing.connections import alias_of, blocking, bound

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


async def aclear(*, connection: Any = None, schema: str | None = None) -> None:
    """Delete all jobs, with their history, schedules, limits and worksets, in the transaction.

    For tests that commit. The settings of the installation stay, and so do nodes that run. Over
    another connection than Django's, nothing shows whether the database is one of tests.

    Args:
        connection: The test's connection; see `connected`.
        schema: The name of txqueue's schema; see `connected`.

    Raises:
        ConfigurationError: When the database is the project's own, in place of Django's for tests.
    """
    if (using := alias_of(connection)) is not None:
        _refuse_own_database(using)
    session = await bound(connection, schema)
    await session.value(delete_all(session.schema))


clear: Final = blocking(aclear)


def _refuse_own_database(using: str) -> None:
    from txqueue.adapters.django import is_of_project

    if is_of_project(using):
        raise ConfigurationError(
            f"this would delete all jobs of the project's own database {using!r}",
            "call it in tests that Django's runner or pytest-django runs; or, if that database is"
            f" for tests, repeat its name as DATABASES[{using!r}]['TEST']['NAME']",
        )


def clear_django(databases: Iterable[tuple[Mapping[str, Any], Iterable[str]]]) -> None:
    """Delete the jobs in the test databases of Django, in the schemas named with each.

    A database is emptied over a connection of its own: after a test, the application's may be
    closed to tests, and after the last one Django has put back the names of the real databases.
    """
    for parameters, schemas in databases:
        for schema in schemas:
            _empty(dsn_of_parameters(parameters), schema)


def _empty(dsn: str, schema: str) -> None:
    # After the last test of a run, the database itself may be gone.
    with suppress(DatabaseUnavailable), emptier(dsn, schema) as empty:
        empty()

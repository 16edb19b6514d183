"""Deletes the jobs that a test has committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, Final

from txqueue.errors import ConfigurationError, DatabaseUnavailable
from txqueue.store.driver.hosts import dsn_of_parameters
from txqueue.store.temporary_databases import delete_all, emptier
from txqueue.testing.connections import alias_of, blocking, bound


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

"""Deletes the jobs that a test has committed."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.conninfo import dsn_of_parameters
from txqueue.store.temporary_databases import delete_all, emptier
from txqueue.testing.connections import bound, finished

__all__ = ["aclear", "clear", "clear_django"]


def clear(*, connection: Any = None, schema: str = "txqueue") -> None:
    """Delete all jobs, with their history, schedules, limits and worksets, in the transaction.

    For tests that commit. The settings of the installation stay, and so do nodes that run.

    Args:
        connection: The test's connection; see `connected`.
        schema: The name of txqueue's schema.
    """
    finished(aclear(connection=connection, schema=schema), connection, "aclear()")


async def aclear(*, connection: Any = None, schema: str = "txqueue") -> None:
    """Delete all jobs, over any connection; see `clear`."""
    its = await bound(connection, schema)
    await its.value(delete_all(its.schema))


def clear_django(schema: str = "txqueue") -> None:
    """Delete the jobs in each database that a test of Django has used, if it has the schema.

    The database is emptied over a connection of its own: after a test, the application's may be
    closed to tests.
    """
    from txqueue.adapters.django import databases_in_use

    for parameters in databases_in_use():
        # After the last test of a run, the database itself may be gone.
        with suppress(DatabaseUnavailable), emptier(dsn_of_parameters(parameters), schema) as empty:
            empty()

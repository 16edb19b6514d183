"""Deletes the jobs that a test has committed."""

from __future__ import annotations

from typing import Any, Final

from txqueue.store.temporary_databases import delete_all, dsn_of, emptier
from txqueue.testing.connections import bound, finished

__all__ = ["aclear", "clear", "clear_django"]


_OF_LIBPQ: Final = {
    *("dbname", "host", "options", "passfile", "password", "port", "service"),
    *("sslcert", "sslkey", "sslmode", "sslrootcert", "user"),
}
"""What Django passes on to libpq, of all that it passes to its driver."""


def clear(*, connection: Any = None, schema: str = "txqueue") -> None:
    """Delete all jobs, with their history, schedules, limits and worksets, in the transaction.

    For tests that commit. The settings of the installation stay, and so do nodes that run.

    Args:
        connection: The test's connection; see `connected`.
        schema: The name of txqueue's schema.
    """
    finished(aclear(connection=connection, schema=schema), "aclear")


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

    for given in databases_in_use():
        dsn = dsn_of({name: given[name] for name in _OF_LIBPQ & given.keys()})
        with emptier(dsn, schema) as empty:
            empty()

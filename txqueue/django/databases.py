"""The databases of the backends of this project: their DSNs, and the schema in them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import connections

from txqueue.adapters.django import is_of_tests
from txqueue.django.backend import TxqueueBackend
from txqueue.django.framework import task_backends

__all__ = ["backends", "dsn_of", "is_migrated_here", "migrate_schemas"]


def backends() -> Iterator[TxqueueBackend]:
    """Yield the backends of the project that are txqueue's."""
    for backend in task_backends.all():
        if isinstance(backend, TxqueueBackend):
            yield backend


def dsn_of(alias: str) -> str:
    """Return the DSN of a database of Django."""
    # It needs a driver that a project without a node need not have.
    from txqueue.store.driver.conninfo import dsn_of_parameters

    return dsn_of_parameters(connections[alias].get_connection_params())


def is_migrated_here(backend: TxqueueBackend) -> bool:
    """Tell whether Django's ``migrate`` upgrades the schema, as it does for tests, or if asked."""
    return bool(backend.options.get("migrate")) or is_of_tests(backend.database)


def migrate_schemas(using: str, **signal: Any) -> None:
    """Upgrade the schemas in a database after Django's own migrations.

    The signal is also that of ``flush``, by which a test of Django that commits deletes its rows,
    but has a plan only for ``migrate``. A ``flush`` of any other database leaves all jobs there.
    """
    for backend in backends():
        if backend.database != using or not is_migrated_here(backend):
            continue
        if "plan" in signal:
            from txqueue.store.schema.migrations import migrate

            migrate(dsn_of(using), backend.schema)
        elif is_of_tests(using):
            from txqueue.testing.clearing import clear

            clear(connection=using, schema=backend.schema)

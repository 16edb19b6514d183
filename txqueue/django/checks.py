"""System checks: of the settings always, of the databases of the backends where Django checks
databases.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from django.core.checks import CheckMessage, Error, Warning
from django.db import ProgrammingError, connections

from txqueue.adapters.django import is_of_tests
from txqueue.django.backend import OPTIONS, TxqueueBackend
from txqueue.django.framework import task_backends
from txqueue.errors import ConfigurationError, SchemaMismatch, TxqueueError
from txqueue.model.humanize import queues_option
from txqueue.store.reads import one_job
from txqueue.store.schema.files import SchemaVersion, check_version, checked_name
from txqueue.system.settings import Settings


def backends() -> Iterator[TxqueueBackend]:
    """Yield the backends of the project that are txqueue's."""
    for backend in task_backends.all():
        if isinstance(backend, TxqueueBackend):
            yield backend


def dsn_of(alias: str) -> str:
    """Return the DSN of a database of Django."""
    # It needs a driver that a project without a node need not have.
    from txqueue.store.driver.hosts import dsn_of_parameters

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
            from txqueue.testing.databases import clear

            clear(connection=using, schema=backend.schema)


def check_settings(**_: Any) -> list[CheckMessage]:
    """Check the settings of each backend, without a connection."""
    return [message for backend in backends() for message in _of_settings(backend)]


def check_databases(databases: Sequence[str] | None = None, **_: Any) -> list[CheckMessage]:
    """Check the database of each backend; ``migrate`` does so, and ``check --database``."""
    checked = [each for each in backends() if each.database in (databases or ())]
    return [
        message
        for backend in checked
        if not any(_of_settings(backend, errors_only=True))
        for message in _of_database(backend)
    ]


def _of_settings(backend: TxqueueBackend, *, errors_only: bool = False) -> Iterator[CheckMessage]:
    alias = backend.database
    if alias not in connections.settings:
        yield _message("E001", backend, f"uses the database {alias!r}, which there is not", _ALIAS)
    elif (vendor := connections[alias].vendor) != "postgresql":
        yield _message("E002", backend, f"uses {alias!r}, a database of {vendor}", _ALIAS)
    elif not errors_only and not is_of_tests(alias):
        yield from _of_dsn(backend)
    if unknown := sorted(backend.options.keys() - set(OPTIONS)):
        remedy = f"Use {', '.join(OPTIONS)}."
        yield _message(
            "E003", backend, f"has OPTIONS without a meaning: {', '.join(unknown)}", remedy
        )
    try:
        checked_name(backend.schema)
    except ConfigurationError as error:
        yield _message("E004", backend, f"has no usable schema: {error.what}", error.remedy)


_ALIAS = "Name the alias of a PostgreSQL database in its OPTIONS: {'database': ...}."


def _of_dsn(backend: TxqueueBackend) -> Iterator[CheckMessage]:
    """Compare names only: hosts may differ where one of the two goes through a pooler."""
    if not (dsn := _dsn_of_nodes()):
        return
    from txqueue.store.driver.hosts import database_name, redacting

    ours = database_name(dsn_of(backend.database))
    try:
        with redacting(dsn):
            theirs = database_name(dsn)
    except TxqueueError as error:
        remedy = "Correct TXQUEUE_DSN, or the configuration file."
        yield _message("W005", backend, f"has nodes without a usable DSN: {error}", remedy)
        return
    if theirs not in ("", ours):
        what = f"enqueues in the database {ours!r}, but the DSN of nodes names {theirs!r}"
        yield _message("W005", backend, what, "Have TXQUEUE_DSN name the same database.")


def _dsn_of_nodes() -> str:
    try:
        return Settings({}, os.environ, Path.cwd()).dsn()
    except TxqueueError:
        return ""


def _of_database(backend: TxqueueBackend) -> Iterator[CheckMessage]:
    try:
        has_schema = _rows(backend, one_job.has_schema_query)[0][0]
        version = SchemaVersion(*_rows(backend, one_job.version_query)[0]) if has_schema else None
        check_version(version, backend.schema)
        yield from _of_nodes(backend)
    except SchemaMismatch as error:
        if not is_migrated_here(backend):
            remedy = f"Run: manage.py txqueue --backend {backend.alias} migrate"
            yield _message("W006", backend, f"cannot enqueue: {error.what}", remedy)
    except ProgrammingError as error:
        remedy = f"Grant {backend.schema}_enqueue and {backend.schema}_read to the role."
        yield _message("W007", backend, f"may not read its schema: {error}", remedy)


def _of_nodes(backend: TxqueueBackend) -> Iterator[CheckMessage]:
    if is_migrated_here(backend):
        # Tests run without a node.
        return
    unserved = [name for (name,) in _rows(backend, one_job.unserved_query, sorted(backend.queues))]
    if unserved:
        what = f"has queues that no node serves now: {', '.join(unserved)}"
        remedy = f"Run: twistd txqueue --app txqueue.django {queues_option(*unserved)}"
        yield _message("W008", backend, what, remedy)
    if _is_another_queue(backend):
        remedy = "Have TXQUEUE_DSN and the database of Django name the same server."
        yield _message("W009", backend, "enqueues in another queue than that of nodes", remedy)


def _is_another_queue(backend: TxqueueBackend) -> bool:
    """Tell whether the DSN of nodes leads to another queue, whatever it names."""
    if not (dsn := _dsn_of_nodes()):
        return False
    from txqueue.store.inquiries.reader import Session

    query = one_job.identity_query(backend.schema)
    try:
        with Session(dsn, backend.schema) as session:
            theirs = session.value(query)
    except TxqueueError:
        return False
    return bool(theirs != _rows(backend, one_job.identity_query)[0][0])


def _rows(backend: TxqueueBackend, query: Any, *parameters: Any) -> list[Any]:
    with connections[backend.database].cursor() as cursor:
        cursor.execute(query(backend.schema), parameters or None)
        return list(cursor.fetchall())


def _message(number: str, backend: TxqueueBackend, what: str, remedy: str) -> CheckMessage:
    kind = Error if number.startswith("E") else Warning
    text = f"The task backend {backend.alias!r} {what}."
    return kind(text, hint=remedy, id=f"txqueue.{number}")

"""Enqueue over a connection of Django, in the transaction of `atomic`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Final, Unpack

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections

from txqueue.adapters.calls import BlockingBatch, BlockingCalls, DriverSession
from txqueue.errors import ConfigurationError
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.store.enqueueing.portable_calls import Receiver

__all__ = [
    "aenqueue",
    "aenqueue_many",
    "asignal",
    "batch",
    "enqueue",
    "enqueue_many",
    "signal",
]

_named: Final[dict[str, str]] = {}


class _Session(DriverSession[Any]):
    @property
    def is_open(self) -> bool:
        return not self.is_alone

    @property
    def is_alone(self) -> bool:
        return bool(self.connection.get_autocommit())

    def cursor(self) -> Any:
        return self.connection.cursor()

    def before_undo(self) -> None:
        # Django sends no statement after one that has failed inside of `atomic`.
        if self.connection.in_atomic_block:
            self.connection.set_rollback(False)


def foreign(using: str) -> DriverSession[Any]:
    """Return the session of the connection of an alias."""
    if not isinstance(using, str):
        raise ConfigurationError(
            f"using is {using!r}, and not the alias of a database",
            "leave it out, or name an alias of DATABASES",
        )
    if (vendor := connections[using].vendor) != "postgresql":
        raise ConfigurationError(
            f"the database {using!r} of Django is one of {vendor}",
            "name the alias of the PostgreSQL database that has txqueue's schema, with using=",
        )
    return _Session(connections[using])


_calls = BlockingCalls(foreign)


def enqueue(
    work: WorkItem,
    *,
    using: str = "default",
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> int:
    """Enqueue work in the open `atomic` block; without one, it is committed at once.

    Args:
        work: An instance of an attrs subclass of `WorkItem`.
        using: The alias of the database.
        schema: The name of txqueue's schema.
        savepoint: Whether a refusal leaves the transaction usable, for two more statements.
        options: As for `WorkQueue.enqueue`.

    Returns:
        The job's number.

    Raises:
        InvalidWork: When the work or an option is not valid; nothing is sent.
        Refused: When the database refuses the job; the block must be left with the error, unless
            there is a savepoint. `QueueFull`, `Duplicate` and `NotPermitted` are such errors.
        SchemaMismatch: When the database has no such schema.
    """
    return _calls.enqueue(using, work, schema=schema, savepoint=savepoint, **options)


def enqueue_many(
    works: Iterable[WorkItem],
    *,
    using: str = "default",
    schema: str = "txqueue",
    savepoint: bool = False,
    **options: Unpack[EnqueueOptions],
) -> list[int]:
    """Enqueue many work items, all or none, a thousand per statement; see `enqueue`.

    Returns:
        The numbers of the jobs, in order.
    """
    return _calls.enqueue_many(using, works, schema=schema, savepoint=savepoint, **options)


def signal(
    of: Receiver,
    name: str,
    value: Any = None,
    *,
    key: str | None = None,
    using: str = "default",
    schema: str = "txqueue",
    savepoint: bool = False,
) -> bool:
    """Send a signal to a job with steps, in the open `atomic` block; without one, at once.

    Args:
        of: The number of the job, or its class and the unique key that it holds.
        name: The name of the signal.
        value: What `wait_for` of the job returns, as JSON has it: plain data or an attrs object. It
            is encrypted if the job's type is and this process has the key.
        key: Makes the call idempotent: a second signal of this name and key changes nothing.
        using: The alias of the database.
        schema: The name of txqueue's schema.
        savepoint: Whether a refusal leaves the transaction usable, for two more statements.

    Returns:
        Whether the signal is new.

    Raises:
        InvalidWork: When the name, the value or the key is not valid; nothing is sent.
        KeyUnavailable: When the value must be encrypted, and this process has no key.
        Refused: When the job has ended or there is none, or when its type is encrypted and the
            value is in clear; the transaction must be rolled back, unless there is a savepoint.
        SchemaMismatch: When the database has no such schema.
    """
    return _calls.signal(using, of, name, value, key=key, schema=schema, savepoint=savepoint)


def batch(
    callback: WorkItem,
    *,
    using: str = "default",
    schema: str = "txqueue",
    **options: Unpack[EnqueueOptions],
) -> AbstractContextManager[BlockingBatch]:
    """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

    Args:
        callback: The work item to run once all jobs have ended; it has no unique key.
        using: The alias of the database.
        schema: The name of txqueue's schema.
        options: Options of the callback, as for `enqueue`.

    Returns:
        A context manager whose value has the methods ``enqueue`` and ``enqueue_many``.

    Raises:
        TransactionMisused: When no `atomic` block is open.
    """
    return _calls.batch(using, callback, schema=schema, **options)


# From coroutines, over the connection of synchronous code.
aenqueue: Final = sync_to_async(enqueue)
aenqueue_many: Final = sync_to_async(enqueue_many)
asignal: Final = sync_to_async(signal)


def note_databases() -> None:
    """Note the names in the settings, which Django replaces by those of its test databases."""
    if settings.configured:
        for alias, database in settings.DATABASES.items():
            _named.setdefault(alias, str(database.get("NAME", "")))


def is_of_tests(using: str) -> bool:
    """Tell whether Django has put a test database, or a clone of it, in the place of a database.

    A database that the settings named at first is none, whatever its name; nor is one of an alias
    that was not noted.
    """
    name = str(connections[using].settings_dict["NAME"])
    if using not in _named or name in _named.values():
        return False
    return any(re.fullmatch(re.escape(each) + r"(_\d+)?", name) for each in _names_of_tests())


def is_of_project(using: str) -> bool:
    """Tell whether a database is one that the settings named at first, and not as a test's."""
    its = connections[using].settings_dict
    return str(its["NAME"]) in _named.values() and its["NAME"] != its["TEST"].get("NAME")


def _names_of_tests() -> Iterator[str]:
    # What enqueues need not load.
    from django.db.backends.base.creation import TEST_DATABASE_PREFIX

    for alias, name in _named.items():
        yield TEST_DATABASE_PREFIX + name
        if own := connections.settings.get(alias, {}).get("TEST", {}).get("NAME"):
            yield str(own)


def databases_of_tests() -> dict[str, dict[str, Any]]:
    """Return what Django connects with, by alias, for each test database that it has used."""
    used = connections.all(initialized_only=True)
    return {
        each.alias: each.get_connection_params()
        for each in used
        if each.vendor == "postgresql" and is_of_tests(each.alias)
    }

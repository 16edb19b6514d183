"""Prepares a process of a node for a project of Django; ``--app txqueue.django`` imports it.

It sets Django up, imports the ``tasks`` modules of the installed apps, and cares for the
connections of handlers.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import django
from asgiref.sync import ThreadSensitiveContext, sync_to_async
from django.db import close_old_connections, connections, reset_queries
from django.utils.module_loading import autodiscover_modules

from txqueue.django import runs
from txqueue.django.framework import signals
from txqueue.errors import ConfigurationError
from txqueue.model.directives import FailedAttempt, middleware, on_failure
from txqueue.system.clock import unbroken

__all__: list[str] = []

# Outside of all middleware of the application, which may use the database.
_OUTERMOST: Final = -1_000_000
_SETTINGS: Final = "DJANGO_SETTINGS_MODULE"


def _set_up() -> None:
    if not os.environ.get(_SETTINGS):
        raise ConfigurationError(
            f"{_SETTINGS} is not set",
            f"name the settings of the project: {_SETTINGS}=shop.settings",
        )
    django.setup()
    autodiscover_modules("tasks")


@middleware(order=_OUTERMOST)
def _with_usable_connections(call_next: Callable[[], Any], _job: Any) -> Any:
    """Close connections of the handler's own thread that are broken or old, as for a request."""
    _tidy()
    try:
        return call_next()
    finally:
        _tidy()


def _tidy() -> None:
    reset_queries()
    close_old_connections()


@asynccontextmanager
async def _with_own_connections() -> AsyncIterator[None]:
    """Give a coroutine a thread of its own for what is synchronous, as Django gives a request."""
    # Not left: that may block the loop until the last statement of a cancelled task has ended. The
    # thread ends with the context of the task.
    await ThreadSensitiveContext().__aenter__()
    try:
        yield
    finally:
        await unbroken(sync_to_async(connections.close_all)())


@on_failure
def _announce_end(failed: FailedAttempt) -> None:
    """Announce the end of a task whose function goes on, or could not do so itself."""
    run = runs.taken(failed.job_id)
    if run is None or not failed.is_final:
        return
    from twisted.internet import reactor

    # Receivers may use the database, which would block the reactor.
    reactor.callInThread(_finish, run, failed.error)  # type: ignore[attr-defined]


def _finish(run: runs.Run, error: BaseException) -> None:
    traceback = error.__traceback__
    try:
        run.fail(error)
        # Django's log has the error that is being handled.
        raise error
    except BaseException:
        run.send(signals.task_finished)
    finally:
        error.__traceback__ = traceback
        close_old_connections()


# Before the tasks are imported.
runs.isolate(_with_own_connections)
_set_up()

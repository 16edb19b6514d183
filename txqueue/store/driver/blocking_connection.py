"""Connects without a reactor; Ctrl-C interrupts blocking calls at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from threading import Thread, current_thread, main_thread
from typing import Any, Generic, TypeVar

import psycopg2

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.errors import translated, translation
from txqueue.store.driver.hosts import ConnectAttempt, attempts, looked_up, redacting
from txqueue.store.driver.session_bounds import ENCODED
from txqueue.store.driver.shared_errors import naming_source, of_all

T = TypeVar("T")


def interruptible(call: Callable[[], T], cancel: Callable[[], object]) -> T:
    """Return what a call of the driver returns; an interrupt does not wait for its end.

    Python handles a signal only once libpq returns, which may take as long as a query. So the call
    is made in a thread, for which the main thread waits.

    Args:
        call: The call.
        cancel: Called at an interrupt, so that the server gives up the statement.

    Raises:
        KeyboardInterrupt: At an interrupt.
    """
    if current_thread() is not main_thread():
        return call()
    making = _Making(call)
    try:
        making.join()
    except KeyboardInterrupt:
        cancel()
        raise
    return making.result()


class _Making(Thread, Generic[T]):
    """Makes a call in a thread; a future of the standard library would import logging as well."""

    def __init__(self, call: Callable[[], T]) -> None:
        # At an interrupt the process may end before the call does.
        super().__init__(daemon=True)
        self._call = call
        self._value: Any = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        """Make the call."""
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error

    def result(self) -> T:
        """Return what the call has returned, or raise its error."""
        if self._error is not None:
            try:
                raise self._error
            finally:
                # The error's traceback has this frame.
                self._error = None
        value: T = self._value
        return value


def connect(dsn: str, application_name: str) -> Any:
    """Return a connection of psycopg2 in autocommit mode.

    Args:
        dsn: A libpq URI or keyword string.
        application_name: Shown in ``pg_stat_activity``.

    Raises:
        ConfigurationError: When the DSN is not valid.
        DatabaseUnavailable: When no server answers.
    """
    with naming_source(dsn), redacting(dsn), translated():
        connection = _first_of(attempts(dsn), application_name)
    connection.autocommit = True
    return connection


def _first_of(hosts: list[ConnectAttempt], application_name: str) -> Any:
    """Try each address of each host; return the first connection, or raise the errors of all."""
    failures: list[BaseException] = []
    for attempt in _places(hosts):
        if isinstance(attempt, DatabaseUnavailable):
            failures.append(attempt)
            continue
        try:
            return _opened(attempt, application_name)
        except psycopg2.OperationalError as error:
            failures.append(translation(error))
    raise of_all(failures)


def _places(hosts: list[ConnectAttempt]) -> Iterator[ConnectAttempt | DatabaseUnavailable]:
    """Yield an attempt for each address, or the error of a host without one."""
    for host in hosts:
        try:
            yield from looked_up(host)
        except DatabaseUnavailable as error:
            yield error


def _opened(attempt: ConnectAttempt, application_name: str) -> Any:
    # libpq has whole seconds.
    parameters = {
        **attempt.parameters,
        **ENCODED,
        "application_name": application_name,
        "connect_timeout": math.ceil(attempt.patience),
    }
    return psycopg2.connect(**parameters)

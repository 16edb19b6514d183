"""Connects without a reactor, as `txqueue.store.driver.connection` does with one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import psycopg2

from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.conninfo import ConnectAttempt, attempts
from txqueue.store.driver.dns import looked_up
from txqueue.store.driver.dsn_errors import naming_source
from txqueue.store.driver.errors import translated
from txqueue.store.driver.redaction import redacting
from txqueue.store.driver.session_bounds import ENCODED

__all__ = ["connect"]


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
    """Try each address of each host; return the first connection, or raise the last error."""
    failure: Exception | None = None
    for attempt in _places(hosts):
        if isinstance(attempt, DatabaseUnavailable):
            failure = attempt
            continue
        try:
            return _opened(attempt, application_name)
        except psycopg2.OperationalError as error:
            failure = error
    assert failure is not None, "there is a host"
    raise failure


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

"""Reads the clock of the database, for the recorder, on a separate connection."""

from __future__ import annotations

import select
import time
from contextlib import suppress
from typing import Any

import psycopg2
from psycopg2 import extensions

__all__ = ["DatabaseClock"]

APPLICATION_NAME = "txqueue diary"
PATIENCE = 1.0
# Seconds for which the clock is not read after a failure, so that a recorder does not wait before
# each record.
REST = 0.5

_NOW = "select extract(epoch from clock_timestamp())::float8"


class DatabaseClock:
    """Returns the database's time, or None while there is no connection.

    Args:
        dsn: A libpq URI or keyword string.
    """

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn
        self._connection: Any = None
        self._rests_until = 0.0

    def now(self) -> float | None:
        """Return the seconds since 1970 by the database's clock; None without an answer."""
        if time.monotonic() < self._rests_until:
            return None
        try:
            return self._ask()
        except (psycopg2.Error, OSError):
            self.close()
            self._rests_until = time.monotonic() + REST
            return None

    def close(self) -> None:
        """Close the connection; the next query opens another."""
        if self._connection is not None:
            with suppress(psycopg2.Error):
                self._connection.close()
            self._connection = None

    def _ask(self) -> float:
        deadline = time.monotonic() + PATIENCE
        if self._connection is None:
            self._connection = psycopg2.connect(
                self._dsn, application_name=APPLICATION_NAME, async_=1, client_encoding="utf8"
            )
            _await(self._connection, deadline)
        with self._connection.cursor() as cursor:
            cursor.execute(_NOW)
            _await(self._connection, deadline)
            return float(cursor.fetchone()[0])


def _await(connection: Any, deadline: float) -> None:
    """Wait until a connection has its answer, at most until the deadline (monotonic seconds)."""
    while (state := connection.poll()) != extensions.POLL_OK:
        left = deadline - time.monotonic()
        reads, writes = ([connection], []) if state == extensions.POLL_READ else ([], [connection])
        if left <= 0 or not any(select.select(reads, writes, [], left)):
            raise psycopg2.OperationalError("the database did not answer in time")

"""Connects without a reactor."""

from __future__ import annotations

import math
from typing import Any

import psycopg2

from txqueue.store.driver.conninfo import patience_of
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
    with redacting(dsn), translated():
        # libpq gives it to each host.
        patience = math.ceil(patience_of(dsn))
        given: dict[str, Any] = {**ENCODED, "application_name": application_name}
        connection = psycopg2.connect(dsn, connect_timeout=patience, **given)
    connection.autocommit = True
    return connection

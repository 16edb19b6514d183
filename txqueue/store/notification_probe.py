"""Tests whether notifications of the database arrive over a DSN, as poolers lose them."""

from __future__ import annotations

import select
import time
from contextlib import closing
from typing import Any, Final
from uuid import uuid4

import psycopg2

from txqueue.store.errors import answered

__all__ = ["PATIENCE", "is_delivered"]

PATIENCE: Final = 2.0
_NAME: Final = "txqueue doctor"


def is_delivered(dsn: str) -> bool:
    """Tell whether a session receives a notification of another session within two seconds.

    Args:
        dsn: A libpq URI or keyword string.

    Raises:
        DatabaseUnavailable: When the server does not answer.
        Refused: When it refuses to listen or notify, as a standby does.
    """
    channel = f"txqueue_doctor_{uuid4().hex[:8]}"
    with (
        answered(PATIENCE),
        closing(_connected(dsn)) as listening,
        closing(_connected(dsn)) as notifying,
    ):
        _run(listening, f"listen {channel}")
        # One message is one transaction. It does not wait for the disk or a standby; another one
        # that does holds the lock that notifications take at commit.
        limits = "set local synchronous_commit = off; set local lock_timeout = 1000"
        _run(notifying, f"{limits}; notify {channel}")
        return _arrives(listening, channel)


def _connected(dsn: str) -> Any:
    connection = psycopg2.connect(dsn, application_name=_NAME, connect_timeout=10)
    connection.autocommit = True
    return connection


def _run(connection: Any, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _arrives(connection: Any, channel: str) -> bool:
    until = time.monotonic() + PATIENCE
    while True:
        connection.poll()
        if any(each.channel == channel for each in connection.notifies):
            return True
        left = until - time.monotonic()
        if left <= 0:
            return False
        select.select([connection], [], [], left)

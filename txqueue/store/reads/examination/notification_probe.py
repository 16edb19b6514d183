"""Tests whether notifications of the database arrive over a DSN, as poolers lose them."""

from __future__ import annotations

import select
import time
from contextlib import closing
from typing import Any, Final
from uuid import uuid4

from txqueue.store.driver.blocking_connection import connect
from txqueue.store.driver.errors import answered

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
        closing(connect(dsn, _NAME)) as listening,
        closing(connect(dsn, _NAME)) as notifying,
    ):
        _run(listening, f"listen {channel}")
        # One message is one transaction. It does not wait for the disk or a standby; another one
        # that does holds the lock that notifications take at commit.
        limits = "set local synchronous_commit = off; set local lock_timeout = 1000"
        _run(notifying, f"{limits}; notify {channel}")
        is_received = _arrives(listening, channel)
        # Otherwise a pooler would lend the listening session to others.
        _run(listening, f"unlisten {channel}")
        return is_received


def _run(connection: Any, sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _arrives(connection: Any, channel: str) -> bool:
    until = time.monotonic() + PATIENCE
    while True:
        connection.poll()
        if any(notice.channel == channel for notice in connection.notifies):
            return True
        left = until - time.monotonic()
        if left <= 0:
            return False
        select.select([connection], [], [], left)

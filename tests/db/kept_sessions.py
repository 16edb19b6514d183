"""Sessions that one test leaves to the next, of databases that outlive a test.

A new session reads the catalog, and compiles and plans each function again: three quarters of what
a test of a few calls costs the server.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg2
from psycopg2.extensions import connection as Session

__all__ = ["close_idle", "keeping", "kept_session", "leave_session", "take_session"]

_idle: Final[dict[str, list[Session]]] = {}


@contextmanager
def keeping(dsn: str) -> Iterator[None]:
    """Keep the sessions of a database that are left meanwhile."""
    _idle[dsn] = []
    try:
        yield
    finally:
        close_idle(dsn)
        del _idle[dsn]


def close_idle(dsn: str) -> None:
    """Have the next sessions of a database be new ones."""
    while _idle[dsn]:
        _idle[dsn].pop().close()


@contextmanager
def kept_session(dsn: str) -> Iterator[Session]:
    """Take a session that commits each statement, and leave it."""
    session = take_session(dsn)
    try:
        yield session
    finally:
        leave_session(session)


def take_session(dsn: str) -> Session:
    """Return a session that commits each statement: one that a test has left, or a new one."""
    while _idle.get(dsn):
        session = _idle[dsn].pop()
        # A test may have terminated all sessions of the database.
        with suppress(psycopg2.Error):
            session.cursor().execute("select")
            return session
    session = psycopg2.connect(dsn)
    session.autocommit = True
    return session


def leave_session(session: Session) -> None:
    """Keep a session, with nothing left of what was done in it, or close it."""
    # Older servers may count what this session has done as done in the next transaction.
    if session.dsn in _idle and session.server_version >= 150_000:
        with suppress(psycopg2.Error):
            _clean(session)
            _idle[session.dsn].append(session)
            return
    session.close()


def _clean(session: Session) -> None:
    session.reset()  # By `discard all`.
    session.autocommit = True
    session.cursor().execute("select pg_stat_force_next_flush()")
    session.notices.clear()
    session.notifies.clear()

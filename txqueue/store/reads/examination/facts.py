"""Reads the facts of an installation for ``txqueue doctor``: read-only, and each within seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from txqueue.errors import DatabaseUnavailable, SchemaMismatch, TxqueueError
from txqueue.policy.diagnosis.finding import Fact, Unread
from txqueue.store.driver.session_bounds import PLAIN as PLAIN_SETTINGS
from txqueue.store.driver.session_bounds import UNCOMPILED, as_arrays
from txqueue.store.inquiries.inquiry import answer
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.blocked_counts import about_blocked
from txqueue.store.reads.examination.notification_probe import PATIENCE, is_delivered
from txqueue.store.reads.examination.statements import (
    EXCESS_RIGHTS,
    LACKING_RIGHTS,
    MISSING_FUNCTIONS,
    NEEDS_ALL_SESSIONS,
    OTHER_SETTINGS,
    PLAIN,
)
from txqueue.store.schema.files import functions
from txqueue.store.schema.version import FIND, latest_version

__all__ = ["FACTS", "examine"]

NAME: Final = "txqueue doctor"
# Seconds for a query, and for its wait for a lock.
QUERY, LOCK = 3.0, 1.0
_DEFINED: Final = re.compile(r"^create or replace (?:function|view) \w+\.(\w+)", re.MULTILINE)
_GRANTED: Final = re.compile(r"^ *(\w+) +constant text\[\] := array\[([^]]+)\]", re.MULTILINE)
# The names, in grant_roles.sql, of the lists of functions that each role may call.
_LISTS: Final = {
    "enqueuing": "enqueue",
    "worksets": "worksets",
    "working": "worker",
    "reading": "read",
}

Rows = list[dict[str, Any]]

wall_clock: Callable[[], float] = time.time


def examine(dsn: str, schema: str) -> dict[str, Fact]:
    """Read all facts that the database has.

    Args:
        dsn: A libpq URI or keyword string.
        schema: The name of the schema.

    Returns:
        The rows of each fact of `FACTS`; `Unread` for one that could not be read, which does not
        affect the others.

    Raises:
        ConfigurationError: When the DSN or the name of the schema is not valid.
    """
    try:
        with Session(dsn, schema, NAME, patience=QUERY) as session:
            facts = {name: _read(session, name, read) for name, read in FACTS.items()}
    except DatabaseUnavailable as error:
        unread = Unread("the database does not answer")
        row = {"what": error.what, "remedy": error.remedy}
        return {**dict.fromkeys([*FACTS, "notifications"], unread), "connection": [row]}
    return {**facts, "notifications": _notifications(dsn), "connection": []}


def _read(session: Session, name: str, read: Callable[[Session], Rows]) -> Fact:
    """Read one fact in a transaction of its own, which the server ends soon."""
    try:
        with session.transaction("read only"):
            session.rows(f"set local statement_timeout = {round(QUERY * 1000)}")
            session.rows(f"set local lock_timeout = {round(LOCK * 1000)}")
            if name != "settings":
                # That fact is about JIT, too, as the session has it.
                session.rows(UNCOMPILED)
            return read(session)
    except SchemaMismatch:
        return Unread("the schema lacks what this check reads; run: txqueue migrate")
    except TxqueueError as error:
        return Unread(str(error))


def _plain(sql: str) -> Callable[[Session], Rows]:
    """Return a reader of the rows of a query."""
    return lambda session: session.dicts(sql.format(schema=session.schema))


def _of_all_sessions(sql: str) -> Callable[[Session], Rows]:
    """Return a reader of the rows of a query about all sessions of the server."""

    def read(session: Session) -> Rows:
        if not session.value("select pg_has_role('pg_read_all_stats', 'usage')"):
            raise TxqueueError(
                "this role may not see the sessions of others",
                "grant pg_read_all_stats to it, or connect as another role",
            )
        return session.dicts(sql.format(schema=session.schema))

    return read


def _schema_version(session: Session) -> Rows:
    table = f"{session.schema}.migration"
    number = serves = None
    if session.value("select to_regclass(%s) is not null", (table,)):
        number, serves = session.rows(FIND.format(schema=session.schema))[0]
    known = {"schema": session.schema, "needed": latest_version()}
    return [{**known, "number": number, "serves": serves}]


def _missing_functions(session: Session) -> Rows:
    sources = functions(session.schema)
    names = sorted({name for _, sql in sources for name in _DEFINED.findall(sql)})
    query = MISSING_FUNCTIONS.format(schema=session.schema)
    return session.dicts(query, (names, latest_version()))


def _compared_rights(sql: str) -> Callable[[Session], Rows]:
    """Return a reader that compares the rights of txqueue's roles with those granted to them."""

    def read(session: Session) -> Rows:
        pairs = list(_granted(session.schema))
        columns = ([role for role, _ in pairs], [name for _, name in pairs])
        return session.dicts(sql.format(schema=session.schema), columns)

    return read


def _granted(schema: str) -> Iterator[tuple[str, str]]:
    """Yield each role and function that the role may call, as `grant_roles()` lists them."""
    sql = dict(functions(schema))["grant_roles"]
    for list_name, names in _GRANTED.findall(sql):
        for name in re.findall(r"\w+", names) if list_name in _LISTS else ():
            yield f"{schema}_{_LISTS[list_name]}", name


def _other_settings(session: Session) -> Rows:
    """Return what stays as the role or database has it, as behind a pooler nothing is set."""
    return session.dicts(OTHER_SETTINGS, as_arrays(PLAIN_SETTINGS))


def _blocked(session: Session) -> Rows:
    inquiry = about_blocked(session.schema)
    return answer(
        inquiry, lambda question: session.dicts(question.sql, question.parameters)
    ).reasons


def _clock(session: Session) -> Rows:
    """Compare this host's clock with the server's."""
    before = wall_clock()
    server = session.value("select extract(epoch from clock_timestamp())::float8")
    after = wall_clock()
    return [{"offset": server - (before + after) / 2, "trip": after - before}]


def _notifications(dsn: str) -> Sequence[Mapping[str, Any]] | Unread:
    try:
        return [{"is_received": is_delivered(dsn), "patience": PATIENCE}]
    except TxqueueError as error:
        return Unread(str(error))


FACTS: Final[Mapping[str, Callable[[Session], Rows]]] = {
    **{name: _plain(sql) for name, sql in PLAIN.items()},
    **{name: _of_all_sessions(sql) for name, sql in NEEDS_ALL_SESSIONS.items()},
    "schema_version": _schema_version,
    "missing_functions": _missing_functions,
    "excess_rights": _compared_rights(EXCESS_RIGHTS),
    "lacking_rights": _compared_rights(LACKING_RIGHTS),
    "other_settings": _other_settings,
    "blocked_jobs": _blocked,
    "clock": _clock,
}
"""How each fact is read, besides those about connections."""

"""Reads the facts of an installation for ``txqueue doctor``: read-only, and each within seconds."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
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
    NEEDS_ALL_SESSIONS,
    OTHER_FUNCTIONS,
    OTHER_SETTINGS,
    PLAIN,
)
from txqueue.store.schema.files import functions
from txqueue.store.schema.version import FIND, latest_version

__all__ = ["FACTS", "examine"]

NAME: Final = "txqueue doctor"
# Seconds for a query, and for its wait for a lock.
QUERY, LOCK = 3.0, 1.0
_LIMITED: Final = (
    f"set local statement_timeout = {round(QUERY * 1000)};"
    f" set local lock_timeout = {round(LOCK * 1000)}; set transaction read only; "
)
# The name of a function and its body, or the name of a view.
_DEFINED: Final = re.compile(
    r"^create or replace (?:function \w+\.(\w+)\(.*?\bas \$\$(.*?)\$\$|view \w+\.(\w+))",
    re.MULTILINE | re.DOTALL,
)
_GRANTED: Final = re.compile(r"^ *(\w+) +constant text\[\] := array\[([^]]+)\]", re.MULTILINE)
# The names, in grant_roles.sql, of the lists of functions that each role may call.
_LISTS: Final = {
    "enqueuing": "enqueue",
    "worksets": "worksets",
    "working": "worker",
    "reading": "read",
}

Rows = list[dict[str, Any]]
_Read = Callable[["_Questions"], Rows]

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
        with Session(dsn, schema, NAME, patience=QUERY, lock_patience=LOCK) as session:
            facts = {name: _read(session, name, read) for name, read in FACTS.items()}
    except DatabaseUnavailable as error:
        unread = Unread("the database does not answer")
        row = {"what": error.what, "remedy": error.remedy}
        return {**dict.fromkeys([*FACTS, "notifications"], unread), "connection": [row]}
    return {**facts, "notifications": _notifications(dsn), "connection": []}


class _Questions:
    """Asks a session read-only, with limits of time that travel in the same message.

    Args:
        session: The session.
        before: Settings for each question alone.
    """

    def __init__(self, session: Session, before: str) -> None:
        self._session = session
        self._before = f"{_LIMITED}{before}"

    @property
    def schema(self) -> str:
        """The name of the schema."""
        return self._session.schema

    def dicts(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        """Return the rows of a question as dictionaries."""
        return self._session.dicts(self._before + sql, parameters)

    def value(self, sql: str, parameters: Sequence[object] = ()) -> Any:
        """Return the first column of the first row."""
        return self._session.value(self._before + sql, parameters)


def _read(session: Session, name: str, read: _Read) -> Fact:
    """Read one fact, apart from the others, as the server may refuse it."""
    # The fact about settings is about JIT, too, as the session has it.
    questions = _Questions(session, "" if name == "settings" else UNCOMPILED)
    try:
        return read(questions)
    except SchemaMismatch:
        return Unread("the schema lacks what this check reads; run: txqueue migrate")
    except TxqueueError as error:
        return Unread(str(error))


def _plain(sql: str) -> _Read:
    """Return a reader of the rows of a query."""
    return lambda questions: questions.dicts(sql.format(schema=questions.schema))


def _of_all_sessions(sql: str) -> _Read:
    """Return a reader of the rows of a query about all sessions of the server."""

    def read(questions: _Questions) -> Rows:
        if not questions.value("select pg_has_role('pg_read_all_stats', 'usage')"):
            raise TxqueueError(
                "this role may not see the sessions of others",
                "grant pg_read_all_stats to it, or connect as another role",
            )
        return questions.dicts(sql.format(schema=questions.schema))

    return read


def _schema_version(questions: _Questions) -> Rows:
    table = f"{questions.schema}.migration"
    number = serves = None
    if questions.value("select to_regclass(%s) is not null", (table,)):
        [found] = questions.dicts(FIND.format(schema=questions.schema))
        number, serves = found["number"], found["serves"]
    known = {"schema": questions.schema, "needed": latest_version()}
    return [{**known, "number": number, "serves": serves}]


def _other_functions(questions: _Questions) -> Rows:
    query = OTHER_FUNCTIONS.format(schema=questions.schema)
    needed = dict(_needed(questions.schema))
    version = latest_version()
    return questions.dicts(query, (list(needed), list(needed.values()), version, version))


def _needed(schema: str) -> Iterator[tuple[str, str | None]]:
    """Yield the name of each function of the package with a digest of its body, and each view."""
    for _, sql in functions(schema):
        for name, body, view in _DEFINED.findall(sql):
            yield (view, None) if view else (name, sha256(body.encode()).hexdigest())


def _compared_rights(sql: str) -> _Read:
    """Return a reader that compares the rights of txqueue's roles with those granted to them."""

    def read(questions: _Questions) -> Rows:
        pairs = list(_granted(questions.schema))
        columns = ([role for role, _ in pairs], [name for _, name in pairs])
        return questions.dicts(sql.format(schema=questions.schema), columns)

    return read


def _granted(schema: str) -> Iterator[tuple[str, str]]:
    """Yield each role and function that the role may call, as `grant_roles()` lists them."""
    sql = dict(functions(schema))["grant_roles"]
    for list_name, names in _GRANTED.findall(sql):
        for name in re.findall(r"\w+", names) if list_name in _LISTS else ():
            yield f"{schema}_{_LISTS[list_name]}", name


def _other_settings(questions: _Questions) -> Rows:
    """Return what stays as the role or database has it, as behind a pooler nothing is set."""
    return questions.dicts(OTHER_SETTINGS, as_arrays(PLAIN_SETTINGS))


def _blocked(questions: _Questions) -> Rows:
    inquiry = about_blocked(questions.schema)
    return answer(
        inquiry, lambda question: questions.dicts(question.sql, question.parameters)
    ).reasons


def _clock(questions: _Questions) -> Rows:
    """Compare this host's clock with the server's."""
    before = wall_clock()
    server = questions.value("select extract(epoch from clock_timestamp())::float8")
    after = wall_clock()
    return [{"offset": server - (before + after) / 2, "trip": after - before}]


def _notifications(dsn: str) -> Sequence[Mapping[str, Any]] | Unread:
    try:
        return [{"is_received": is_delivered(dsn), "patience": PATIENCE}]
    except TxqueueError as error:
        return Unread(str(error))


FACTS: Final[Mapping[str, _Read]] = {
    **{name: _plain(sql) for name, sql in PLAIN.items()},
    **{name: _of_all_sessions(sql) for name, sql in NEEDS_ALL_SESSIONS.items()},
    "schema_version": _schema_version,
    "other_functions": _other_functions,
    "excess_rights": _compared_rights(EXCESS_RIGHTS),
    "lacking_rights": _compared_rights(LACKING_RIGHTS),
    "other_settings": _other_settings,
    "blocked_jobs": _blocked,
    "clock": _clock,
}
"""How each fact is read, besides those about connections."""

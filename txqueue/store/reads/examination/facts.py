"""Reads the facts of an installation for ``txqueue doctor``: read-only, each within seconds; and
whether notifications arrive over a DSN.
"""

from __future__ import annotations

import re
import select
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, Final, TypeVar
from uuid import uuid4

from txqueue.errors import DatabaseUnavailable, SchemaMismatch, TxqueueError
from txqueue.policy.findings.finding import Unread
from txqueue.policy.findings.status import LiveJobs
from txqueue.store.driver.blocking_connection import connect
from txqueue.store.driver.errors import answered
from txqueue.store.driver.session_bounds import PLAIN as PLAIN_SETTINGS
from txqueue.store.driver.session_bounds import UNCOMPILED, as_arrays
from txqueue.store.inquiries.inquiry import Inquiry, Question, answer, ask, together
from txqueue.store.inquiries.reader import Session
from txqueue.store.reads.examination import statements
from txqueue.store.reads.queue_state import about_blocked, about_nodes
from txqueue.store.schema.files import FIND, functions, latest_version, needed_objects
from txqueue.store.schema.function_replacement import STRAYS, definitions

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


# Seconds for a query, and for its wait for a lock.
QUERY, LOCK = 3.0, 1.0
_LIMITED: Final = (
    f"set local statement_timeout = {round(QUERY * 1000)};"
    f" set local lock_timeout = {round(LOCK * 1000)}; set transaction read only; "
)
_GRANTED: Final = re.compile(r"^ *(\w+) +constant text\[\] := array\[([^]]+)\]", re.MULTILINE)
# The names, in grant_roles.sql, of the lists of functions that each role may call.
_LISTS: Final = {
    "enqueuing": "enqueue",
    "worksets": "worksets",
    "working": "worker",
    "reading": "read",
}

T = TypeVar("T")
# Given the name of the schema.
_Read = Callable[[str], Inquiry[Any]]
# What a statement with other questions would change: the settings of the session, a time.
_APART: Final = ("settings", "clock")

wall_clock: Callable[[], float] = time.time


def examine(dsn: str, schema: str) -> dict[str, Any]:
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
        with Session(dsn, schema, _NAME, patience=QUERY) as session:
            facts = _facts(session)
    except DatabaseUnavailable as error:
        unread = Unread("the database does not answer")
        row = {"what": error.what, "remedy": error.remedy}
        return {**dict.fromkeys([*FACTS, "notifications"], unread), "connection": [row]}
    return {**facts, "notifications": _notifications(dsn), "connection": []}


def _facts(session: Session) -> dict[str, Any]:
    """Read the facts together; if the server refuses one of them, each by itself."""
    apart = {name: _fact(session, name) for name in _APART}
    names = [name for name in FACTS if name not in _APART]
    try:
        found = _answer(session, together(*(FACTS[name](session.schema) for name in names)))
    except TxqueueError:
        found = tuple(_fact(session, name) for name in names)
    return apart | dict(zip(names, found, strict=True))


def _fact(session: Session, name: str) -> Any:
    # The fact about settings is about JIT, too, as the session has it.
    before = "" if name == "settings" else UNCOMPILED
    try:
        return _answer(session, FACTS[name](session.schema), before)
    except SchemaMismatch:
        return Unread("the schema lacks what this check reads; run: txqueue migrate")
    except TxqueueError as error:
        return Unread(str(error))


def _answer(session: Session, inquiry: Inquiry[T], before: str = UNCOMPILED) -> T:
    """Run an inquiry read-only, with limits of time that travel in the same message."""
    return answer(
        inquiry,
        lambda question: session.dicts(f"{_LIMITED}{before}{question.sql}", question.parameters),
    )


def _plain(sql: str, schema: str) -> Inquiry[Any]:
    """Query the rows of a statement."""
    return ask(sql.format(schema=schema))


def _of_all_sessions(sql: str, schema: str) -> Inquiry[Any]:
    """Query the rows of a statement about all sessions of the server."""
    [role] = yield Question("select pg_has_role('pg_read_all_stats', 'usage') as may_see")
    if role["may_see"]:
        return (yield Question(sql.format(schema=schema)))
    return Unread(
        "this role may not see the sessions of others; grant pg_read_all_stats to it, or"
        " connect as another role"
    )


def _schema_version(schema: str) -> Inquiry[Any]:
    table = f"{schema}.migration"
    number = serves = None
    [its] = yield Question("select to_regclass(%s) is not null as is_there", (table,))
    if its["is_there"]:
        [found] = yield Question(FIND.format(schema=schema))
        number, serves = found["number"], found["serves"]
    known = {"schema": schema, "needed": latest_version()}
    return [{**known, "number": number, "serves": serves}]


def _other_functions(schema: str) -> Inquiry[Any]:
    query = statements.OTHER_FUNCTIONS.format(schema=schema)
    needed = list(definitions(schema))
    names, signatures, digests = (
        [getattr(each, part) for each in needed] for part in ("name", "signature", "digest")
    )
    version = latest_version()
    return ask(query, (names, signatures, digests, version, version))


def _missing(sql: str, kinds: tuple[str, ...], schema: str) -> Inquiry[Any]:
    """Query the objects of some kinds that a schema of this release lacks."""
    found = yield Question(sql.format(schema=schema))
    needed = Counter(line for line in needed_objects() if line.startswith(kinds))
    if found and found[0]["number"] != latest_version():
        return []
    return [{"name": name} for name in needed - Counter(row["object"] for row in found)]


def _compared_rights(sql: str, schema: str) -> Inquiry[Any]:
    """Compare the rights of txqueue's roles with those granted to them."""
    pairs = list(_granted(schema))
    columns = ([role for role, _ in pairs], [name for _, name in pairs])
    return ask(sql.format(schema=schema), columns)


def _granted(schema: str) -> Iterator[tuple[str, str]]:
    """Yield each role and function that the role may call, as `grant_roles()` lists them."""
    sql = dict(functions(schema))["grant_roles"]
    for list_name, names in _GRANTED.findall(sql):
        for name in re.findall(r"\w+", names) if list_name in _LISTS else ():
            yield f"{schema}_{_LISTS[list_name]}", name


def _runnable(schema: str) -> Inquiry[Any]:
    rows = yield Question(statements.RUNNABLE_JOBS.format(schema=schema))
    return LiveJobs(rows, rows)


def _blocked(schema: str) -> Inquiry[Any]:
    return (yield from about_blocked(schema)).reasons


def _clock(_: str) -> Inquiry[Any]:
    """Compare this host's clock with the server's."""
    before = wall_clock()
    [its] = yield Question("select extract(epoch from clock_timestamp())::float8 as now")
    after = wall_clock()
    return [{"offset": its["now"] - (before + after) / 2, "trip": after - before}]


def _notifications(dsn: str) -> Sequence[Mapping[str, Any]] | Unread:
    try:
        return [{"is_received": is_delivered(dsn), "patience": PATIENCE}]
    except TxqueueError as error:
        return Unread(str(error))


FACTS: Final[Mapping[str, _Read]] = {
    **{name: partial(_plain, sql) for name, sql in statements.PLAIN.items()},
    **{name: partial(_of_all_sessions, sql) for name, sql in statements.NEEDS_ALL_SESSIONS.items()},
    "schema_version": _schema_version,
    "missing_objects": partial(
        _missing, statements.OBJECTS, ("table ", "sequence ", "column ", "index ")
    ),
    "missing_rows": partial(_missing, statements.ROWS, ("row",)),
    "strays": lambda schema: ask(STRAYS, (schema,)),
    "other_functions": _other_functions,
    "excess_rights": partial(_compared_rights, statements.EXCESS_RIGHTS),
    "lacking_rights": partial(_compared_rights, statements.LACKING_RIGHTS),
    # What stays as the role or database has it, as behind a pooler nothing is set.
    "other_settings": lambda _: ask(statements.OTHER_SETTINGS, as_arrays(PLAIN_SETTINGS)),
    "nodes": about_nodes,
    "live": _runnable,
    "blocked_jobs": _blocked,
    "clock": _clock,
}
"""How each fact is read, besides those about connections."""

"""Every function that a role may call, with hostile arguments.

It answers or refuses: the server does not stumble, and another node's job stays that node's.
"""

from collections.abc import Iterator
from typing import Any

import psycopg2
import psycopg2.extras
import pytest
from attrs import frozen
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.db.masters import Master, master

# Internal errors, exhausted resources, statements given up, and SQL that was put together wrongly.
FAULTS = ("XX", "53", "57", "58", "42601", "42P01", "42703", "42883", "42804", "0A")
ROLES = ("txqueue_enqueue", "txqueue_worksets", "txqueue_worker", "txqueue_read")
LARGEST = 2**63 - 1

words = st.one_of(
    st.sampled_from(["", "default", "test.kind", "'", '"', "\\", "{}", "queue", "x" * 1001]),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=30),
)
documents = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), words),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(words, inner, max_size=4)),
    max_leaves=8,
)
JOB = {
    "work_type": words,
    "payload": documents,
    "queue": words,
    "priority": st.integers(-1, 10),
    "weight": st.integers(-1, 2**31),
    "not_before": st.sampled_from(["infinity", "-infinity", "now", "1999-01-01", "?"]),
    "not_after": st.sampled_from(["infinity", "-infinity", "2999-01-01"]),
    "group": words,
    "tenant": words,
    "options": documents,
    "unique": words,
    "unique_mode": st.sampled_from(["keep", "replace", "again", "reject", "", "never"]),
    "after": st.lists(st.sampled_from([1, 2, 0, LARGEST, None]), max_size=3),
    "after_any_end": st.booleans(),
}
OUTCOME = {
    "job_id": st.sampled_from([1, 0, -1, LARGEST]),
    "assignment": st.sampled_from([1, 0, -1, LARGEST]),
    "outcome": st.sampled_from(
        ["done", "retry", "snooze", "next", "failed", "cancelled", "", "ready"]
    ),
    "delay": st.sampled_from([0, -1, 1e300, None]),
    "error": words,
    "result": documents,
    "stage": st.one_of(documents, st.fixed_dictionaries({}, optional=JOB)),
}
objects = st.one_of(
    documents,
    st.lists(st.fixed_dictionaries({}, optional=JOB), max_size=3),
    st.lists(st.fixed_dictionaries({}, optional=OUTCOME), max_size=3),
)


def whole(bits: int, *known: int) -> st.SearchStrategy[int]:
    """Numbers that a type can hold: its ends, and such as mean something."""
    most = 2 ** (bits - 1) - 1
    ends = [0, 1, 2, -1, most, -most - 1, *known, *known, *known]
    return st.one_of(st.sampled_from(ends), st.integers(-most - 1, most))


def arrays(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """None, one, some and many of them, null among them."""
    few = st.lists(st.one_of(values, st.none()), max_size=4)
    return st.one_of(few, values.map(lambda value: [value] * 100))


def values(incarnation: int) -> dict[str, st.SearchStrategy[Any]]:
    """Values of each type, for a caller that is a run of a node."""
    single: dict[str, st.SearchStrategy[Any]] = {
        "smallint": whole(16),
        "integer": whole(32, incarnation),
        "bigint": whole(64),
        "boolean": st.booleans(),
        "double precision": st.sampled_from([0.0, -1.0, 1.5, 1e300, "NaN", "Infinity"]),
        "text": words,
        "character varying": words,
        "oid": st.sampled_from([0, 1, 1259, 2**32 - 1]),
        "xid": st.sampled_from(["0", "2", "3", "1000", "4294967295"]),
        "regtype": st.sampled_from(["integer", "text", "timestamptz", "jsonb", "name[]"]),
        "date": st.sampled_from(["infinity", "now", "2026-11-22", "4713-01-01 BC"]),
        "uuid": st.uuids().map(str),
        # A caller has no other value of it than a row of the table.
        "txqueue.job": st.none(),
        "jsonb": objects.map(psycopg2.extras.Json),
        "timestamp with time zone": st.sampled_from(
            ["infinity", "-infinity", "now", "294276-01-01", "4713-01-01 BC"]
        ),
    }
    return single | {f"{name}[]": arrays(value) for name, value in single.items()}


@frozen
class Signature:
    """A function, and the types of its arguments."""

    name: str
    types: list[str]

    @property
    def call(self) -> str:
        """The statement that calls it."""
        return f"select txqueue.{self.name}({', '.join(f'%s::{kind}' for kind in self.types)})"

    def arguments(self, incarnation: int) -> st.SearchStrategy[tuple[Any, ...]]:
        """Values of those types, or null."""
        known = values(incarnation)
        return st.tuples(*(st.one_of(known[kind], known[kind], st.none()) for kind in self.types))


def signatures(session: Master) -> list[Signature]:
    """The functions that some role may call."""
    called = " or ".join(f"has_function_privilege('{role}', oid, 'execute')" for role in ROLES)
    session.cursor.execute(
        "select proname, array(select format_type(kind, null) from unnest(proargtypes)"
        " with ordinality as each (kind, place) order by place) from pg_proc"
        f" where pronamespace = 'txqueue'::regnamespace and ({called}) order by proname"
    )
    return [Signature(*row) for row in session.cursor.fetchall()]


@pytest.fixture
def held(node: Master, dsn: str) -> Iterator[Master]:
    """Another node's session with a job that it holds, and with others that wait."""
    with master(dsn, "victim") as victim:
        victim.enqueue({}, {"group": "default"}, {"tenant": "default"})
        assert victim.claim(1)
        # However long the examples take, its lease is not out.
        node.cursor.execute("update txqueue.node_info set heartbeat_at = now() + '1 hour'")
        yield victim


def attempt(session: Master, signature: Signature, arguments: tuple[Any, ...]) -> str | None:
    """Call a function; returns what is wrong with how it ended."""
    try:
        session.cursor.execute("savepoint here")
        session.cursor.execute("set local role txqueue_worker")
        session.cursor.execute(signature.call, arguments)
    except psycopg2.Error as error:
        code = error.pgcode or "none"
        is_fault = code == "none" or code.startswith(FAULTS)
        session.cursor.execute("rollback to here")
        return f"{code} {error}" if is_fault else None
    session.cursor.execute("reset role")
    return None


def holding(session: Master, incarnation: int) -> list[tuple[Any, ...]]:
    """What a node holds, and how it stands."""
    session.cursor.execute(
        "select job_id, assignment, job.incarnation, attempt, deaths, node.state"
        " from txqueue.job_assigned as job join txqueue.node_info as node using (node_id)"
        " where job.incarnation = %s",
        (incarnation,),
    )
    return session.cursor.fetchall()


def named(arguments: list[Any], jobs: set[int]) -> bool:
    """Tell whether a list among the arguments has the number of one of these jobs."""
    lists = [each for each in arguments if isinstance(each, list)]
    return any(not jobs.isdisjoint(each) for each in lists)


@settings(max_examples=300)
@given(data=st.data())
def test_no_argument_makes_the_server_stumble(node: Master, held: Master, data: Any) -> None:
    """Nulls, extremes, infinities, arrays of a hundred, runs of nodes that never were."""
    before = holding(node, held.incarnation)
    signature = data.draw(st.sampled_from(signatures(node)))
    arguments = data.draw(signature.arguments(node.incarnation))
    # A login with the worker's role may act as any node, but not choose its incarnation.
    assume(held.incarnation not in arguments and [held.incarnation] * 100 not in arguments)
    # An operator ends the run of any job by its number.
    assume(signature.name != "restart" or not named(arguments, {job for job, *_ in before}))
    node.cursor.execute("begin; set local statement_timeout = '10s'")
    try:
        wrong = attempt(node, signature, arguments)
        assert wrong is None, f"{signature.name}{arguments}: {wrong}"
        assert holding(node, held.incarnation) == before
    finally:
        node.cursor.execute("rollback")

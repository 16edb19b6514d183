"""Statements that may act beyond their own transaction are recognized; ordinary ones are not."""

import pytest
from psycopg2 import sql

from txqueue.store.enqueueing.transaction import may_change_session, may_end_transaction


@pytest.mark.parametrize(
    "text",
    [
        "commit",
        "COMMIT AND CHAIN",
        "insert into t values (1); commit; begin",
        "rollback and chain",
        "-- so far\n end",
        "/* a\n b */ abort",
        "prepare transaction 'x'",
        sql.SQL("commit; begin"),
        b"commit",
    ],
)
def test_a_text_that_may_end_the_transaction(text: object) -> None:
    """Alone, among others, behind comments, and in psycopg2's other forms."""
    assert may_end_transaction(text)


@pytest.mark.parametrize(
    "text",
    [
        "rollback to savepoint x",
        "rollback work to x",
        "insert into t (commit) values (1)",
        "select case when a then b end",
        "update t\nset ended = true",
        "prepare transactions as select 1",
    ],
)
def test_a_text_that_cannot_end_it(text: str) -> None:
    """It costs no round trip more."""
    assert not may_end_transaction(text)


@pytest.mark.parametrize(
    "text",
    [
        "set search_path = other",
        "SET SESSION default_transaction_read_only = on",
        "select 1; reset all",
        "select set_config('app.tenant', '7', false)",
        "select pg_advisory_lock(7)",
        "create temp table t (a int)",
        "listen news",
        "prepare p as select 1",
        sql.SQL("set search_path = {}").format(sql.Identifier("other")),
    ],
)
def test_a_text_that_may_change_the_session(text: object) -> None:
    """Its connection is not used by another caller."""
    assert may_change_session(text)


@pytest.mark.parametrize(
    "text",
    [
        "set local search_path = other",
        "set transaction read only",
        "set constraints all deferred",
        "update t\nset a = 1",
        "select set_config('app.tenant', '7', true)",
        "select pg_advisory_xact_lock(7)",
        "create temp table t (a int) on commit drop",
    ],
)
def test_a_text_that_changes_the_transaction_only(text: str) -> None:
    """Its connection is used again."""
    assert not may_change_session(text)

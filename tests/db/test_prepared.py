"""Frequent statements of a connection are prepared, and later invalidated."""

from contextlib import closing

import psycopg2
import pytest

from tests.waiting import running_reactor
from txqueue.errors import DatabaseUnavailable
from txqueue.store.driver.connection import Connection
from txqueue.store.driver.raw_connection import OFTEN, name_of

OFTEN_SENT = "select %s::integer + %s::integer"
PREPARED = "select name, calls from (select name, generic_plans + custom_plans as calls"
PREPARED += " from pg_prepared_statements) as known"


async def connected(dsn: str) -> Connection:
    """A connection of ours."""
    return await Connection(running_reactor(), "txqueue test").open(dsn)


async def test_what_is_sent_often_is_prepared(database18: str) -> None:
    """The server parses and plans it once."""
    connection = await connected(database18)
    with closing(connection):
        for number in range(2 * OFTEN):
            assert await connection.query_often(OFTEN_SENT, (number, 1)) == [(number + 1,)]
        assert await connection.query(PREPARED) == [(name_of(OFTEN_SENT), OFTEN + 1)]


async def test_a_discarded_prepared_statement_is_sent_as_text(database18: str) -> None:
    """Then, and from then on."""
    connection = await connected(database18)
    with closing(connection):
        for _ in range(OFTEN):
            await connection.query_often(OFTEN_SENT, (1, 1))
        await connection.query("deallocate all")
        for _ in range(2 * OFTEN):
            assert await connection.query_often(OFTEN_SENT, (1, 1)) == [(2,)]
        assert await connection.query(PREPARED) == []


async def test_a_function_may_come_to_return_something_else(database18: str) -> None:
    """As by a migration while a node runs."""
    connection = await connected(database18)
    make = "create function pg_temp.told() returns {} language sql as 'select {}'"
    with closing(connection):
        await connection.query(make.format("integer", "1"))
        for _ in range(OFTEN):
            assert await connection.query_often("select pg_temp.told()", ()) == [(1,)]
        await connection.query("drop function pg_temp.told()")
        await connection.query(make.format("text", "text ''one''"))
        assert await connection.query_often("select pg_temp.told()", ()) == [("one",)]


async def test_a_transaction_that_has_failed_prepares_nothing(database18: str) -> None:
    """Afterwards the statement works as before, and is prepared then."""
    connection = await connected(database18)
    with closing(connection):
        for _ in range(OFTEN - 1):
            await connection.query_often(OFTEN_SENT, (1, 1))
        await connection.query("begin")
        with pytest.raises(psycopg2.errors.DivisionByZero):
            await connection.query("select 1 / 0")
        with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
            await connection.query_often(OFTEN_SENT, (1, 1))
        await connection.query("rollback")
        assert await connection.query_often(OFTEN_SENT, (1, 1)) == [(2,)]
        assert await connection.query(PREPARED) == [(name_of(OFTEN_SENT), 1)]


async def test_what_is_discarded_inside_a_transaction_ends_it(database18: str) -> None:
    """The server has aborted it; a retry succeeds."""
    connection = await connected(database18)
    with closing(connection):
        for _ in range(OFTEN):
            await connection.query_often(OFTEN_SENT, (1, 1))
        await connection.query("deallocate all")
        await connection.query("begin")
        with pytest.raises(DatabaseUnavailable, match="had prepared"):
            await connection.query_often(OFTEN_SENT, (1, 1))
        await connection.query("rollback")
        await connection.query("begin")
        assert await connection.query_often(OFTEN_SENT, (1, 1)) == [(2,)]
        await connection.commit()


async def test_a_name_that_the_session_knows_is_no_obstacle(database18: str) -> None:
    """Another client prepared it, behind a pooler that hides well."""
    connection = await connected(database18)
    with closing(connection):
        await connection.query(f"prepare {name_of(OFTEN_SENT)} as select 1")
        for _ in range(2 * OFTEN):
            assert await connection.query_often(OFTEN_SENT, (1, 1)) == [(2,)]

"""A transaction object: used inside its block only, one call at a time, ended by the block."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import psycopg2
import psycopg2.sql
import pytest
from attrs import define
from twisted.internet.defer import CancelledError, Deferred

from tests.db.letters import Note, opened
from tests.db.masters import Master
from tests.waiting import pause
from txqueue import Transaction, WorkItem, WorkQueue
from txqueue.errors import DatabaseUnavailable, Refused, TransactionMisused

CLIENTS = """
    select count(*) from pg_stat_activity
     where application_name = 'txqueue client' and datname = current_database()
"""


async def _batch(txn: Transaction) -> None:
    async with txn.batch(Note()) as batch:
        await batch.enqueue(Note())


USES: dict[str, Callable[[Transaction], Awaitable[Any]]] = {
    "execute": lambda txn: txn.execute("select 1"),
    "enqueue": lambda txn: txn.enqueue(Note()),
    "enqueue_many": lambda txn: txn.enqueue_many([Note()]),
    "batch": _batch,
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
async def test_a_transaction_is_not_used_after_its_end(
    node: Master, dsn: str, use: Callable[[Transaction], Awaitable[Any]]
) -> None:
    """Not even while its connection is inside the transaction of another caller."""
    async with opened(dsn, connections=1) as queue:
        async with queue.transaction() as first:
            await first.enqueue(Note())
        async with queue.transaction():
            with pytest.raises(TransactionMisused, match="has ended"):
                await use(first)
    assert node.states() == {"waiting": 1}


async def test_a_transaction_that_was_rolled_back_is_not_used_either(
    node: Master, queue: WorkQueue
) -> None:
    """Its error is what the caller learns first."""
    with pytest.raises(ZeroDivisionError):
        async with queue.transaction() as txn:
            raise ZeroDivisionError
    with pytest.raises(TransactionMisused, match="has ended"):
        await txn.enqueue(Note())
    assert node.states() == {}


@pytest.mark.parametrize(
    "statement",
    [
        "copy txqueue.job from stdin",
        "/* all */ COPY (select 1)\n to STDOUT (format csv)",
        psycopg2.sql.SQL("copy {} from stdin").format(psycopg2.sql.Identifier("job")),
    ],
)
async def test_a_copy_is_refused_before_it_is_sent(
    node: Master, queue: WorkQueue, statement: Any
) -> None:
    """The driver could not end it; the transaction goes on."""
    async with queue.transaction() as txn:
        with pytest.raises(TransactionMisused, match="COPY from STDIN"):
            await txn.execute(statement)
        await txn.execute("select 'copy that', 'from stdin'")
        await txn.enqueue(Note())
    assert node.states() == {"waiting": 1}


async def test_two_calls_at_a_time_are_refused(node: Master, queue: WorkQueue) -> None:
    """The second call is refused; the first completes, and the transaction continues."""
    async with queue.transaction() as txn:
        first = Deferred.fromCoroutine(txn.execute("select pg_sleep(0.2)"))
        with pytest.raises(TransactionMisused, match="another call of this transaction"):
            await txn.enqueue(Note())
        await first
        await txn.enqueue(Note())
    assert node.states() == {"waiting": 1}


async def _not_awaited(queue: WorkQueue) -> None:
    async with queue.transaction() as txn:
        await txn.enqueue(Note())
        left = Deferred.fromCoroutine(txn.execute("select pg_sleep(0.2)"))
        left.addErrback(lambda _: None)


async def test_a_call_that_is_not_awaited_rolls_back(node: Master, dsn: str) -> None:
    """It is still under way as the block ends; the connection is not lent on."""
    async with opened(dsn, connections=1) as queue:
        with pytest.raises(TransactionMisused, match="while a statement was running"):
            await _not_awaited(queue)
        await queue.enqueue(Note())
    assert node.states() == {"waiting": 1}


async def _ended_by(queue: WorkQueue, statement: str, *, swallow: bool) -> None:
    async with queue.transaction() as txn:
        await txn.execute("select 1")
        with suppress(*([TransactionMisused] if swallow else [])):
            await txn.execute(statement)


@pytest.mark.parametrize("swallow", [False, True])
@pytest.mark.parametrize(
    "statement",
    [
        "rollback",
        "commit",
        "prepare transaction 'x'",
        "select 1; rollback",
        "commit and chain",
        "rollback and chain",
        "select 1; commit; begin; select 1",
    ],
)
async def test_a_statement_that_ends_the_transaction_is_an_error(
    node: Master, queue: WorkQueue, statement: str, swallow: bool
) -> None:
    """Said at once, and again at the end of the block if it was swallowed."""
    with pytest.raises(TransactionMisused, match="a statement ended the transaction"):
        await _ended_by(queue, statement, swallow=swallow)
    if statement.startswith("prepare"):
        node.cursor.execute("rollback prepared 'x'")


async def test_a_rollback_to_a_savepoint_is_no_end(node: Master, queue: WorkQueue) -> None:
    """What follows it is a part of the same transaction."""
    async with queue.transaction() as txn:
        await txn.execute("savepoint a; select 1; rollback to a")
        await txn.execute("rollback to savepoint a; release a")
        await txn.enqueue(Note())
    assert node.states() == {"waiting": 1}


@pytest.mark.parametrize(
    "statement",
    [
        "set default_transaction_read_only = on",
        "select set_config('search_path', 'pg_catalog', false)",
        "create temp table other (a integer)",
    ],
)
async def test_a_session_that_a_transaction_has_changed_is_not_used_again(
    node: Master, dsn: str, statement: str
) -> None:
    """The next caller gets another connection; that of an unchanged session is used again."""
    async with opened(dsn, connections=1) as queue:
        backends = []
        for text in ("select 1", statement, "set local search_path = pg_catalog", "select 1"):
            async with queue.transaction() as txn:
                backends += await txn.execute("select pg_backend_pid()")
                await txn.execute(text)
        async with queue.transaction() as txn:
            await txn.enqueue(Note())
    first, changed, second, third = backends
    assert first == changed != second == third
    assert node.states() == {"waiting": 1}


@pytest.mark.parametrize("call", ["execute", "enqueue", "commit"])
async def test_a_session_that_was_idle_too_long_is_unavailable(
    node: Master, dsn: str, call: str
) -> None:
    """As one that was terminated."""

    async def ended(queue: WorkQueue) -> None:
        async with queue.transaction() as txn:
            await txn.execute("set idle_in_transaction_session_timeout = 1")
            while node.value(CLIENTS):
                await pause(0.01)
            if call == "execute":
                await txn.execute("select 1")
            elif call == "enqueue":
                await txn.enqueue(Note())

    async with opened(dsn, connections=1) as queue:
        with pytest.raises(DatabaseUnavailable):
            await ended(queue)
        await queue.enqueue(Note())
    assert node.states() == {"waiting": 1}


async def _enqueued_in_vain(queue: WorkQueue) -> None:
    async with queue.transaction() as txn:
        await txn.execute("set transaction read only")
        await txn.enqueue(Note())


async def test_an_enqueue_without_writes_is_unavailable(queue: WorkQueue) -> None:
    """Whatever has made the transaction read-only."""
    with pytest.raises(DatabaseUnavailable, match="accepts no writes"):
        await _enqueued_in_vain(queue)


async def test_a_batch_takes_no_job_after_its_callback(node: Master, queue: WorkQueue) -> None:
    """The callback would not wait for it."""
    async with queue.transaction() as txn:
        async with txn.batch(Note()) as batch:
            await batch.enqueue(Note())
            with pytest.raises(TransactionMisused, match="no callback yet"):
                _ = batch.callback_id
        assert batch.callback_id > batch.ids[0]
        with pytest.raises(TransactionMisused, match="the batch is complete"):
            await batch.enqueue(Note())
        with pytest.raises(TransactionMisused, match="the batch is complete"):
            await batch.enqueue_many([Note()])
    assert node.states() == {"waiting": 2}


async def test_savepoints_are_the_applications(node: Master, queue: WorkQueue) -> None:
    """A part of the transaction may be undone."""
    async with queue.transaction() as txn:
        await txn.enqueue(Note())
        await txn.execute("savepoint here")
        await txn.enqueue(Note())
        await txn.execute("rollback to savepoint here")
    assert node.states() == {"waiting": 1}


async def _first(queue: WorkQueue, sql: str, parameter: object, error: type[Exception]) -> None:
    """Swallow the error of a first statement, write, and change one's mind."""
    async with queue.transaction() as txn:
        with pytest.raises(error):
            await txn.execute(sql, (parameter,))
        await txn.execute("create table written ()")
        raise ZeroDivisionError


async def _is_written(queue: WorkQueue) -> bool:
    async with queue.transaction() as txn:
        return await txn.execute("select to_regclass('written')") != [(None,)]


@pytest.mark.parametrize("sql", ["selec %s", "select %s / 0", "select %s; selec 1"])
async def test_an_error_of_the_first_statement_fails_the_transaction(
    queue: WorkQueue, sql: str
) -> None:
    """Which begins in the same message; no later statement runs outside of a transaction."""
    with pytest.raises(psycopg2.errors.InFailedSqlTransaction):
        await _first(queue, sql, 1, psycopg2.Error)
    assert not await _is_written(queue)


async def test_a_first_statement_that_commits_and_fails_runs_once(queue: WorkQueue) -> None:
    """It is not sent again, although no transaction is open after it."""
    async with queue.transaction() as txn:
        await txn.execute("create table lines ()")
    with pytest.raises(psycopg2.errors.DivisionByZero):
        async with queue.transaction() as txn:
            await txn.execute("insert into lines default values; commit; select 1 / 0")
    async with queue.transaction() as txn:
        assert await txn.execute("select count(*) from lines") == [(1,)]


async def test_the_text_of_an_error_shows_the_applications_statement(queue: WorkQueue) -> None:
    """Not the beginning of the transaction, which goes with it."""
    with pytest.raises(psycopg2.errors.UndefinedTable) as raised:
        async with queue.transaction() as txn:
            await txn.execute("select * from missing")
    assert ": select * from missing" in str(raised.value)
    assert "begin" not in str(raised.value)


async def test_a_first_statement_that_was_not_sent_fails_nothing(queue: WorkQueue) -> None:
    """The driver refuses a parameter; the next statement is inside the transaction."""
    with pytest.raises(ZeroDivisionError):
        await _first(queue, "select %s", object(), psycopg2.ProgrammingError)
    assert not await _is_written(queue)


async def test_a_transaction_without_statements_asks_the_database_nothing(dsn: str) -> None:
    """Its connection serves the next one as if it were new."""
    async with opened(dsn, connections=1) as queue:
        async with queue.transaction():
            pass
        with suppress(ZeroDivisionError):
            async with queue.transaction():
                raise ZeroDivisionError
        async with queue.transaction() as txn:
            begun = "select xact_start = query_start from pg_stat_activity where pid = %s"
            [(backend,)] = await txn.execute("select pg_backend_pid()")
            assert await txn.execute(begun, (backend,)) == [(False,)]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("select * from my_missing_table", psycopg2.errors.UndefinedTable),
        ("select my_missing_function()", psycopg2.errors.UndefinedFunction),
        ("select 1 / 0", psycopg2.errors.DivisionByZero),
        ("select 'x'::int", psycopg2.errors.InvalidTextRepresentation),
        ("select '9999999999'::int", psycopg2.errors.NumericValueOutOfRange),
    ],
)
async def test_an_application_s_own_errors_are_those_of_its_driver(
    queue: WorkQueue, sql: str, error: type[Exception]
) -> None:
    """No word of txqueue's: to migrate would not help."""
    with pytest.raises(error):
        async with queue.transaction() as txn:
            await txn.execute(sql)


async def test_a_wait_that_is_cancelled_is_no_timeout(node: Master, queue: WorkQueue) -> None:
    """Its job continues; a closed queue raises its own error."""
    (job_id,) = node.enqueue({})
    waiting = Deferred.fromCoroutine(queue.wait(job_id))
    await pause(0.1)
    waiting.cancel()
    with pytest.raises(CancelledError):
        await waiting
    waiting = Deferred.fromCoroutine(queue.wait(job_id))
    await pause(0.1)
    await queue.close()
    with pytest.raises(DatabaseUnavailable, match="closed"):
        await waiting


@define
class Keyed(WorkItem):
    """Work with a unique key of its class."""

    work_type = "transactions.keyed"

    unique = "one"

    def perform(self, job: Any) -> None:
        """Do nothing."""


async def test_a_key_of_the_class_keeps_a_job_from_waiting(node: Master, queue: WorkQueue) -> None:
    """As the pages say, ``unique=None`` does not lift it, nor is the job a batch's callback."""
    job_id = await queue.enqueue(Note())
    for options in ({}, {"unique": None}):
        with pytest.raises(Refused, match="a job with a unique key cannot wait for others"):
            await queue.enqueue(Keyed(), after=[job_id], **options)
    with pytest.raises(Refused, match="a job with a unique key cannot wait for others"):
        await _batch_before(queue, Keyed())
    assert node.states() == {"waiting": 1}


async def _batch_before(queue: WorkQueue, callback: WorkItem) -> None:
    async with queue.batch(callback) as batch:
        await batch.enqueue(Note())

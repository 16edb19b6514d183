"""A database transaction in which an application writes its rows and enqueues its work."""

from __future__ import annotations

import re
from collections.abc import (
    AsyncIterator,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager
from functools import lru_cache, partial
from itertools import chain
from typing import Any, Final, Self, Unpack

from attrs import define
from psycopg2.errors import InvalidSavepointSpecification
from twisted.internet.defer import Deferred, succeed

from txqueue.errors import TransactionMisused
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.job import Token
from txqueue.model.work_item import WorkItem
from txqueue.model.workset_item import WorksetItem
from txqueue.store.driver.awaitables import awaitable
from txqueue.store.driver.connection import Connection
from txqueue.store.driver.errors import lost, translated
from txqueue.store.driver.shared_errors import ended_inside
from txqueue.store.enqueueing.awaited_calls import AwaitedCalls, awaited
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.calls import DirectDispatch, Query, batches, enqueue_call
from txqueue.store.enqueueing.portable_calls import Receiver, Signal, sent
from txqueue.store.enqueueing.worksets import fill
from txqueue.store.schema.files import checked_name
from txqueue.tracing.choice import sending

# An application runs few statements, with varying parameters: of so many, and so long ones, what
# they may do is remembered.
_MOST, _LONGEST = 256, 2000
# The begin of a statement in a text that may have several, after comments.
_BEGIN: Final = r"(?:\A|;)(?:\s|--[^\n]*\n|/\*.*?\*/)*"
_ENDS: Final = re.compile(
    _BEGIN
    + r"(?:(?:commit|end|abort|prepare\s+transaction)\b"
    + r"|rollback\b(?!\s+(?:(?:work|transaction)\s+)?to\b))",
    re.IGNORECASE | re.DOTALL,
)
_COPIES: Final = re.compile(
    _BEGIN + r"copy\b.*\b(?:from\s+stdin|to\s+stdout)\b", re.IGNORECASE | re.DOTALL
)
_CHANGES: Final = re.compile(
    _BEGIN
    + r"(?:set\s+(?!local\b|transaction\b|constraints\b)|(?:reset|discard|listen|load|declare)\b"
    + r"|prepare\s+(?!transaction\b)|create\s+temp(?!.*\bon\s+commit\s+drop\b))"
    + r"|\bset_config\s*\((?!.*,\s*true\s*\))|\bpg_(?:try_)?advisory_lock",
    re.IGNORECASE | re.DOTALL,
)


def may_end_transaction(sql: object) -> bool:
    """Tell whether a text may contain a statement that ends the transaction.

    Args:
        sql: The text, or what else psycopg2 accepts.

    Returns:
        True also for some texts that do not, such as one with ``; commit`` inside a string.
    """
    return _has(_ENDS, _text(sql))


def copies(sql: object) -> bool:
    """Tell whether a text may contain a COPY through the connection.

    Args:
        sql: The text, or what else psycopg2 accepts.
    """
    return _has(_COPIES, _text(sql))


def may_change_session(sql: object) -> bool:
    """Tell whether a text may change the session beyond its transaction.

    That is a setting, a temporary table, a prepared statement, a cursor or an advisory lock.

    Args:
        sql: The text, or what else psycopg2 accepts.

    Returns:
        True also for some texts that do not; false for a function of the application that does.
    """
    return _has(_CHANGES, _text(sql))


def _has(pattern: re.Pattern[str], text: str) -> bool:
    return (_has_often if len(text) <= _LONGEST else _searched)(pattern, text)


def _searched(pattern: re.Pattern[str], text: str) -> bool:
    return pattern.search(text) is not None


_has_often = lru_cache(3 * _MOST)(_searched)


def _text(sql: object) -> str:
    # The parts of a psycopg2.sql object are quoted strings in its repr().
    return sql if isinstance(sql, str) else re.sub("['\"]", ";", repr(sql))


_COALESCE_INTO: Final = """
    select taken_type, taken_payload from {schema}.coalesce_into(
        its_incarnation => %s, its_assignment => %s, its_job_id => %s, at_most => %s,
        later => %s)"""


@define(eq=False, repr=False, slots=False)
class Transaction:
    """A database transaction, made by `WorkQueue.transaction` or `RunningJob.transaction`.

    Args:
        connection: The connection that is inside the transaction.
        schema: The name of txqueue's schema.
        dispatch: Direct dispatch, if the process has joined a node.
        ends: The running job that the commit completes, if it does: its unique key is free then.
    """

    _connection: Connection
    _schema: str
    _dispatch: DirectDispatch | None = None
    _ends: int | None = None

    def __attrs_post_init__(self) -> None:
        self.unawaited = AwaitedCalls("txn", TransactionMisused)
        self._result: Any = None
        self._is_open = True
        self._is_busy = False
        self._was_ended_inside = False

    @property
    def result(self) -> Any:
        """What a job returns whose own transaction this is: set it before the end."""
        return self._result

    @result.setter
    def result(self, value: Any) -> None:
        if self._ends is None:
            raise TransactionMisused(
                "this transaction completes no job, which could have a result",
                "set it in job.transaction(); a step that is a transaction has a result of its own",
            )
        self._result = value

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self.end(is_failed=kind is not None)

    def end(self, *, is_failed: bool = False) -> None:
        """Refuse further use, as the connection returns to the pool.

        Args:
            is_failed: Whether the transaction is rolled back by an error.

        Raises:
            TransactionMisused: When a statement is still running, one has ended the transaction, or
                a call was not awaited.
        """
        self._is_open = False
        if not is_failed:
            self.unawaited.check()
        if self._was_ended_inside:
            raise ended_inside()
        if self._is_busy:
            raise TransactionMisused(
                "the transaction ended while a statement was running; it is rolled back",
                "await each call before the end of the transaction",
            )

    @awaited
    async def execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of the application.

        A statement that changes the session, such as ``set search_path``, acts until the end of
        the transaction: its connection is not used again.

        Args:
            sql: The statement, with ``%s`` for each parameter.
            parameters: The parameters' values.

        Returns:
            The rows; an empty list for a statement without a result.

        Raises:
            psycopg2.Error: When the statement fails; the driver's error is raised unchanged.
            DatabaseUnavailable: When the connection is lost.
            TransactionMisused: When the transaction has ended, another call is running, or the
                statement itself ended the transaction; all methods raise this. And for COPY from
                STDIN or to STDOUT.
        """
        self._check()
        if copies(sql):
            raise TransactionMisused(
                "COPY from STDIN or to STDOUT is not possible here: psycopg2 cannot copy through a"
                " connection that does not block",
                "pass the rows as one JSON parameter: insert into ... select * from"
                " json_populate_recordset(null::TABLE, %s); or copy on a connection of your own",
            )
        if self._dispatch is not None:
            self._dispatch.note_statement(sql)
        if may_change_session(sql):
            self._connection.is_reusable = False
        query = partial(self._connection.query, translate=lost)
        if may_end_transaction(sql):
            query = partial(self._guarded, query)
        rows = await self._alone(query, sql, parameters)
        if self._connection.is_idle:
            raise self._ended_inside()
        return rows

    async def _guarded(
        self, query: Query, sql: str, parameters: Sequence[object]
    ) -> list[tuple[Any, ...]]:
        """Run a statement; notice if it has ended the transaction, even if it began another."""
        await self._connection.query("savepoint txqueue_guard")
        rows = await query(sql, parameters)
        if not self._connection.is_idle:
            try:
                await query("release savepoint txqueue_guard", ())
            except InvalidSavepointSpecification:
                raise self._ended_inside() from None
        return rows

    def _ended_inside(self) -> TransactionMisused:
        self._is_open, self._was_ended_inside = False, True
        return ended_inside()

    @awaited
    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue work as part of this transaction.

        Args:
            work: An instance of an attrs subclass of `WorkItem`.
            options: ``queue, priority, weight, not_before, not_after, group, tenant, timeout,
                attempts, tags``.

        Returns:
            The job's number.

        Raises:
            InvalidWork: When the work or an option is not valid; nothing is written.
            Refused: When the database refuses the job; the transaction must be rolled back.
        """
        self._check()
        with sending(work, options) as call:
            job_id = await self._enqueue_one(work, call.options)
            call.enqueued(job_id)
        return job_id

    async def _enqueue_one(self, work: WorkItem, options: Mapping[str, Any]) -> int:
        if self._dispatch is not None:
            return await self._dispatch.enqueue(self._query_often, work, options)
        sql, parameters = enqueue_call(self._schema, work, options)
        return int((await self._enqueue_keyed(sql, parameters, sql))[0][0])

    async def _enqueue_keyed(
        self, sql: str, parameters: Sequence[object], text: str
    ) -> list[tuple[Any, ...]]:
        """Enqueue; if the text has a unique key, say which job gives up its key at the commit."""
        if self._ends is not None and '"unique"' in text:
            sql += " from set_config('txqueue.ending_job', %s, true)"
            parameters = (*parameters, str(self._ends))
        return await self._query_often(sql, parameters)

    @awaited
    async def signal(
        self,
        of: Receiver,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
    ) -> bool:
        """Send a signal to a job, as part of this transaction; see `RunningJob.wait_for`.

        Args:
            of: The number of the job, or its class and the unique key that it holds.
            name: The name of the signal.
            value: What `wait_for` returns, as JSON has it: plain data or an attrs object. It is
                encrypted if the job's type is and this process has the key.
            key: Makes the call idempotent: a second signal of this name and key changes nothing.

        Returns:
            Whether the signal is new.

        Raises:
            InvalidWork: When the name, the value or the key is not valid; nothing is sent.
            KeyUnavailable: When the value must be encrypted, and this process has no key.
            Refused: When the job has ended or there is none, or when its type is encrypted and the
                value is in clear; the transaction must be rolled back.
        """
        self._check()
        return await sent(Signal(of, name, value, key), self._schema, self._query_often)

    @awaited
    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many work items, a thousand per round trip; return the job numbers in order."""
        return await self._enqueue_many(works, options, self._enqueue_text)

    async def _enqueue_many(
        self,
        works: Iterable[WorkItem],
        options: Mapping[str, Any],
        store: Callable[[str], Coroutine[Any, Any, list[int]]],
    ) -> list[int]:
        self._check()
        if self._dispatch is not None:
            self._dispatch.note_others()
        remaining = iter(works)
        first = next(remaining, None)
        if first is None:
            return []
        with sending(first, options) as call:
            ids = await self._enqueue_texts(
                batches(call.watch(chain([first], remaining)), call.options), store
            )
            call.enqueued(*ids)
        return ids

    async def _enqueue_texts(
        self, texts: Iterator[str], store: Callable[[str], Coroutine[Any, Any, list[int]]]
    ) -> list[int]:
        ids: list[int] = []
        storing: Deferred[list[int]] = succeed([])
        while True:
            # The client encodes the next thousand while the database stores the previous one.
            try:
                text = next(texts, None)
            finally:
                stored: list[int] = await awaitable(storing)
                ids += stored
            if text is None:
                return ids
            storing = Deferred.fromCoroutine(store(text))

    @awaited
    async def fill(self, cls: type[WorksetItem], items: Iterable[WorksetItem]) -> int:
        """Put items into a workset as part of this transaction.

        Args:
            cls: The class of the items.
            items: Any number of instances of the class, sent some thousand at a time.

        Returns:
            How many items were added.

        Raises:
            InvalidWork: When an item is not an instance of the class, or not valid.
            QueueFull: When the workset has reached its ``bound``.
        """
        self._check()
        if self._dispatch is not None:
            self._dispatch.note_others()
        return await fill(self._query, self._schema, cls, items)

    @asynccontextmanager
    async def batch(
        self, callback: WorkItem, **options: Unpack[EnqueueOptions]
    ) -> AsyncIterator[Batch]:
        """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

        Args:
            callback: The work item to run once all jobs have ended; it has no unique key,
                and its handler reads from ``job.parents`` how each ended.
            options: Options of the callback, as for `enqueue`.

        Returns:
            An asynchronous context manager whose value is a `Batch`.
        """
        batch = Batch(self)
        yield batch
        batch.end()
        options |= {"after": batch.ids, "after_any_end": True}
        batch.callback_id = await self.enqueue(callback, **options)

    async def coalesce_into(
        self, token: Token, job_id: int, limit: int, *, later: bool = False
    ) -> list[tuple[str, str]]:
        """End similar pending jobs together with a running one, for `RunningJob.coalesce`.

        Args:
            token: The fencing token of the running job.
            job_id: The running job's number.
            limit: The largest number of pending jobs.
            later: Whether to include jobs that wait for their ``not_before``.

        Returns:
            The work type and payload of each pending job, the payload as JSON text.
        """
        self._check()
        return await self._query(
            _COALESCE_INTO.format(schema=self._schema),
            (token.incarnation, token.assignment, job_id, limit, later),
        )

    async def _enqueue_text(self, text: str) -> list[int]:
        rows = await self._enqueue_keyed(
            f"select {self._schema}.enqueue_checked(cast(%s as jsonb))", (text,), text
        )
        return list(rows[0][0])

    async def _enqueue_text_alone(self, text: str) -> list[int]:
        sql = f"select {self._schema}.enqueue_checked(cast(%s as jsonb))"
        rows = await self._alone(self._connection.query_alone, sql, (text,))
        return list(rows[0][0])

    def _check(self) -> None:
        if not self._is_open:
            raise TransactionMisused(
                "the transaction has ended and takes no more statements",
                "use it only inside its async with block, and await each call there",
            )
        if self._is_busy:
            raise TransactionMisused(
                "another call of this transaction is running, and it has one connection",
                "await one call before the next, or use enqueue_many",
            )

    async def _query(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        return await self._alone(self._connection.query, sql, parameters)

    async def _query_often(self, sql: str, parameters: Sequence[object]) -> list[tuple[Any, ...]]:
        return await self._alone(self._connection.query_often, sql, parameters)

    async def _alone(
        self, query: Query, sql: str, parameters: Sequence[object]
    ) -> list[tuple[Any, ...]]:
        self._check()
        self._is_busy = True
        try:
            return await query(sql, parameters)
        finally:
            self._is_busy = False


async def enqueue_alone(
    txn: Transaction, works: Sequence[WorkItem], options: Mapping[str, Any]
) -> list[int]:
    """Enqueue up to a thousand work items, which is all that a transaction does.

    Args:
        txn: The transaction, which has run no statement.
        works: The work items.
        options: As for `Transaction.enqueue`.
    """
    return await txn._enqueue_many(works, options, txn._enqueue_text_alone)


async def enqueue(
    cursor: Any, work: WorkItem, *, schema: str = "txqueue", **options: Unpack[EnqueueOptions]
) -> int:
    """Enqueue work inside an existing txpostgres ``runInteraction``.

    Args:
        cursor: The cursor that txpostgres passed to the interaction.
        work: An instance of an attrs subclass of `WorkItem`.
        schema: The name of txqueue's schema.
        options: As for `Transaction.enqueue`.

    Returns:
        The job's number. This is a coroutine function; in a plain callback wrap its result with
        ``Deferred.fromCoroutine``.

    Raises:
        InvalidWork: When the work or an option is not valid; nothing is written.
        Refused: When the database refuses the job.
    """
    with sending(work, options) as call, translated():
        await cursor.execute(*enqueue_call(checked_name(schema), work, call.options))
        job_id = int(cursor.fetchone()[0])
        call.enqueued(job_id)
    return job_id

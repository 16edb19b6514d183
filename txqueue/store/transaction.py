"""A database transaction in which an application writes its rows and enqueues its work."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Unpack

from twisted.internet.defer import Deferred, succeed

from txqueue.errors import TransactionMisused
from txqueue.model.job import Token
from txqueue.model.work_item import WorkItem
from txqueue.model.workset_item import WorksetItem
from txqueue.store.batches import Batch
from txqueue.store.connection import Connection, ended_inside
from txqueue.store.direct_dispatch import Query, Trip
from txqueue.store.enqueueing import EnqueueOptions, batches, enqueue_call
from txqueue.store.errors import lost, translated
from txqueue.store.schema_files import checked_name
from txqueue.store.worksets import fill

__all__ = ["Transaction", "enqueue"]


class Transaction:
    """One transaction; `WorkQueue.transaction` and `RunningJob.transaction` make it.

    Args:
        connection: The connection that is inside the transaction.
        schema: The name of txqueue's schema.
        trip: Direct dispatch, of a process that has joined a node.
    """

    def __init__(self, connection: Connection, schema: str, trip: Trip | None = None) -> None:
        self._connection = connection
        self._schema = schema
        self._trip = trip
        self._is_open = True
        self._is_busy = False

    def end(self) -> None:
        """Refuse every use from now on: the connection is lent to others next.

        Raises:
            TransactionMisused: When a statement is still under way.
        """
        self._is_open = False
        if self._is_busy:
            raise TransactionMisused(
                "the transaction ends while a statement of it is under way; it is rolled back",
                "await each call before the end of the transaction",
            )

    async def execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """Run one statement of the application.

        Args:
            sql: The statement, with ``%s`` for each parameter.
            parameters: Their values.

        Returns:
            The rows, an empty list for a statement that has none.

        Raises:
            psycopg2.Error: When the statement fails: that of the driver, as it is.
            DatabaseUnavailable: When the connection is lost.
            TransactionMisused: When the transaction has ended, another call is under way, or the
                statement itself ended the transaction. So do all methods.
        """
        self._check()
        if self._trip is not None:
            self._trip.note_statement(sql)
        rows = await self._alone(partial(self._connection.query, translate=lost), sql, parameters)
        if self._connection.is_idle:
            self._is_open = False
            raise ended_inside()
        return rows

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue work as part of this transaction.

        Args:
            work: An instance of an attrs subclass of `WorkItem`.
            options: ``queue, priority, weight, not_before, not_after, group, tenant, timeout,
                attempts``.

        Returns:
            The job's number.

        Raises:
            InvalidWork: When the work or an option is not valid; nothing is written.
            Refused: When the database refuses it; the transaction cannot go on.
        """
        self._check()
        if self._trip is not None:
            return await self._trip.enqueue(self._query_often, work, options)
        sql, parameters = enqueue_call(self._schema, work, options)
        return int((await self._query_often(sql, parameters))[0][0])

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many, a round trip for each thousand; returns their numbers in order."""
        self._check()
        if self._trip is not None:
            self._trip.note_others()
        ids: list[int] = []
        sending: Deferred[list[int]] = succeed([])
        texts = batches(works, options)
        while True:
            # The next thousand is made while the database takes the last.
            try:
                text = next(texts, None)
            finally:
                ids += await sending
            if text is None:
                return ids
            sending = Deferred.fromCoroutine(self._enqueue_text(text))

    async def fill(self, cls: type[WorksetItem], items: Iterable[WorksetItem]) -> int:
        """Put items into a workset as part of this transaction.

        Args:
            cls: The class of the items.
            items: Instances of it; any number, they are sent some thousand at a time.

        Returns:
            How many they were.

        Raises:
            InvalidWork: When an item is not of that class, or does not fit it.
            QueueFull: When so many items remain in the workset as its ``bound`` allows.
        """
        self._check()
        if self._trip is not None:
            self._trip.note_others()
        return await fill(self._query, self._schema, cls, items)

    @asynccontextmanager
    async def batch(
        self, callback: WorkItem, **options: Unpack[EnqueueOptions]
    ) -> AsyncIterator[Batch]:
        """Put a batch together; its callback runs when all of its jobs have ended, in any way.

        Args:
            callback: The work to be done then; its handler finds in ``job.parents`` how they ended.
            options: As for `enqueue`, for the callback.

        Returns:
            An asynchronous context manager that gives a `Batch`.
        """
        batch = Batch(self)
        yield batch
        batch.end()
        options |= {"after": batch.ids, "after_any_end": True}
        batch.callback_id = await self.enqueue(callback, **options)

    async def take_along(
        self, token: Token, job_id: int, limit: int, *, later: bool = False
    ) -> list[tuple[str, str]]:
        """What `RunningJob.coalesce` calls: end pending jobs like a running one with it.

        Returns:
            The work type and the payload's JSON text of each.
        """
        self._check()
        return await self._query(
            "select taken_type, taken_payload"
            f" from {self._schema}.coalesce_into(%s, %s, %s, %s, %s)",
            (token.incarnation, token.assignment, job_id, limit, later),
        )

    async def _enqueue_text(self, text: str) -> list[int]:
        rows = await self._query_often(f"select {self._schema}.enqueue_many(%s)", (text,))
        return list(rows[0][0])

    def _check(self) -> None:
        if not self._is_open:
            raise TransactionMisused(
                "the transaction has ended: nothing more can be part of it",
                "use it inside its async with block only, and await what uses it there",
            )
        if self._is_busy:
            raise TransactionMisused(
                "another call of this transaction is under way: it has one connection",
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


async def enqueue(
    cursor: Any, work: WorkItem, *, schema: str = "txqueue", **options: Unpack[EnqueueOptions]
) -> int:
    """Enqueue work inside an existing txpostgres ``runInteraction``.

    Args:
        cursor: The cursor that the interaction was given.
        work: An instance of an attrs subclass of `WorkItem`.
        schema: The name of txqueue's schema.
        options: As for `Transaction.enqueue`.

    Returns:
        The job's number. This is a coroutine; in a plain callback wrap it with
        ``Deferred.fromCoroutine``.

    Raises:
        InvalidWork: When the work or an option is not valid; nothing is written.
        Refused: When the database refuses it.
    """
    sql, parameters = enqueue_call(checked_name(schema), work, options)
    with translated():
        await cursor.execute(sql, parameters)
        return int(cursor.fetchone()[0])

"""A transaction of a program that blocks: its rows, and the work that it enqueues."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Unpack

from psycopg import Connection, Cursor

from txqueue.adapters import psycopg as adapter
from txqueue.adapters.batches import BlockingBatch
from txqueue.errors import TransactionMisused
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.standalone.sessions import answered, check_end, check_process, lost, part_after_fork

__all__ = ["BlockingTransaction"]


class BlockingTransaction:
    """A database transaction, made by `Queue.transaction`.

    Args:
        connection: The connection that is inside the transaction.
        schema: The name of txqueue's schema.
    """

    def __init__(self, connection: Connection[Any], schema: str) -> None:
        self._connection = connection
        self._schema = schema
        self._pid = os.getpid()
        self._is_open = True

    @property
    def connection(self) -> Connection[Any]:
        """The connection of psycopg, for all else that it can do, such as cursors and COPY.

        Raises:
            TransactionMisused: When the transaction has ended.
            ConfigurationError: When this process is a fork of the one that began it.
        """
        check_process(self._pid)
        if not self._is_open:
            raise TransactionMisused(
                "the transaction has ended and takes no more statements",
                "use it only inside its with block",
            )
        return self._connection

    def execute(self, query: Any, parameters: Any = None) -> Cursor[Any]:
        """Run one statement of the application, as `Connection.execute` of psycopg does.

        Args:
            query: The statement, with ``%s`` for each parameter.
            parameters: The parameters' values.

        Returns:
            The cursor, which has the rows.

        Raises:
            psycopg.Error: When the statement fails; the driver's error is raised unchanged.
            DatabaseUnavailable: When the connection is lost.
        """
        with lost():
            return self.connection.execute(query, parameters)

    def enqueue(
        self, work: WorkItem, *, savepoint: bool = False, **options: Unpack[EnqueueOptions]
    ) -> int:
        """Enqueue work as part of this transaction, and return the job's number.

        Args:
            work: An instance of an attrs subclass of `WorkItem`.
            savepoint: Whether a refusal leaves the transaction usable, for two more statements.
            options: The options of the job.

        Raises:
            InvalidWork: When the work or an option is not valid; nothing is sent.
            Refused: When the database refuses the job; the transaction must be rolled back, unless
                there is a savepoint.
        """
        with answered():
            return adapter.enqueue(
                self.connection, work, schema=self._schema, savepoint=savepoint, **options
            )

    def enqueue_many(
        self,
        works: Iterable[WorkItem],
        *,
        savepoint: bool = False,
        **options: Unpack[EnqueueOptions],
    ) -> list[int]:
        """Enqueue many work items, all or none, a thousand per statement; see `enqueue`.

        Returns:
            The numbers of the jobs, in order.
        """
        with answered():
            return adapter.enqueue_many(
                self.connection, works, schema=self._schema, savepoint=savepoint, **options
            )

    def batch(
        self, callback: WorkItem, **options: Unpack[EnqueueOptions]
    ) -> AbstractContextManager[BlockingBatch]:
        """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

        Args:
            callback: The work item to run once all jobs have ended.
            options: Options of the callback, as for `enqueue`.
        """
        return adapter.batch(self.connection, callback, schema=self._schema, **options)

    def end(self) -> None:
        """Refuse further use; leave the session to the parent process after a fork."""
        self._is_open = False
        part_after_fork(self._connection, self._pid)

    def check(self) -> None:
        """Check, at its end, that the transaction can be committed.

        Raises:
            Refused: When a statement has failed, and its error was swallowed.
            TransactionMisused: When a statement has ended the transaction.
            ConfigurationError: When this process is a fork of the one that began it.
        """
        check_process(self._pid)
        check_end(self._connection)

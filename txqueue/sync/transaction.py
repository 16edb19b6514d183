# Generated from txqueue/aio/transaction.py by docs/build_sync.py: edit that.
"""A transaction of a program that blocks: its rows, and the work that it enqueues."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import Any, Unpack

from psycopg import Connection, Cursor

from txqueue.adapters import psycopg as adapter
from txqueue.adapters.calls import BlockingBatch
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.work_item import WorkItem
from txqueue.standalone.sessions import answered, lost
from txqueue.standalone.transactions import StandaloneTransaction
from txqueue.store.enqueueing.portable_calls import Receiver


class BlockingTransaction(StandaloneTransaction[Connection[Any]]):
    """A database transaction, made by `Queue.transaction`.

    Args:
        connection: The connection that is inside the transaction.
        schema: The name of txqueue's schema.
    """

    @property
    def connection(self) -> Connection[Any]:
        """The connection of psycopg, for all else that it can do, such as cursors and COPY.

        Raises:
            TransactionMisused: When the transaction has ended.
            ConfigurationError: When this process is a fork of the one that began it.
        """
        return self._usable()

    def execute(self, query: Any, parameters: Any = None) -> Cursor[Any]:
        """Run one statement of the application, as `Connection.execute` of psycopg does.

        Args:
            query: The statement, with ``%s`` for each parameter.
            parameters: The parameters' values.

        Returns:
            The cursor, which has the rows.

        Raises:
            psycopg.Error: When the statement fails; the driver's error is raised unchanged.
            DatabaseUnavailable: When the connection is lost, or the server accepts no writes.
        """
        connection = self.connection
        with lost(connection):
            return connection.execute(query, parameters)

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

    def signal(
        self,
        of: Receiver,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
        savepoint: bool = False,
    ) -> bool:
        """Send a signal to a job with steps, as part of this transaction.

        Args:
            of: The number of the job, or its class and the unique key that it holds.
            name: The name of the signal.
            value: What `wait_for` returns, as JSON has it: plain data or an attrs object. It is
                encrypted if the job's type is and this process has the key.
            key: Makes the call idempotent: a second signal of this name and key changes nothing.
            savepoint: Whether a refusal leaves the transaction usable, for two more statements.

        Returns:
            Whether the signal is new.

        Raises:
            InvalidWork: When the name, the value or the key is not valid; nothing is sent.
            KeyUnavailable: When the value must be encrypted, and this process has no key.
            Refused: When the job has ended or there is none, or when its type is encrypted and the
                value is in clear.
        """
        with answered():
            return adapter.signal(
                self.connection,
                of,
                name,
                value,
                key=key,
                schema=self._schema,
                savepoint=savepoint,
            )

    def batch(
        self, callback: WorkItem, **options: Unpack[EnqueueOptions]
    ) -> AbstractContextManager[BlockingBatch]:
        """Collect a batch of jobs; its callback runs once all of them have ended, in any way.

        Args:
            callback: The work item to run once all jobs have ended; it has no unique key.
            options: Options of the callback, as for `enqueue`.
        """
        return adapter.batch(self.connection, callback, schema=self._schema, **options)

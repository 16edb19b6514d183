"""`Queue`: the queue for programs that run asyncio."""

from __future__ import annotations

import time
from asyncio import Semaphore
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import dict_row

from txqueue.adapters import psycopg as adapter
from txqueue.aio.environment import (
    AsyncEndWaiter,
    AsyncHome,
    acquired,
    aside,
    ended_in_time,
    to_the_end,
)
from txqueue.aio.transaction import AsyncTransaction
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.job import Job, job_number, wait_limit
from txqueue.model.operator_acts import Cancelled
from txqueue.model.work_item import WorkItem
from txqueue.standalone.requests import Call, Target, cancelled, retried, target_of
from txqueue.standalone.sessions import (
    IdleConnections,
    answered,
    connecting,
    lending,
    read_all_moments,
)
from txqueue.standalone.transactions import IS_IN_TRANSACTION
from txqueue.store.driver.shared_errors import none_free
from txqueue.store.enqueueing.encryption import missing, result_of
from txqueue.store.enqueueing.portable_calls import Receiver
from txqueue.store.inquiries.inquiry import Inquiry, Rows, aanswer, ensure_version
from txqueue.store.inquiries.jobs import (
    about_archived_days,
    about_one_job,
    archived_job,
    read_archived,
    with_attempts,
)

if TYPE_CHECKING:
    from psycopg_pool import AsyncConnectionPool

T = TypeVar("T")


class AsyncConnections(IdleConnections[AsyncConnection[Any]]):
    """A few connections, opened when first needed, and replaced when they are lost.

    Args:
        target: Where to connect, and how long a caller waits while all connections are in use.
    """

    def __init__(self, target: Target) -> None:
        super().__init__()
        self._target = target
        self._turn = Semaphore(target.connections)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Lend a connection; callers beyond the size wait for one.

        Raises:
            DatabaseUnavailable: When no connection can be made, or they are closed.
        """
        if not await acquired(self._turn, self._target.connection_wait):
            raise none_free(self._target.connection_wait, self._target.connections)
        try:
            connection, opened_at = self.take() or await self._opened()
            try:
                yield connection
            finally:
                self.put_back(connection, opened_at)
        finally:
            self._turn.release()

    async def _opened(self) -> tuple[AsyncConnection[Any], float]:
        with connecting(self._target.dsn, "txqueue client") as parameters:
            return await AsyncConnection.connect(**parameters), time.monotonic()


class Queue:
    """Enqueues work, reads jobs and waits for them; made by `connect`, for one event loop.

    In another one, or after a fork, its methods raise `ConfigurationError`.

    Args:
        pool: Lends the connections.
        target: The schema's name, and the database whose notifications announce the ends of jobs.
    """

    def __init__(self, pool: AsyncConnections | AsyncConnectionPool[Any], target: Target) -> None:
        self._pool = pool
        self._home = AsyncHome()
        self._schema = target.schema
        self._waiter = AsyncEndWaiter(self._call, target)

    @classmethod
    async def connect(
        cls,
        dsn: str | None = None,
        *,
        listen_dsn: str | None = None,
        pool: AsyncConnectionPool[Any] | None = None,
        schema: str | None = None,
        connections: int = 4,
        connection_wait: float | None = None,
    ) -> Self:
        """Connect to the database.

        Args:
            dsn: A libpq URI or keyword string. The default is the first of ``TXQUEUE_DSN``, the
                configuration file, and libpq's ``PG*`` variables.
            listen_dsn: The same database without a pooler in transaction mode, which drops
                notifications: `wait` listens there for the ends of jobs. The default is ``dsn``, or
                where the given pool connects.
            pool: An open pool of psycopg_pool, to use its connections; the queue does not close it.
            schema: The name of txqueue's schema; ``txqueue`` unless configured.
            connections: The largest number of connections without a pool; each is opened when first
                needed. One more listens while callers wait.
            connection_wait: Seconds that a call waits for a connection while all are in use. The
                default is ``TXQUEUE_CONNECTION_WAIT`` or the configuration file, else 30. A
                given pool has a timeout of its own.

        Returns:
            A queue ready for use, which is also an asynchronous context manager that closes it.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            SchemaMismatch: When its schema is missing, older or newer than this code needs.
            NotPermitted: When the role may not use the schema.
            ConfigurationError: When the DSN or a setting is not valid.
        """
        given: dict[str, Any] = {"dsn": dsn, "schema": schema, "connections": connections}
        given["connection_wait"] = connection_wait
        target = await aside(target_of, given, listen_dsn, pool, "AsyncConnectionPool")
        queue = cls(AsyncConnections(target) if pool is None else pool, target)
        try:
            await queue._find(ensure_version(target.schema))
        except BaseException:
            await queue.close()
            raise
        return queue

    async def __aenter__(self) -> Self:
        """Return the queue."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the queue."""
        await self.close()

    async def close(self) -> None:
        """Close the connections; callers that still wait get `DatabaseUnavailable`.

        After a fork there is nothing to close: the connections are those of the parent process.
        """
        if self._home.is_left:
            return
        if not self._home.is_over:
            self._home.check()
        await to_the_end(self._close)

    async def _close(self) -> None:
        if not self._home.is_over:
            await self._waiter.close()
        if isinstance(self._pool, AsyncConnections):
            self._pool.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncTransaction]:
        """Open a database transaction, committed at the end of the block, rolled back on an error.

        Returns:
            An asynchronous context manager whose value is an `AsyncTransaction`.

        Raises:
            Refused: At the end of the block, when a statement failed and the application
                swallowed its error: the server has rolled the transaction back.
        """
        raised: list[BaseException] = []
        async with self._lent(raised) as connection, connection.transaction():
            txn = AsyncTransaction(connection, self._schema)
            with txn.inside(raised):
                yield txn

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue work in a transaction of its own, and return the job's number.

        Args:
            work: An instance of an attrs subclass of `WorkItem`.
            options: The options of the job.

        Raises:
            InvalidWork: When the work or an option is not valid; nothing is sent.
            Refused: When the database refuses the job.
            DatabaseUnavailable: When the database is away. If its answer was lost, the job may
                exist: give it a unique key to enqueue it again without a doubt.
        """
        async with self._lent() as connection:
            return await adapter.aenqueue(connection, work, schema=self._schema, **options)

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many work items, all or none, with one round trip for each thousand.

        Returns:
            The jobs' numbers, in the order of the work items.
        """
        async with self._lent() as connection:
            return await adapter.aenqueue_many(connection, works, schema=self._schema, **options)

    async def signal(
        self,
        of: Receiver,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
    ) -> bool:
        """Send a signal to a job with steps, in a transaction of its own.

        See `AsyncTransaction.signal`. With a key, the call may be repeated after a lost answer.
        """
        async with self._lent() as connection:
            return await adapter.asignal(connection, of, name, value, key=key, schema=self._schema)

    async def job(self, job_id: int) -> Job:
        """Return a job's current state, with its failed attempts; an archived job's last state.

        The database user needs the role ``txqueue_read``, or must own the schema.

        Raises:
            ArchiveUnavailable: When the job is archived, and the archive cannot be read.
            JobNotFound: When no job has that number.
            InvalidWork: When it is no number of a job.
        """
        number = job_number(job_id)
        if (job := await self._find(about_one_job(self._schema, number))) is not None:
            return job
        if (job := await self._archived(number)) is None:
            raise missing(number, is_in_transaction=IS_IN_TRANSACTION.get())
        return await self._find(with_attempts(self._schema, job)) if job.attempt else job

    async def wait(self, job_id: int, timeout: float | timedelta | None = None) -> object:
        """Wait until a job has ended.

        All callers of a queue share one connection, on which nodes announce the ends of
        jobs within milliseconds; other ends are found within two seconds. If the database is away
        for a while, the wait goes on.

        Args:
            job_id: The job's number.
            timeout: How long to wait at most, in seconds or as a timedelta; None for no limit.

        Returns:
            The value that the job's handler returned, as JSON has it: check its type, or cast it.

        Raises:
            JobFailed: When the job failed or was cancelled.
            JobNotFound: When no job has that number, also if its transaction has not committed yet.
            InvalidWork: When it is no number of a job, or the timeout no length of time.
            WaitTimeout: When the job did not end in time; the job continues.
            DatabaseUnavailable: When the database is away as the wait begins, or the queue was
                closed during the wait.
            ArchiveUnavailable: When the job is archived, and the archive cannot be read.
            KeyUnavailable: When the result is encrypted, and this process cannot decrypt it.
        """
        number, most = job_number(job_id), wait_limit(timeout)
        self._home.check()
        with self._waiter.waiting(number) as ending:
            job = await self._waiter.read(number, most) or await self.job(number)
            if not job.state.is_final:
                self._waiter.look_on()
                ended = await ended_in_time(ending, number, most)
                job = ended or await self.job(number)
        return result_of(job)

    async def cancel(self, *job_ids: int) -> Cancelled:
        """Cancel jobs: pending ones at once; a node ends a running one at its next heartbeat.

        `Admin.cancel` also ends those at once that the node runs to which it is connected. The
        database user needs the role ``txqueue_worker``, or must own the schema.

        Raises:
            InvalidWork: When one is no number of a job.
            NotPermitted: When the role may not do this.
        """
        return await self._find(cancelled(self._schema, job_ids))

    async def retry(self, *job_ids: int) -> tuple[list[int], list[int]]:
        """Retry failed and cancelled jobs, and run those now that wait for a time.

        The database user needs the role ``txqueue_worker``, or must own the schema.

        Returns:
            The numbers of the retried and of the refused jobs.

        Raises:
            InvalidWork: When one is no number of a job.
            NotPermitted: When the role may not do this.
        """
        return await self._find(retried(self._schema, job_ids))

    async def _archived(self, job_id: int) -> Job | None:
        days = await self._find(about_archived_days(self._schema, job_id))
        if not days:
            return None
        return archived_job(await aside(read_archived, days, job_id))

    async def _find(self, inquiry: Inquiry[T]) -> T:
        return await aanswer(inquiry, self._call)

    @asynccontextmanager
    async def _lent(
        self, raised: Sequence[BaseException] = ()
    ) -> AsyncIterator[AsyncConnection[Any]]:
        self._home.check()
        with answered(raised):
            async with self._pool.connection() as connection:
                with lending(connection):
                    yield connection

    async def _call(self, call: Call) -> Rows:
        async with (
            self._lent() as connection,
            AsyncCursor(connection, row_factory=dict_row) as cursor,
        ):
            read_all_moments(cursor)
            await cursor.execute(call.sql.encode(), call.parameters or None)
            rows: Rows = await cursor.fetchall()
            return rows

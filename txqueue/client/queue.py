"""The queue as application code sees it."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast

from attrs import evolve
from twisted.internet.defer import CancelledError, TimeoutError, maybeDeferred

from txqueue.client.node_link import Membership, joinable
from txqueue.client.notifications import Hearing
from txqueue.client.waiting import Waiting
from txqueue.errors import DatabaseUnavailable, JobFailed, JobNotFound, WaitTimeout
from txqueue.model.job import Job, State
from txqueue.model.schedule import Exists, Schedule
from txqueue.model.work_item import WorkItem
from txqueue.model.workset_item import WorksetItem, WorksetStatus
from txqueue.store.batches import Batch
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.direct_dispatch import Trip
from txqueue.store.encryption import opened_result
from txqueue.store.enqueueing import EnqueueOptions, enqueue_call
from txqueue.store.functions import StoredFunctions
from txqueue.store.jobs import read_attempts, read_jobs
from txqueue.store.schedules import Schedules, job_of
from txqueue.store.schema_files import checked_name
from txqueue.store.schema_version import ensure_version
from txqueue.store.transaction import Transaction
from txqueue.store.worksets import Worksets
from txqueue.system.settings import Settings
from txqueue.wire.endpoints import Endpoint, parsed_endpoint

__all__ = ["WorkQueue"]

P = ParamSpec("P")
T = TypeVar("T")
FINAL = [state for state in State if state.is_final]


class WorkQueue:
    """Enqueues work and asks after jobs; made by `connect`.

    Args:
        pool: Its connections.
        schema: The name of txqueue's schema.
        reactor: Times the waits.
        membership: The node that this process joins, if any.
        dsn: Where to listen for jobs' ends; None to poll only.

    Attributes:
        membership: The node that this process joins; None if it was told of none.
        schedules: The queue's recurring work, by names: to pause, resume, remove, run now, look at.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        schema: str,
        reactor: Any,
        membership: Membership | None = None,
        dsn: str | None = None,
    ) -> None:
        self._pool = pool
        self.membership = membership
        self._schema = checked_name(schema)
        self._reactor = reactor
        self._worksets = Worksets(pool, self._schema)
        self.schedules = Schedules(pool, self._schema)
        self._hearing = Hearing(reactor, dsn, pool, self._schema)
        self._waiting = Waiting(reactor, self._ended_of, self._hearing.needed)
        self._hearing.heard = self._waiting.heard
        self._is_closed = False

    @classmethod
    async def connect(
        cls,
        dsn: str | None = None,
        *,
        node: str | None = None,
        schema: str | None = None,
        connections: int = 4,
        reactor: Any = None,
    ) -> WorkQueue:
        """Connect to the database.

        Args:
            dsn: A libpq URI or keyword string; by default ``TXQUEUE_DSN``, the configuration file,
                or libpq's own ``PG*`` variables, in this order.
            node: The admin endpoint of a node of this host to join, ``unix:PATH``, or ``auto`` for
                where a node of this host listens by default: jobs then start sooner. By default
                ``TXQUEUE_NODE`` or the configuration file, else none; an empty text means none.
                That it is away, now or later, is no error.
            schema: The name of txqueue's schema; ``txqueue`` unless configured.
            connections: At most so many connections, opened when needed.
            reactor: The running reactor by default.

        Returns:
            A queue ready for use.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            SchemaMismatch: When its schema is missing, older or newer than this code needs.
            ConfigurationError: When the node's endpoint is not a unix socket.
        """
        if reactor is None:
            from twisted.internet import reactor as running

            reactor = running
        given = {"dsn": dsn, "schema": schema, "node": node}
        settings = Settings(given, os.environ, Path.cwd())
        name = checked_name(settings.get("schema", "txqueue"))
        endpoint = _node_of(settings)
        pool = ConnectionPool(reactor, settings.dsn(), connections, "txqueue client")
        try:
            await ensure_version(pool, name)
            membership = await _joined(reactor, pool, name, endpoint)
        except BaseException:
            pool.close()
            raise
        return cls(pool, name, reactor, membership, settings.dsn())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open one database transaction: committed at the end, rolled back on an error.

        Returns:
            An asynchronous context manager that gives a `Transaction`.

        Raises:
            Refused: At its end, when a statement in it had failed and its error was swallowed:
                the server has rolled it back.
        """
        async with self._trip() as trip, self._pool.transaction() as connection:
            txn = Transaction(connection, self._schema, trip)
            try:
                yield txn
            finally:
                txn.end()

    async def run_interaction(
        self,
        function: Callable[Concatenate[Transaction, P], Any],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Any:
        """Run a function inside one transaction, in the manner of adbapi.

        Args:
            function: Called with a `Transaction` and the arguments; plain, ``async`` or returning a
                Deferred.

        Returns:
            What the function returns.
        """
        async with self.transaction() as txn:
            value = maybeDeferred(cast(Any, function), txn, *args, **kwargs)
            return await value

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue work in a transaction of its own; see `Transaction.enqueue`."""
        if self.membership is None:
            rows = await self._pool.query_often(*enqueue_call(self._schema, work, options))
            return int(rows[0][0])
        async with self._trip() as trip:
            # What waits for a connection keeps no credit from what has one.
            assert trip is not None
            return await self._pool.lend(
                lambda connection: trip.enqueue(connection.query_often, work, options)
            )

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many in one transaction, a round trip for each thousand.

        Returns:
            The jobs' numbers, in the order of the works.
        """
        async with self.transaction() as txn:
            return await txn.enqueue_many(works, **options)

    async def fill(self, cls: type[WorksetItem], items: Iterable[WorksetItem]) -> int:
        """Put items into a workset in one transaction; see `Transaction.fill`."""
        async with self.transaction() as txn:
            return await txn.fill(cls, items)

    async def start_workset(self, cls: type[WorksetItem]) -> int:
        """Have a workset worked through, now and whenever it is filled.

        Of an application's table that has been worked through, it begins anew.

        Returns:
            How many jobs were enqueued; 0 if there are enough.
        """
        return await self._worksets.start(cls)

    async def workset(self, cls: type[WorksetItem]) -> WorksetStatus:
        """Return how far a workset is.

        Raises:
            JobNotFound: When it was never filled or started.
        """
        return await self._worksets.status(cls)

    async def retry_workset(self, cls: type[WorksetItem]) -> int:
        """Have the failed items of a workset tried again; returns how many they are."""
        return await self._worksets.retry(cls)

    async def schedule(
        self,
        name: str,
        work: WorkItem,
        when: Schedule,
        *,
        only_if: Exists | None = None,
        **options: Unpack[EnqueueOptions],
    ) -> bool:
        """Have work enqueued again and again; one of that name is changed.

        It needs the role ``txqueue_worker``, or the schema's owner.

        Args:
            name: Names the schedule; 1 to 200 characters.
            work: What is enqueued each time.
            when: An `Every`, a `Cron` or a `Cooldown`.
            only_if: Moments at which this row is not there are left out.
            options: As for `Transaction.enqueue`, without ``not_before`` and ``not_after``.

        Returns:
            Whether anything changed.

        Raises:
            InvalidWork: When the work or an option is not valid.
            Refused: When the database refuses it.
        """
        return await self.schedules.put(name, job_of(work, options), when, only_if)

    @asynccontextmanager
    async def batch(
        self, callback: WorkItem, **options: Unpack[EnqueueOptions]
    ) -> AsyncIterator[Batch]:
        """Put a batch together in a transaction of its own; see `Transaction.batch`."""
        async with self.transaction() as txn, txn.batch(callback, **options) as batch:
            yield batch

    async def repeat(self, job_id: int) -> int:
        """Enqueue a job that has ended once more, as a new one with the same payload and policy.

        Returns:
            The new job's number; that of another if it has the same unique key.

        Raises:
            Refused: When it has not ended, or there is none of that number.
        """
        rows = await self._pool.query(f"select {self._schema}.repeat(%s, '')", (job_id,))
        return int(rows[0][0])

    async def job(self, job_id: int) -> Job:
        """Return a job as it is now, with its failed attempts.

        Raises:
            JobNotFound: When there is none of that number.
        """
        for job in await read_jobs(self._pool, self._schema, [job_id]):
            return await self._with_attempts(job)
        raise JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")

    async def wait(self, job_id: int, timeout: float | None = None) -> Any:
        """Wait until a job has ended: an end by a node is told at once, another is found by asking.

        Args:
            job_id: The job's number.
            timeout: Seconds to wait at most; None for no limit.

        Returns:
            What its handler returned.

        Raises:
            JobFailed: When it failed or was cancelled.
            JobNotFound: When there is no such job.
            WaitTimeout: When it did not end in time; the job itself goes on.
            CancelledError: When the wait was cancelled; so does the job.
            DatabaseUnavailable: When the database is away, or the queue was closed meanwhile.
            KeyUnavailable: When its result is encrypted, and no key here opens it.
        """
        await self.job(job_id)
        ending = self._waiting.ended(job_id)
        if timeout is not None:
            ending.addTimeout(timeout, self._reactor)
        try:
            job = await ending
        except TimeoutError:
            raise WaitTimeout(
                f"job {job_id} did not end within {timeout} s", "wait longer or look at it"
            ) from None
        except CancelledError:
            if not self._is_closed:
                raise
            raise DatabaseUnavailable(
                f"job {job_id} had not ended as the queue was closed", "close it after the wait"
            ) from None
        if job.state is not State.DONE:
            raise JobFailed(
                f"job {job_id} is {job.state}: {(job.error or 'no reason given').splitlines()[0]}"
            )
        return opened_result(job.work_type, job.result)

    async def close(self) -> None:
        """Close the connections; callers that still wait get an error."""
        self._is_closed = True
        self._waiting.stop()
        self._hearing.close()
        if self.membership is not None:
            self.membership.close()
        self._pool.close()

    @asynccontextmanager
    async def _trip(self) -> AsyncIterator[Trip | None]:
        """What is enqueued meanwhile is delivered at the end, if that was reached by a commit."""
        if self.membership is None:
            yield None
            return
        trip = Trip(self.membership, self._schema)
        try:
            yield trip
        except BaseException:
            trip.rolled_back()
            raise
        trip.committed()

    async def _with_attempts(self, job: Job) -> Job:
        if not job.attempt:
            return job
        return evolve(job, attempts=await read_attempts(self._pool, self._schema, job.id))

    async def _ended_of(self, job_ids: Sequence[int]) -> list[Job]:
        return await read_jobs(self._pool, self._schema, job_ids, states=FINAL)


def _node_of(settings: Settings) -> Endpoint | None:
    chosen = str(settings.get("node", ""))
    if not chosen:
        return None
    text = settings.node_socket(socket.gethostname()) if chosen == "auto" else chosen
    return joinable(parsed_endpoint(text))


async def _joined(
    reactor: Any, pool: ConnectionPool, schema: str, endpoint: Endpoint | None
) -> Membership | None:
    if endpoint is None:
        return None
    membership = Membership(reactor, endpoint, await StoredFunctions(pool, schema).identity())
    await membership.open()
    return membership

"""`WorkQueue`: the queue's interface for application code."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import timedelta
from itertools import chain, islice
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack, cast, overload

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, TimeoutError, maybeDeferred
from twisted.internet.interfaces import IReactorProcess

from txqueue.client.node_link import Membership, joinable
from txqueue.client.waiting import EndNotifications, EndWaiter
from txqueue.errors import ConfigurationError
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.job import Job, job_number, wait_limit
from txqueue.model.schedule import Exists, Schedule
from txqueue.model.work_item import WorkItem
from txqueue.model.workset_item import WorksetItem, WorksetStatus
from txqueue.policy.awaited_ends import read_limit
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.enqueueing.batch import Batch
from txqueue.store.enqueueing.calls import BATCH, DirectDispatch, enqueue_call
from txqueue.store.enqueueing.encryption import closed_before, missing, not_in_time, result_of
from txqueue.store.enqueueing.portable_calls import Receiver, Signal, sent
from txqueue.store.enqueueing.transaction import Transaction, enqueue_alone
from txqueue.store.enqueueing.worksets import Worksets
from txqueue.store.inquiries.inquiry import Inquiry, ensure_version
from txqueue.store.inquiries.jobs import (
    about_archived_days,
    about_awaited,
    about_one_job,
    archived_job,
    repeat_call,
    with_attempts,
)
from txqueue.store.inquiries.operations import ArchiveProcess, find
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.schedules import Schedules, job_of
from txqueue.store.schema.files import checked_name
from txqueue.system.clock import in_asyncio
from txqueue.system.settings import Settings
from txqueue.tracing.choice import sending
from txqueue.wire.endpoints import Endpoint, INetworkReactor, parsed_endpoint

P = ParamSpec("P")
T = TypeVar("T")
# Seconds.
CONNECTION_WAIT = 30.0
# Whether the running code is inside `WorkQueue.transaction`, of any queue.
_IS_IN_TRANSACTION: ContextVar[bool] = ContextVar("txqueue_transaction", default=False)


class IClientReactor(IStoreReactor, INetworkReactor, IReactorProcess):
    """The reactor as a queue needs it."""


@define(eq=False, repr=False, slots=False)
class WorkQueue:
    """Enqueues work, reads jobs and waits for them; made by `connect`.

    Args:
        pool: The connections to the database.
        schema: The name of txqueue's schema.
        reactor: Times the waits and polls.
        membership: The node that this process joins; None for no node.
        dsn: The database whose notifications announce the ends of jobs; None to poll only.

    Attributes:
        membership: The node that this process joins; None for no node.
        schedules: The schedules of recurring work, by name: list, pause, resume, remove, run now.
    """

    _pool: ConnectionPool
    _schema: str = field(converter=checked_name)
    _reactor: IClientReactor
    membership: Membership | None = None
    _dsn: str | None = None

    def __attrs_post_init__(self) -> None:
        pool, schema, reactor = self._pool, self._schema, self._reactor
        self._worksets = Worksets(pool, schema)
        self.schedules = Schedules(pool, schema)
        self._notifications = EndNotifications(reactor, self._dsn, pool, schema)
        self._waiter = EndWaiter(reactor, self._jobs_of, self._notifications.needed)
        self._notifications.on_ends = self._waiter.note_ends
        self._archive = ArchiveProcess(reactor)
        self._is_closed = False

    @classmethod
    async def connect(
        cls,
        dsn: str | None = None,
        *,
        node: str | None = None,
        schema: str | None = None,
        connections: int = 4,
        connection_wait: float | None = None,
        reactor: IClientReactor | None = None,
    ) -> WorkQueue:
        """Connect to the database.

        Args:
            dsn: A libpq URI or keyword string. The default is the first of ``TXQUEUE_DSN``, the
                configuration file, and libpq's ``PG*`` variables.
            node: The node of this host to join, so that jobs start sooner: its admin endpoint,
                as ``unix:PATH``, or ``auto`` for the default endpoint of this host's node. The
                default is ``TXQUEUE_NODE`` or the configuration file, else no node; an empty text
                means no node. If the node is not running, the queue works without it and reconnects
                later.
            schema: The name of txqueue's schema; ``txqueue`` unless configured.
            connections: The largest number of connections; each is opened when first needed.
            connection_wait: Seconds that a call waits for a connection while all are in use. The
                default is ``TXQUEUE_CONNECTION_WAIT`` or the configuration file, else 30.
            reactor: The running reactor by default.

        Returns:
            A queue ready for use.

        Raises:
            DatabaseUnavailable: When the database does not answer.
            SchemaMismatch: When its schema is missing, older or newer than this code needs.
            NotPermitted: When the role may not use the schema.
            ConfigurationError: When the node's endpoint is not a unix socket, or no reactor runs
                here but a loop of asyncio's.
        """
        if reactor is None:
            reactor = _running_reactor()
        arguments: dict[str, Any] = {"dsn": dsn, "schema": schema, "node": node}
        arguments |= {"connection_wait": connection_wait, "connections": connections}
        settings = Settings(arguments, os.environ, Path.cwd(), is_call=True)
        name = checked_name(settings.get("schema", "txqueue"))
        endpoint = _node_of(settings)
        pool = ConnectionPool(
            reactor,
            settings.dsn(),
            settings.whole("connections", 4),
            "txqueue client",
            wait=settings.seconds("connection_wait", CONNECTION_WAIT, least=0.001),
        )
        try:
            await find(pool, ensure_version(name))
            membership = await _joined(reactor, pool, name, endpoint)
        except BaseException:
            pool.close()
            raise
        return cls(pool, name, reactor, membership, settings.dsn())

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a database transaction, committed at the end of the block, rolled back on an error.

        Returns:
            An asynchronous context manager whose value is a `Transaction`.

        Raises:
            Refused: At the end of the block, when a statement failed and the application
                swallowed its error: the server has rolled the transaction back.
        """
        async with self._dispatch() as dispatch, self._pool.transaction() as connection:
            is_nested = _IS_IN_TRANSACTION.get()
            _IS_IN_TRANSACTION.set(True)
            try:
                with Transaction(connection, self._schema, dispatch) as txn:
                    yield txn
            finally:
                _IS_IN_TRANSACTION.set(is_nested)

    @overload
    async def run_interaction(
        self,
        function: Callable[Concatenate[Transaction, P], Deferred[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...

    @overload
    async def run_interaction(
        self,
        function: Callable[Concatenate[Transaction, P], Coroutine[Any, Any, T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...

    @overload
    async def run_interaction(
        self,
        function: Callable[Concatenate[Transaction, P], T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T: ...

    async def run_interaction(
        self,
        function: Callable[Concatenate[Transaction, P], Deferred[T] | Coroutine[Any, Any, T] | T],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Run a function inside one transaction, as adbapi's ``runInteraction`` does.

        Args:
            function: Called with a `Transaction` and the arguments; a plain function, a
                coroutine function or one that returns a Deferred.

        Returns:
            What the function returns.
        """
        async with self.transaction() as txn:
            value: Deferred[T] = maybeDeferred(cast(Any, function), txn, *args, **kwargs)
            return await value

    async def enqueue(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> int:
        """Enqueue work in a transaction of its own; see `Transaction.enqueue`."""
        with sending(work, options) as call:
            job_id = await self._enqueue_one(work, call.options)
            call.enqueued(job_id)
        return job_id

    async def _enqueue_one(self, work: WorkItem, options: Mapping[str, Any]) -> int:
        if self.membership is None:
            rows = await self._pool.query_often(*enqueue_call(self._schema, work, options))
            return int(rows[0][0])
        # A transaction that waits for a connection must not hold credit that a running one could
        # use. The job is delivered at once: the connection can wait.
        connection = await self._pool.take()
        try:
            async with self._dispatch() as dispatch:
                assert dispatch is not None
                return await dispatch.enqueue(connection.query_often, work, options)
        finally:
            self._pool.put_back(connection)

    async def enqueue_many(
        self, works: Iterable[WorkItem], **options: Unpack[EnqueueOptions]
    ) -> list[int]:
        """Enqueue many work items in one transaction, with one round trip for each thousand.

        Returns:
            The jobs' numbers, in the order of the work items.
        """
        remaining = iter(works)
        first = list(islice(remaining, BATCH + 1))
        async with self.transaction() as txn:
            if len(first) > BATCH:
                return await txn.enqueue_many(chain(first, remaining), **options)
            return await enqueue_alone(txn, first, options)

    async def signal(
        self,
        of: Receiver,
        name: str,
        value: Any = None,
        *,
        key: str | None = None,
    ) -> bool:
        """Send a signal to a job, in a transaction of its own; see `Transaction.signal`."""
        return await sent(Signal(of, name, value, key), self._schema, self._pool.query_often)

    async def fill(self, cls: type[WorksetItem], items: Iterable[WorksetItem]) -> int:
        """Put items into a workset in one transaction; see `Transaction.fill`."""
        async with self.transaction() as txn:
            return await txn.fill(cls, items)

    async def start_workset(self, cls: type[WorksetItem]) -> int:
        """Enqueue the jobs that work through a workset, now and whenever items are added.

        For an existing table whose rows have all been processed, start from its first row again.

        Returns:
            How many jobs were enqueued; 0 if the workset has enough.
        """
        return await self._worksets.start(cls)

    async def workset(self, cls: type[WorksetItem]) -> WorksetStatus:
        """Return a workset's progress.

        Raises:
            JobNotFound: When the workset was never filled or started.
        """
        return await self._worksets.status(cls)

    async def retry_workset(self, cls: type[WorksetItem]) -> int:
        """Retry the failed items of a workset, and return their number."""
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
        """Create a schedule that enqueues work repeatedly, or change the one of that name.

        The database user needs the role ``txqueue_worker``, or must own the schema.

        Args:
            name: The schedule's name; 1 to 200 characters.
            work: The work item to enqueue each time.
            when: An `Every`, a `Cron` or a `Cooldown`.
            only_if: A condition: when it is false at a due moment, nothing is enqueued for that
                moment.
            options: As for `Transaction.enqueue`, without ``not_before`` and ``not_after``.

        Returns:
            Whether the schedule was created or changed.

        Raises:
            InvalidWork: When the work or an option is not valid.
            Refused: When the database refuses the schedule.
        """
        return await self.schedules.put(name, job_of(work, options), when, only_if)

    @asynccontextmanager
    async def batch(
        self, callback: WorkItem, **options: Unpack[EnqueueOptions]
    ) -> AsyncIterator[Batch]:
        """Collect a batch in a transaction of its own; see `Transaction.batch`."""
        async with self.transaction() as txn, txn.batch(callback, **options) as batch:
            yield batch

    async def repeat(self, job_id: int) -> int:
        """Enqueue a new job with the payload and policy of one that has ended, archived ones too.

        Returns:
            The new job's number, or the number of the job that holds its unique key.

        Raises:
            Refused: When the job has not ended, or does not exist.
            ArchiveUnavailable: When the job is archived, and the archive cannot be read.
        """
        number = job_number(job_id)
        is_there = await self._pool.query(f"select from {self._schema}.find_job(%s)", (number,))
        archived = None if is_there else await self._archived(number)
        call = repeat_call(self._schema, number, archived)
        [[new_job_id]] = await self._pool.query(call.sql, call.parameters)
        return int(new_job_id)

    async def job(self, job_id: int) -> Job:
        """Return a job's current state, with its failed attempts; an archived job's last state.

        Raises:
            ArchiveUnavailable: When the job is archived, and the archive cannot be read.
            JobNotFound: When no job has that number.
            InvalidWork: When it is no number of a job.
        """
        number = job_number(job_id)
        if (job := await self._find(about_one_job(self._schema, number))) is not None:
            return job
        if (job := archived_job(await self._archived(number))) is None:
            raise missing(number, is_in_transaction=_IS_IN_TRANSACTION.get())
        return await self._find(with_attempts(self._schema, job))

    async def wait(self, job_id: int, timeout: float | timedelta | None = None) -> object:
        """Wait until a job has ended.

        Nodes announce the ends of their jobs within milliseconds; other ends are found by polling.

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
            CancelledError: When the caller cancelled the wait; the job continues.
            DatabaseUnavailable: When the database is away, or the queue was closed during the wait.
            ArchiveUnavailable: When the job is archived, and the archive cannot be read.
            KeyUnavailable: When the result is encrypted, and this process cannot decrypt it.
        """
        job_id, job, most = job_number(job_id), None, wait_limit(timeout)
        # Before the job is read: an end after that is announced.
        ending = self._waiter.ended(job_id)
        try:
            read = self._in_time(self._waiter.read(job_id), job_id, read_limit(most))
            job = await read or await self.job(job_id)
        finally:
            # An archived job is not in the table, where the ends of others are found.
            if job is None or job.state.is_final:
                ending.addErrback(lambda _: None).cancel()
        if not job.state.is_final:
            self._waiter.look_soon()
            job = await self._in_time(ending, job_id, most) or await self.job(job_id)
        return result_of(job)

    async def _in_time(
        self, ending: Deferred[Job | None], job_id: int, timeout: float | None
    ) -> Job | None:
        if timeout is not None:
            ending.addTimeout(timeout, self._reactor)
        try:
            return await ending
        except TimeoutError:
            raise not_in_time(job_id, timeout or 0) from None
        except CancelledError:
            if not self._is_closed:
                raise
            raise closed_before(job_id) from None

    async def close(self) -> None:
        """Close the connections; callers that still wait get `DatabaseUnavailable`."""
        self._is_closed = True
        self._waiter.stop()
        self._notifications.close()
        if self.membership is not None:
            self.membership.close()
        self._pool.close()

    @asynccontextmanager
    async def _dispatch(self) -> AsyncIterator[DirectDispatch | None]:
        """Deliver the jobs enqueued in the block at its end, if the transaction committed."""
        if self.membership is None:
            yield None
            return
        dispatch = DirectDispatch(self.membership, self._schema)
        try:
            yield dispatch
        except BaseException:
            dispatch.rolled_back()
            raise
        dispatch.committed()

    async def _jobs_of(self, job_ids: Sequence[int]) -> list[Job]:
        return await self._find(about_awaited(self._schema, job_ids))

    async def _archived(self, job_id: int) -> dict[str, Any] | None:
        """Return the columns of an archived job; None if no archive has it.

        Raises:
            ArchiveUnavailable: When the archive cannot be read.
        """
        days = await self._find(about_archived_days(self._schema, job_id))
        return await self._archive.job(days, job_id)

    async def _find(self, inquiry: Inquiry[T]) -> T:
        return await find(self._pool, inquiry)


def _running_reactor() -> IClientReactor:
    from twisted.internet import reactor

    found: Any = reactor
    if in_asyncio() and not found.running:
        raise ConfigurationError(
            "WorkQueue needs Twisted's reactor, and a loop of asyncio's runs in its place",
            "use txqueue.aio.Queue here; or run Twisted's asyncio reactor",
        )
    return cast("IClientReactor", found)


def _node_of(settings: Settings) -> Endpoint | None:
    address = str(settings.get("node", ""))
    if not address:
        return None
    text = settings.own_socket() if address == "auto" else address
    return joinable(parsed_endpoint(text))


async def _joined(
    reactor: IClientReactor, pool: ConnectionPool, schema: str, endpoint: Endpoint | None
) -> Membership | None:
    if endpoint is None:
        return None
    membership = Membership(reactor, endpoint, StoredFunctions(pool, schema).identity)
    await membership.open()
    return membership

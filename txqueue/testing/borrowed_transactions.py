"""The own transactions of jobs that a test runs: parts of the test's transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar, cast

from attrs import define
from twisted.internet.defer import Deferred

from txqueue.adapters.driver_errors import error_of
from txqueue.errors import TransactionMisused
from txqueue.policy.endings.batching import RESULT_LIMIT
from txqueue.store.driver.awaitables import awaitable
from txqueue.store.driver.connection import Connection, Statement
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.store.given_jobs import IDLE_LIMIT, SET_IDLE_LIMIT, GivenJobs
from txqueue.testing.connections import Bound
from txqueue.worker.handlers.job_transaction import enqueue_follow_ups, take_result
from txqueue.worker.handlers.running_job import RunningJob, change

__all__ = ["BorrowedTransactions"]

# pytest and unittest leave this module out of tracebacks.
__tracebackhide__ = __unittest = True

T = TypeVar("T")


@define
class _Borrowed:
    """The test's connection, as `Transaction` uses one."""

    bound: Bound
    wait: Callable[[Any], Awaitable[Any]]
    is_idle: bool = False
    is_reusable: bool = True

    async def query(
        self, sql: str, parameters: Sequence[object] = (), translate: object = None
    ) -> list[Any]:
        """Run a statement; an application's own keeps the driver's error."""
        try:
            return list(await self.wait(self.bound.rows(sql, parameters)))
        except Exception as error:
            if translate is None and (refusal := error_of(error)) is not None:
                raise refusal from error
            raise

    async def query_often(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        """Run a statement of txqueue."""
        return await self.query(sql, parameters)


@define
class BorrowedTransactions:
    """Opens the own transactions of jobs.

    Attributes:
        borrow: Returns the test's connection.
        is_of_asyncio: Whether the handlers run in a loop of asyncio's, without Twisted's reactor.
        is_blocking: Whether the handlers are functions, which elsewhere run in threads.
        complete: Completes a job at the end of its transaction; None if it has no row.
    """

    borrow: Callable[[], Coroutine[Any, Any, Bound]]
    is_of_asyncio: bool
    complete: Callable[[RunningJob], Coroutine[Any, Any, None]] | None = None
    is_blocking: bool = False

    def __call__(self, job: RunningJob) -> AbstractAsyncContextManager[Transaction]:
        """Open the transaction of a job."""
        return self._nothing(job) if self._is_needless(job) else self._open(job)

    def _is_needless(self, job: RunningJob) -> bool:
        return job.has_returned and self.complete is None

    @asynccontextmanager
    async def _nothing(self, job: RunningJob) -> AsyncIterator[Any]:
        yield None
        change(job, is_completed=True)

    @asynccontextmanager
    async def _open(self, job: RunningJob) -> AsyncIterator[Transaction]:
        bound = await self._bound(f"the function of {job.work_type}")
        given = GivenJobs(bound.schema, bound.foreign.style)
        async with self._framed(bound):
            await self._wait(bound.value(given.name_ending_job(job.id)))
            async with self._within(job, bound) as txn:
                yield txn
            await self._wait(bound.value(given.name_ending_job(None)))
        change(job, is_completed=True)

    @asynccontextmanager
    async def step(self, last: Callable[[], Statement | None]) -> AsyncIterator[Transaction]:
        """Open a transaction that is a step.

        Args:
            last: Returns the statement that ends it; None for none.
        """
        bound = await self._bound("the function")
        async with self._framed(bound):
            connection = cast("Connection", _Borrowed(bound, self._wait))
            with Transaction(connection, bound.schema) as txn:
                yield txn
            if (statement := last()) is not None:
                await self._ended_by(bound, statement)

    async def _ended_by(self, bound: Bound, statement: Statement) -> None:
        """End a step; the test's transaction keeps its own time limit."""
        limit = await self._wait(bound.value((IDLE_LIMIT, ())))
        await self._wait(bound.rows(*statement))
        await self._wait(bound.rows(SET_IDLE_LIMIT, (limit,)))

    def rows(self, sql: str, parameters: Sequence[object]) -> Awaitable[list[Any]]:
        """Run a statement of txqueue over the test's connection."""
        return self._wait(self._rows(sql, parameters))

    async def _rows(self, sql: str, parameters: Sequence[object]) -> list[Any]:
        return await (await self.borrow()).rows(sql, parameters)

    async def _bound(self, what: str) -> Bound:
        bound: Bound = await self._wait(self.borrow())
        if self.is_blocking and bound.foreign.is_asynchronous:
            raise TransactionMisused(
                f"{what} would block the test, whose connection is"
                " asynchronous and needs it to go on",
                "await aperform() in its place, which runs functions in a thread",
            )
        return bound

    @asynccontextmanager
    async def _framed(self, bound: Bound) -> AsyncIterator[None]:
        frame = bound.frame
        await self._wait(bound.value((frame.opening, ())))
        try:
            yield
        except BaseException:
            with suppress(Exception):
                await self._wait(bound.undo(frame))
            raise
        await self._wait(bound.value((frame.closing, ())))

    @asynccontextmanager
    async def _within(self, job: RunningJob, bound: Bound) -> AsyncIterator[Transaction]:
        connection = cast("Connection", _Borrowed(bound, self._wait))
        with Transaction(connection, bound.schema, ends=job.id) as txn:
            change(job, within=txn)
            try:
                yield txn
                take_result(job, txn, RESULT_LIMIT)
                await enqueue_follow_ups(job, txn)
                if self.complete is not None:
                    await self._wait(self.complete(job))
            finally:
                change(job, within=None)

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return what a handler of any kind can await, as it awaits statements on a node."""
        if self.is_of_asyncio and not self.is_blocking:
            return awaitable(Deferred.fromFuture(asyncio.ensure_future(coroutine)))
        return Deferred.fromCoroutine(coroutine)

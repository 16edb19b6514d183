"""The steps and own transactions of jobs that a test runs: parts of the test's transaction."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, TypeVar, cast

from attrs import define, evolve, field
from twisted.internet.defer import Deferred, succeed
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from txqueue.adapters.calls import error_of
from txqueue.errors import TokenLost, TransactionMisused
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.results import ANY_KIND, Memo, check_length, read_result, step_text
from txqueue.model.work_item import WorkItem
from txqueue.policy.endings.reports import RESULT_LIMIT, STEPS_LIMIT
from txqueue.store.driver.awaitables import awaitable
from txqueue.store.driver.connection import Connection, Statement
from txqueue.store.enqueueing.calls import job_object
from txqueue.store.enqueueing.steps import (
    StepRun,
    StepWrite,
    loaded,
    step_written,
    steps_written,
)
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.store.given_jobs import IDLE_LIMIT, SET_IDLE_LIMIT, GivenJobs
from txqueue.system.clock import Clock
from txqueue.testing.connections import Bound
from txqueue.worker.handlers.job_transaction import enqueue_follow_ups, take_result
from txqueue.worker.handlers.running_job import RunningJob, change

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
        is_needless = job.has_returned and self.complete is None
        return self._nothing(job) if is_needless else self._open(job)

    @asynccontextmanager
    async def _nothing(self, job: RunningJob) -> AsyncIterator[Any]:
        yield None
        change(job, is_completed=True)

    @asynccontextmanager
    async def _open(self, job: RunningJob) -> AsyncIterator[Transaction]:
        bound = await self._bound(f"the function of {job.work_type}")
        given = GivenJobs(bound.schema, bound.style)
        async with self._framed(bound):
            await self._wait(bound.value(given.name_ending_job(job.id)))
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
        if self.is_blocking and bound.is_asynchronous:
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

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> Awaitable[T]:
        """Return what a handler of any kind can await, as it awaits statements on a node."""
        if self.is_of_asyncio and not self.is_blocking:
            return awaitable(Deferred.fromFuture(asyncio.ensure_future(coroutine)))
        return Deferred.fromCoroutine(coroutine)


Signals = Mapping[str, Any] | Iterable[tuple[str, Any]]


@define
class _Steps:
    """What both have: see `StepStore`.

    Attributes:
        opener: Opens transactions on the test's connection.
        done: The results of the steps that the run has done, as JSON text.
        calls: The work that the run has called.
        clock: Has the turns in which what the handler has begun goes on.
        longest_pause: Seconds of a pause.
        limit: The most bytes of the results together.
    """

    opener: BorrowedTransactions
    done: dict[str, str | None] = field(factory=dict)
    calls: dict[str, WorkItem] = field(factory=dict)
    clock: Clock = field(init=False)
    longest_pause: float = 0.02
    limit: int = STEPS_LIMIT

    def pause(self, seconds: float) -> Deferred[Any]:
        """Have other tasks go on for a moment, if there can be any."""
        if self.opener.is_blocking:
            return succeed(None)
        return deferLater(cast("IReactorTime", self.clock), min(seconds, self.longest_pause))

    def _checked(self, step: StepWrite) -> StepWrite:
        # As a worker does: what a child has returned was within the limit of jobs.
        if step.kind != "call":
            _check(step.name, step.result)
        return step

    def _note(self, step: StepWrite) -> None:
        if step.error is None:
            self.done[step.name] = step.result

    @asynccontextmanager
    async def _transaction(
        self, name: str, result: Callable[[], str | None], last: Callable[[], Statement | None]
    ) -> AsyncIterator[Transaction]:
        async with self.opener.step(last) as txn:
            yield txn
            text = _check(name, result())
        self.done[name] = text


def _check(name: str, result: str | None) -> str | None:
    """Check a result by the limit that nodes have by default."""
    if result is not None:
        check_length(f"result of step {name!r}", result, RESULT_LIMIT)
    return result


@define
class _Calling:
    """Takes the work that a run calls."""

    name: str
    calls: dict[str, WorkItem]
    txn: Transaction | None = None

    async def enqueue(self, work: WorkItem, **options: Any) -> int:
        """Enqueue the work if the job has a row, else only check it."""
        self.calls[self.name] = work
        if self.txn is not None:
            return await self.txn.enqueue(work, **options)
        job_object(work, cast("EnqueueOptions", options))
        return 0


@define
class StepsInMemory(_Steps):
    """The steps of a job without a row.

    Attributes:
        given: What earlier runs have left.
        signals: The signals that are there, the oldest first.
    """

    given: list[Memo] = field(factory=list)
    signals: list[tuple[str, str]] = field(factory=list)

    @classmethod
    def of(
        cls, opener: BorrowedTransactions, steps: Mapping[str, Any], signals: Signals
    ) -> StepsInMemory:
        """Return the steps of a run that begins with some, and with some signals.

        Raises:
            InvalidWork: When JSON cannot carry one of the values.
        """
        sent = signals.items() if isinstance(signals, Mapping) else signals
        return cls(
            opener,
            given=[_memo(name, value) for name, value in steps.items()],
            signals=[(name, step_text(name, value)) for name, value in sent],
        )

    async def load(self, job_id: int) -> list[Memo]:  # noqa: ARG002
        """Return what earlier runs have left."""
        return self.given

    def write(self, step: StepWrite) -> Deferred[str | None]:
        """Note a step; take a signal for one that waits."""
        if step.kind != "signal":
            self._note(self._checked(step))
            return succeed(None)
        taken = next((each for each in self.signals if each[0] == step.signal), None)
        if taken is None:
            return succeed(None)
        self.signals.remove(taken)
        self.done[step.name] = taken[1]
        return succeed(taken[1])

    def transaction(
        self,
        run: StepRun,  # noqa: ARG002
        name: str,
        result: Callable[[], str | None],
    ) -> AbstractAsyncContextManager[Transaction]:
        """Open a savepoint of the test's connection that is a step."""
        return self._transaction(name, result, lambda: None)

    @asynccontextmanager
    async def calling(
        self,
        run: StepRun,  # noqa: ARG002
        name: str,
        child: Callable[[], int],  # noqa: ARG002
    ) -> AsyncIterator[_Calling]:
        """Take the work of a call."""
        yield _Calling(name, self.calls)


def _memo(name: str, value: Any) -> Memo:
    if isinstance(value, BaseException):
        return Memo(name, ANY_KIND, error=str(value), seconds=0)
    return Memo(name, ANY_KIND, result=step_text(name, value), seconds=0)


@define
class StepsOfRows(_Steps):
    """The steps of a job that has a row, over the test's connection.

    Attributes:
        schema: The name of the schema.
        ahead: The seconds between the clock and the moment that counts as now.
    """

    schema: str = field(kw_only=True)
    ahead: float = field(kw_only=True)

    async def load(self, job_id: int) -> list[Memo]:
        """Return what earlier runs have left, as of the moment that counts as now."""
        rows = await self.opener.rows(*loaded(self.schema, job_id))
        return [self._moved(Memo(*row)) for row in rows]

    def _moved(self, memo: Memo) -> Memo:
        return memo if memo.seconds is None else evolve(memo, seconds=memo.seconds - self.ahead)

    def write(self, step: StepWrite) -> Deferred[str | None]:
        """Write a step."""
        return Deferred.fromCoroutine(self._written(self._checked(step)))

    async def _written(self, step: StepWrite) -> str | None:
        written = steps_written(self.schema, step.run.token.incarnation, [step])
        rows = await self.opener.rows(*written)
        if not rows:
            raise TokenLost(f"job {step.run.job_id} has ended meanwhile", "end it once only")
        taken: str | None = rows[0][1]
        if step.kind != "signal":
            self._note(step)
        elif taken is not None:
            self.done[step.name] = taken
        return taken

    def transaction(
        self, run: StepRun, name: str, result: Callable[[], str | None]
    ) -> AbstractAsyncContextManager[Transaction]:
        """Open a savepoint of the test's transaction that is a step."""
        return self._transaction(
            name, result, lambda: step_written(self.schema, run, name, result=result())
        )

    @asynccontextmanager
    async def calling(
        self, run: StepRun, name: str, child: Callable[[], int]
    ) -> AsyncIterator[Transaction]:
        """Open a savepoint in which a job is enqueued for a call."""
        async with self.opener.step(
            lambda: step_written(self.schema, run, name, child=child())
        ) as txn:
            yield cast("Transaction", _Calling(name, self.calls, txn))


def results_of(steps: _Steps, reveal: Callable[[Any], Any]) -> dict[str, Any]:
    """Return the results of the steps that a run has done.

    Args:
        steps: The steps.
        reveal: Decrypts what is stored encrypted.
    """
    return {name: reveal(read_result(name, Any, text)) for name, text in steps.done.items()}

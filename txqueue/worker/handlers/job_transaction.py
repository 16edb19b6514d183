"""A worker's writes for its jobs: their own transactions, and their steps."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from itertools import groupby
from types import TracebackType
from typing import Any, Final

from attrs import astuple, define, field
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReactorTime
from twisted.internet.task import deferLater

from txqueue.errors import DatabaseUnavailable, InvalidWork, TokenLost, TransactionMisused
from txqueue.model.results import Memo, check_length, encode_result
from txqueue.model.work_item import find_work_type
from txqueue.policy.backoff import Backoff
from txqueue.policy.endings.reports import LONG, RESULT_LIMIT, STEPS_LIMIT, BatchSize
from txqueue.store.driver.awaitables import entered
from txqueue.store.driver.connection import Statement
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import is_locked, is_passing
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.driver.session_bounds import OF_A_WORKER
from txqueue.store.enqueueing.encryption import encrypted
from txqueue.store.enqueueing.steps import (
    StepRun,
    StepWrite,
    loaded,
    step_written,
    steps_written,
)
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.worker.handlers.running_job import (
    OpenTransaction,
    RunningJob,
    TransactionPhase,
    change,
)

MOST_CONNECTIONS: Final = 4
"""Connections for handlers; they may keep them for as long as they run."""

MOST_COMPLETING: Final = 2
"""Connections for what must not wait for handlers; opened only while those have all of theirs."""

# Shortest and longest pause before jobs are completed, or steps written, again, while the database
# is away.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0

_COMPLETE_ONE: Final = """
    select {schema}.complete_one(
        its_incarnation => %s, its_assignment => %s, its_job_id => %s, its_result => %s,
        its_progress => %s, its_lane => %s, its_cost => %s)"""

_NOTE_LATE: Final = """
    select {schema}.note_late_{what}(
        its_incarnation => %s, its_assignment => %s, its_job_id => %s, its_{what} => %s)"""


class OwnTransactions:
    """Opens the own transactions of jobs.

    Args:
        reactor: The worker's reactor.
        dsn: A libpq URI or keyword string.
        schema: The name of the schema.
        name: The worker's name, shown in ``pg_stat_activity``.
        longest_result: The longest result of a job or a step, in bytes of JSON text.
        steps_limit: The most bytes of the results of a job's steps together.

    Attributes:
        connections: The connections for handlers.
        steps: Reads and writes the steps of jobs.
        schema: The name of the schema.
        longest_result: The longest result of a job, in bytes of JSON text.
        complete_one: The statement that completes a job.
    """

    def __init__(
        self,
        reactor: IStoreReactor,
        dsn: str,
        schema: str,
        name: str,
        *,
        longest_result: int = RESULT_LIMIT,
        steps_limit: int = STEPS_LIMIT,
    ) -> None:
        pool = partial(ConnectionPool, reactor, dsn, session=OF_A_WORKER)
        self.connections = pool(MOST_CONNECTIONS, f"txqueue worker {name}")
        self._completing = pool(MOST_COMPLETING, f"txqueue worker {name}")
        self.schema = schema
        self.steps = StepStore(reactor, lambda: self._free, schema, longest_result, steps_limit)
        self.longest_result = longest_result
        self.complete_one = _COMPLETE_ONE.format(schema=schema)

    def open(self, job: RunningJob) -> AbstractAsyncContextManager[Transaction]:
        """Open a transaction whose commit completes a job and enqueues its follow-up work."""
        pool = self._free if job.has_returned else self.connections
        return _Completing(self, job, pool)

    async def note_late(self, job: RunningJob, what: str, text: str) -> None:
        """Store what came of a handler whose transaction had completed its job before.

        Args:
            job: The job.
            what: ``error`` or ``result``.
            text: The error; or the result, as JSON text.

        Raises:
            InvalidWork: When other jobs may have read before that the job has no result.
        """
        statement = _NOTE_LATE.format(schema=self.schema, what=what)
        rows = await self._free.query(statement, (*astuple(job.token), job.id, text))
        if rows == [(False,)]:
            raise InvalidWork(
                "other jobs may have read before that the job has none",
                "set txn.result inside of job.transaction()",
            )

    def close(self) -> None:
        """Close the connections."""
        self.connections.close()
        self._completing.close()

    @property
    def _free(self) -> ConnectionPool:
        return self._completing if self.connections.is_busy else self.connections


class _Completing(AbstractAsyncContextManager[Transaction]):
    """A transaction whose commit completes a job; a class, as many jobs do little else."""

    __slots__ = ("_job", "_lent", "_own", "_txn")

    def __init__(self, own: OwnTransactions, job: RunningJob, pool: ConnectionPool) -> None:
        self._own, self._job = own, job
        self._lent = entered(pool.transaction(self._completion))

    async def __aenter__(self) -> Transaction:
        connection = await self._lent.__aenter__()
        self._txn = Transaction(connection, self._own.schema, ends=self._job.id)
        change(self._job, within=self._txn)
        return self._txn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            await self._end(is_failed=kind is not None)
        except BaseException as broken:
            await self._lent.__aexit__(type(broken), broken, broken.__traceback__)
            raise
        await self._lent.__aexit__(kind, error, traceback)
        if kind is None:
            change(self._job, is_completed=True)

    async def _end(self, *, is_failed: bool) -> None:
        try:
            if not is_failed:
                take_result(self._job, self._txn, self._own.longest_result)
                if self._job.follow_ups:
                    await enqueue_follow_ups(self._job, self._txn)
        finally:
            change(self._job, within=None)
            self._txn.end(is_failed=is_failed)

    def _completion(self) -> Statement:
        job = self._job
        token, lane = job.token, job.assignment.lane
        return self._own.complete_one, (
            *(token.incarnation, token.assignment, job.id),
            *(job.result, job.last_progress, lane, job.settled_cost),
        )


def take_result(job: RunningJob, txn: Transaction, longest: int) -> None:
    """Have a job's own transaction complete it with the result that its handler has set.

    Args:
        job: The job.
        txn: The transaction.
        longest: The longest result, in bytes of JSON text.

    Raises:
        InvalidWork: When JSON cannot carry the result, it is too long, or a call was not awaited.
    """
    job.check_awaited()
    if not job.has_returned and (txn.result is not None or job.result is not None):
        change(job, result=result_text(job.work_type, txn.result, longest))


def result_text(work_type: str, value: Any, longest: int) -> str | None:
    """Return the form in which a result is stored, as JSON text; None for none.

    Raises:
        InvalidWork: When JSON cannot carry the result, or it is too long.
    """
    if value is None:
        return None
    text = encode_result(value)
    check_length("result", text, longest)
    if not find_work_type(work_type).encrypted:
        return text
    return json.dumps(encrypted(work_type, "result", json.loads(text)))


async def enqueue_follow_ups(job: RunningJob, txn: Transaction) -> None:
    """Enqueue a job's follow-up work in the transaction that completes it."""
    for work, options in job.follow_ups:
        await txn.enqueue(work, **options)


def one_at_most(
    opener: OpenTransaction, committed: Callable[[RunningJob], None]
) -> OpenTransaction:
    """Return an opener that refuses a run's second transaction: one completes the job.

    Args:
        opener: Opens the own transaction of a job.
        committed: Called with a job that its own transaction has completed.
    """
    return partial(_only_one, opener, committed)


@asynccontextmanager
async def _only_one(
    opener: OpenTransaction, committed: Callable[[RunningJob], None], job: RunningJob
) -> AsyncIterator[Transaction]:
    """Open a run's own transaction, if it has no other."""
    _check_first(job)
    change(job, phase=TransactionPhase.WAITING)
    try:
        async with opener(job) as txn:
            change(job, phase=TransactionPhase.OPEN)
            yield txn
    except DatabaseUnavailable as error:
        if job.phase is TransactionPhase.WAITING:
            change(job, unavailable=error)
        raise
    finally:
        change(job, phase=None)
        if job.is_completed:
            committed(job)


def _check_first(job: RunningJob) -> None:
    if job.phase is not None:
        raise TransactionMisused(
            f"job {job.id} opens its own transaction while it has one open",
            "write in the one that is open; use a savepoint for a part that may fail",
        )
    if job.is_completed:
        raise TransactionMisused(
            f"job {job.id} is done: its own transaction has committed, and it cannot have another",
            "write everything in one job.transaction(); what follows can be a job of its own",
        )


async def complete(job: RunningJob, opener: OpenTransaction, clock: IReactorTime) -> None:
    """Complete a job and enqueue its follow-up work, in one transaction.

    The handler has succeeded, so the transaction is retried while the database is away.

    Args:
        job: The job, with the result to store.
        opener: Opens its own transaction.
        clock: Times the retries.

    Raises:
        Refused: When the database refuses the follow-up work; the job is not completed.
        TokenLost: When the job has been assigned elsewhere since.
    """
    backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
    while not await _is_completed(opener(job)):
        await deferLater(clock, backoff.take())


async def _is_completed(transaction: AbstractAsyncContextManager[Transaction]) -> bool:
    try:
        async with transaction:
            """The commit completes the job and enqueues its follow-up work."""
    except Exception as error:
        if not is_passing(error):
            raise
        return False
    return True


# The steps that one statement writes; a long one is written by itself, beside the others.
TOGETHER: Final = BatchSize(200)
LastOfTransaction = Callable[[], Statement]


@define(eq=False)
class _Entry:
    step: StepWrite
    written: Deferred[str | None] = field(factory=Deferred)


@define(eq=False, repr=False, slots=False)
class StepStore:
    """Reads and writes the steps of a worker's jobs.

    Args:
        reactor: Times the retries.
        pool: Returns the connections to use.
        schema: The name of the schema.
        longest_result: The longest result of a step, in bytes of JSON text.
        limit: The most bytes of the results of a job's steps together.

    Attributes:
        limit: The same.
    """

    _reactor: IStoreReactor
    _pool: Callable[[], ConnectionPool]
    _schema: str
    _longest_result: int
    limit: int = STEPS_LIMIT
    _entries: list[_Entry] = field(factory=list, init=False)
    _is_writing: bool = field(default=False, init=False)

    async def load(self, job_id: int) -> list[Memo]:
        """Return the steps of a job that its earlier runs have left."""
        rows = await self._pool().query_often(*loaded(self._schema, job_id))
        return [Memo(*row) for row in rows]

    def write(self, step: StepWrite) -> Deferred[str | None]:
        """Write a step, together with those that other jobs end meanwhile.

        Returns:
            Fires once it is committed: with the value of the signal that it took, as JSON text;
            fails with `TokenLost` if the job has been assigned elsewhere since.

        Raises:
            InvalidWork: When its result is too long.
        """
        # What a child has returned was within the limit of the child's node.
        if step.kind != "call":
            self._check(step.name, step.result)
        entry = _Entry(step)
        if _length(entry) > LONG:
            self._write_apart(entry)
            return entry.written
        self._entries.append(entry)
        if not self._is_writing:
            self._is_writing = True
            # The other jobs of this turn of the reactor end steps too.
            self._reactor.callLater(0, self._start)
        return entry.written

    @asynccontextmanager
    async def transaction(
        self, run: StepRun, name: str, result: Callable[[], str | None]
    ) -> AsyncIterator[Transaction]:
        """Open a transaction whose commit also writes a step.

        Args:
            run: The run of the job.
            name: The name of the step.
            result: Returns what the step returns, as JSON text, when the transaction ends.
        """
        async with self._transaction(
            lambda: step_written(self._schema, run, name, result=self._check(name, result()))
        ) as txn:
            yield txn

    @asynccontextmanager
    async def calling(
        self, run: StepRun, name: str, child: Callable[[], int]
    ) -> AsyncIterator[Transaction]:
        """Open a transaction whose commit also writes which job was enqueued for a call."""
        async with self._transaction(
            lambda: step_written(self._schema, run, name, child=child())
        ) as txn:
            yield txn

    @asynccontextmanager
    async def _transaction(self, last: LastOfTransaction) -> AsyncIterator[Transaction]:
        async with entered(self._pool().transaction(last)) as connection:
            with Transaction(connection, self._schema) as txn:
                yield txn

    def _check(self, name: str, result: str | None) -> str | None:
        if result is not None:
            check_length(f"result of step {name!r}", result, self._longest_result)
        return result

    def pause(self, seconds: float) -> Deferred[None]:
        """Return a Deferred that fires after a time."""
        return deferLater(self._reactor, seconds)

    def _write_apart(self, entry: _Entry) -> None:
        incarnation = entry.step.run.token.incarnation
        Deferred.fromCoroutine(self._write_some(incarnation, [entry], is_apart=True))

    def _start(self) -> None:
        Deferred.fromCoroutine(self._write_all())

    async def _write_all(self) -> None:
        while self._entries:
            number = TOGETHER.first(map(_length, self._entries))
            entries, self._entries = self._entries[:number], self._entries[number:]
            for incarnation, those in groupby(
                entries, lambda each: each.step.run.token.incarnation
            ):
                await self._write_some(incarnation, list(those))
        self._is_writing = False

    async def _write_some(
        self, incarnation: int, entries: Sequence[_Entry], *, is_apart: bool = False
    ) -> None:
        """Write some steps; if one of them cannot be written now, each by itself."""
        try:
            answers = await self._written(incarnation, entries, is_apart=is_apart)
        except BaseException as error:
            if is_apart:
                entries[0].written.errback(error)
                return
            for entry in entries:
                self._write_apart(entry)
            return
        for place, entry in enumerate(entries):
            if place in answers:
                entry.written.callback(answers[place])
            else:
                entry.written.errback(_lost(entry.step))

    async def _written(
        self, incarnation: int, entries: Iterable[_Entry], *, is_apart: bool
    ) -> dict[int, str | None]:
        """Write steps; again and again while the database is away, as what they did is done.

        The same if another session has locked the job of the only one, which is written apart.
        """
        sql, parameters = steps_written(
            self._schema, incarnation, [entry.step for entry in entries]
        )
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            try:
                return dict(await self._pool().query_often(sql, parameters))
            except Exception as error:
                if not is_passing(error) or (is_locked(error) and not is_apart):
                    raise
            await deferLater(self._reactor, backoff.take())


def _length(entry: _Entry) -> int:
    return len(entry.step.result or "")


def _lost(step: StepWrite) -> TokenLost:
    return TokenLost(
        f"job {step.run.job_id} has been assigned elsewhere since",
        f"nothing: it runs there; step {step.name!r} of this run is not kept",
    )

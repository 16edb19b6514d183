"""Where the steps of a worker's jobs are read and written: those of many jobs with one commit."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import groupby
from typing import Final

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from txqueue.errors import TokenLost
from txqueue.model.results import Memo, check_length
from txqueue.policy.backoff import Backoff
from txqueue.policy.endings.reports import LONG, STEPS_LIMIT, BatchSize
from txqueue.store.driver.awaitables import entered
from txqueue.store.driver.connection import Statement
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import is_locked, is_passing
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.enqueueing.steps import (
    StepRun,
    StepWrite,
    loaded,
    step_written,
    steps_written,
)
from txqueue.store.enqueueing.transaction import Transaction

# The steps that one statement writes; a long one is written by itself, beside the others.
TOGETHER: Final = BatchSize(200)
# Shortest and longest pause before steps are written again, while the database is away.
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 5.0

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

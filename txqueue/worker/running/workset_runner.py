"""Runs the jobs of worksets: each job processes part after part until its turn is over."""

from __future__ import annotations

import json
import random
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, TimeoutError
from twisted.internet.task import deferLater
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.errors import InvalidWork, TokenLost, TransactionMisused
from txqueue.model.directives import Snooze, coroutine_layers, thread_layers
from txqueue.model.foreign import class_name, is_a
from txqueue.model.job_policy import Runtime
from txqueue.model.payload import decode, decoder
from txqueue.model.workset_item import WorksetItem
from txqueue.policy.endings.outcome import judge, summary_of
from txqueue.store.driver.raw_connection import IStoreReactor
from txqueue.store.enqueueing.transaction import Transaction
from txqueue.store.enqueueing.worksets import Part, Parts, Performed
from txqueue.worker.handlers.running_job import RunningJob, change
from txqueue.worker.handlers.runtimes import ended, layered, layered_awaited
from txqueue.worker.handlers.thread_job import ThreadJob, ThreadTransaction
from txqueue.worker.handlers.threads import Blocking, HandlerThreads, ReactorCalls, direct, entering
from txqueue.worker.handlers.waiting import Ended, awaited, waiting_for_task

# A job is replaced by a new one after this many seconds, so that other jobs get their turn.
TURN = 5.0
# Seconds to wait for another session that is writing, and the most to wait for a retry.
PAUSE, LONGEST_REST = 0.05, 30.0
# A part that fails, or whose process dies, is split into this many parts, then into single items.
PIECES = 25
# A single item fails once this many processes have died with it.
MOST_DEATHS = 2


def split_size(part: Part) -> int:
    """Return the size of the parts to split a part into: smaller ones, then single items."""
    return 1 if part.keys is not None else -(-part.items // PIECES)


def is_deadly(part: Part) -> bool:
    """Tell whether a part is a single item during which too many processes have died."""
    return part.items == 1 and part.taken > MOST_DEATHS


@define(eq=False)
class RunningPart:
    """A part of a workset while its items are processed; the argument of `perform_part`.

    Attributes:
        job: The `RunningJob` that processes the part.
        items: The items of the part.
        is_counted: Whether the part's own transaction has counted the items as processed.
    """

    job: RunningJob
    items: list[WorksetItem]
    _keys: list[str]
    _refused: list[dict[str, Any]]
    _part: Part
    _parts: Parts
    _failed: dict[int, BaseException] = field(factory=dict, init=False)
    is_counted: bool = field(default=False, init=False)
    _has_transaction: bool = field(default=False, init=False)

    log = Logger()

    @property
    def attempt(self) -> int:
        """The number of this attempt to process the items, from 1."""
        return self._part.attempt + 1

    def beat(self) -> None:
        """Report that the handler is alive; required within each ``heartbeat`` if the class has
        one.
        """
        self.job.beat()

    def fail(self, item: WorksetItem, error: BaseException) -> None:
        """Mark an item as failed, to be retried by its class's policy; items not marked are done.

        Args:
            item: One of ``items``, the object itself.
            error: The error to store; with a `Fail` the item is not retried.

        Raises:
            ValueError: When the object is not one of ``items``.
        """
        index = next(
            (number for number, candidate in enumerate(self.items) if candidate is item), None
        )
        if index is None:
            raise ValueError("that is not an item of this part: pass one of its objects")
        self._failed[index] = error

    def fail_all(self, error: BaseException) -> None:
        """Mark all items of the part as failed."""
        self._failed = dict.fromkeys(range(len(self.items)), error)

    def heard(self, item: WorksetItem, value: object) -> None:
        """Note what the handler of one item has returned or raised."""
        if self.is_counted and is_a(value, Exception):
            self.log_late(value)
        elif is_a(value, Exception):
            self.fail(item, cast("Exception", value))

    def log_late(self, error: object) -> None:
        """Log an error of a handler whose transaction has counted the items before."""
        is_hidden = any(type(item).redacted for item in self.items)
        self.log.error(
            "job {job_id}: its handler failed after a part was counted: {said}",
            job_id=self.job.id,
            said=class_name(error) if is_hidden else summary_of(error),
        )

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        """Open a transaction whose commit also counts the items as processed, atomically.

        Raises:
            TokenLost: At its end, when the job has been assigned elsewhere since.
            TransactionMisused: When one is open, or one has counted the items.
        """
        if self._has_transaction:
            raise TransactionMisused(
                "the part opens a transaction of its own while it has one open, or has had one",
                "write everything in one part.transaction(), in perform_part",
            )
        self._has_transaction = True
        try:
            async with self._parts.connections.transaction() as connection:
                with Transaction(connection, self._parts.schema) as txn:
                    yield txn
                call = self._parts.counting(self.performed())
                if not (await connection.query(*call))[0][0]:
                    raise _lost(self.job.id)
            self.is_counted = True
        finally:
            self._has_transaction = self.is_counted

    def performed(self) -> Performed:
        """Return the part as processed, with the errors of its failed items."""
        failures = (self._failure(index, error) for index, error in sorted(self._failed.items()))
        return Performed(
            self._part.id, self._refused + [failure for failure in failures if failure]
        )

    def _failure(self, index: int, error: BaseException) -> dict[str, Any] | None:
        retry = type(self.items[index]).retry
        verdict = judge(error, retry, self._part.attempt, random.random())
        if verdict.outcome == "cancelled":
            return None
        failure = {"key": self._keys[index], "error": verdict.error or class_name(error)}
        return failure if verdict.delay is None else {**failure, "delay": verdict.delay}


class ThreadPart(Blocking[RunningPart]):
    """A part of a workset, as a function in a thread processes it; see `RunningPart`.

    Attributes:
        items: The items of the part.
        attempt: The number of this attempt to process the items, from 1.
    """

    items: list[WorksetItem]
    attempt: int

    __slots__ = ()

    @property
    def job(self) -> ThreadJob:
        """The `ThreadJob` that processes the part."""
        return ThreadJob(self._target.job, self._calls)

    beat = direct(RunningPart.beat)
    fail = direct(RunningPart.fail)
    heard = direct(RunningPart.heard)
    transaction = entering(RunningPart.transaction, ThreadTransaction)


class WorksetWork:
    """Works through worksets in one worker process.

    Args:
        reactor: The worker's reactor.
        threads: Run threaded handlers.
        parts: Returns a workset, as a run of its job takes parts of it.
    """

    def __init__(
        self, reactor: IStoreReactor, threads: HandlerThreads, parts: Callable[..., Parts]
    ) -> None:
        self._reactor, self._threads, self._parts = reactor, threads, parts

    async def work_through(self, cls: type[WorksetItem], job: RunningJob) -> Snooze | None:
        """Process parts of a workset until none is left or the job's turn is over.

        Returns:
            `Snooze` until an item is due; None if the job has ended.
        """
        parts = self._parts(cls, job.token, job.id)
        until = self._reactor.seconds() + TURN
        performed: Performed | None = None
        while self._reactor.seconds() < until:
            answer = await parts.next(performed)
            performed = None
            job.beat()
            if not answer.held:
                raise _lost(job.id)
            if answer.part is not None:
                performed = await self._perform(parts, job, answer.part)
            elif cls.source is None or not await self._cut(parts):
                if answer.due_in is not None:
                    return Snooze(min(max(answer.due_in, PAUSE), LONGEST_REST))
                if await parts.end():
                    change(job, is_completed=True)
                    return None
                await deferLater(self._reactor, PAUSE)
        await parts.pass_on(performed)
        change(job, is_completed=True)
        return None

    async def _cut(self, parts: Parts) -> bool:
        """Divide more rows of an application's table into parts; return False if none is left."""
        cut = await parts.cut()
        if cut is None:
            await deferLater(self._reactor, PAUSE)
        return cut is not False

    async def _perform(self, parts: Parts, job: RunningJob, part: Part) -> Performed | None:
        """Process a part; return it to be counted, or None if it is counted already or split."""
        content, keys = await _read(parts, part)
        if is_deadly(part):
            error = f"poison: {MOST_DEATHS} processes died while they performed it"
            return Performed(part.id, [{"key": key, "error": error} for key in keys])
        if part.taken > 1 and part.items > 1:
            await _split(parts, part, keys)
            return None
        running = RunningPart(job, *_decoded(parts.cls, content, keys), part, parts)
        try:
            await self._run(parts.cls, running)
        except (CancelledError, TokenLost):
            raise
        except BaseException as error:
            if not running.is_counted and part.items > 1:
                await _split(parts, part, keys)
                return None
            if running.is_counted:
                running.log_late(error)
            running.fail_all(error)
        return None if running.is_counted else running.performed()

    async def _run(self, cls: type[WorksetItem], running: RunningPart) -> None:
        if cls.runtime is Runtime.THREAD:
            call = partial(self._in_thread, cls, running)
        else:
            call = partial(_in_turn, cls, running)
        around = layered_awaited(coroutine_layers(), call, running.job)
        ending = Deferred.fromCoroutine(awaited(around()))
        if cls.timeout is not None:
            ending.addTimeout(cast("float", cls.timeout), self._reactor, _timed_out)
        (await ending).get()

    async def _in_thread(self, cls: type[WorksetItem], running: RunningPart) -> None:
        def perform(calls: ReactorCalls) -> None:
            part = ThreadPart(running, calls)
            layered(thread_layers(), lambda: _without_waits(_in_turn(cls, part)), part.job)()

        (await self._threads.run(running.job, perform)).get()


async def _read(parts: Parts, part: Part) -> tuple[str, Sequence[str]]:
    if parts.cls.source is not None:
        return await parts.rows(part)
    content = part.content or "[]"
    return content, part.keys or [str(number) for number in range(1, part.items + 1)]


async def _split(parts: Parts, part: Part, keys: Sequence[str]) -> None:
    if not await parts.split(part, keys, split_size(part)):
        raise _lost(parts.job_id)


def _timed_out(ended: Ended | Failure, timeout: float) -> Ended:
    if isinstance(ended, Ended) and ended.error is None:
        return ended
    return Ended(error=TimeoutError(timeout, "Deferred"))


def _without_waits(coroutine: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine in a thread, where it awaits nothing."""
    with suppress(StopIteration):
        coroutine.send(None)


async def _in_turn(cls: type[WorksetItem], running: RunningPart | ThreadPart) -> None:
    if cls.performs_parts():
        await _value_of(cls, cls.perform_part(running.items, running))
        return
    for item in running.items:
        try:
            value = await _value_of(cls, item.perform(running))
        except CancelledError:
            raise
        except Exception as error:
            value = error
        running.heard(item, value)


async def _value_of(cls: type[WorksetItem], value: Any) -> Any:
    """Wait for a Twisted or asyncio coroutine or a Deferred; return any other value as it is."""
    if cls.runtime is Runtime.ASYNCIO:
        return (await waiting_for_task(value).ending).get()
    return value if cls.runtime is Runtime.THREAD else await ended(value)


def _decoded(
    cls: type[WorksetItem], content: str, keys: Sequence[str]
) -> tuple[list[WorksetItem], list[str], list[dict[str, Any]]]:
    """Return a part's valid items, their keys, and the errors of the invalid items."""
    structure = decoder(cls)
    plain = json.loads(content)
    try:
        return [structure(values, cls) for values in plain], list(keys), []
    except Exception:
        return _decoded_singly(cls, plain, keys)


def _decoded_singly(
    cls: type[WorksetItem], plain: Sequence[Any], keys: Sequence[str]
) -> tuple[list[WorksetItem], list[str], list[dict[str, Any]]]:
    items: list[WorksetItem] = []
    fit: list[str] = []
    refusals = []
    for values, key in zip(plain, keys, strict=True):
        try:
            items.append(cast(WorksetItem, decode(cls, values)))
            fit.append(key)
        except InvalidWork as error:
            refusals.append({"key": key, "error": str(error)})
    return items, fit, refusals


def _lost(job_id: int) -> TokenLost:
    return TokenLost(
        f"job {job_id} has been assigned elsewhere since",
        "nothing: its part is processed again, and this run's writes are rolled back",
    )

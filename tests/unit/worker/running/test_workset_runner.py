"""Working through a workset: how its handlers end, whatever runtime they are of."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from threading import Thread, current_thread, main_thread
from typing import Any, cast

import pytest
from attrs import define
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.python.threadpool import ThreadPool
from zope.interface import provider

from tests.waiting import running_reactor
from txqueue import Runtime, WorksetItem, middleware
from txqueue.model import directives as registry
from txqueue.model.assignment import AssignedJob, Assignment
from txqueue.model.job import Token
from txqueue.store.enqueueing.worksets import NextPart, Part, Parts
from txqueue.worker.handlers.running_job import HeldAssignment, begun
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.running.workset_runner import WorksetWork


@define
class Slow(WorksetItem):
    """Never ends, or ends its process."""

    deadly: bool

    runtime = Runtime.ASYNCIO

    async def perform(self, job: Any) -> None:
        """Do one of them."""
        if self.deadly:
            raise SystemExit(3)
        BEGUN[0].callback(None)
        await asyncio.sleep(60)


@define
class Counts(WorksetItem):
    """Counts its part, in some transactions."""

    times: int

    async def perform(self, job: Any) -> None:
        """Count the part."""
        for _ in range(self.times):
            async with job.transaction() as txn:
                await txn.execute("insert")


@define
class Threaded(WorksetItem):
    """Notes its thread."""

    number: int

    runtime = Runtime.THREAD

    def perform(self, job: Any) -> None:
        """Note it, and count the part."""
        NOTES.append((f"item {self.number}", current_thread()))
        with job.transaction() as txn:
            txn.execute("insert")


NOTES: list[tuple[str, Thread]] = []


class Connections:
    """Note the statements of the transactions that have committed."""

    def __init__(self) -> None:
        self.committed: list[str] = []
        self.is_reusable, self.is_idle = True, False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """One that commits."""
        self.written: list[str] = []
        yield self
        self.committed += self.written

    async def query(self, sql: str, *_: object, **__: object) -> list[list[bool]]:
        """Note it; a part is counted by it."""
        self.written.append(sql.split(maxsplit=1)[0])
        return [[True]]


BEGUN: list[Deferred[None]] = []


class OnePart:
    """A workset with one part, and then nothing."""

    def __init__(self, content: str) -> None:
        self.content: str | None = content
        self.counted: list[Any] = []
        self.schema = "txqueue"
        self.connections = Connections()

    def of(self, cls: type[WorksetItem], token: Token, job_id: int) -> Parts:
        """It, as a run takes parts of it."""
        own = Parts(cast("Any", self.connections), self.schema, cls, token, job_id)
        self.cls, self.job_id, self.counting = cls, job_id, own.counting
        return cast("Parts", self)

    async def next(self, performed: Any) -> NextPart:
        """Hand it out once."""
        if performed is not None:
            self.counted += performed.failures
        content, self.content = self.content, None
        part = None if content is None else Part(1, None, None, None, 1, 0, 1, content)
        return NextPart(held=True, part=part, due_in=None)

    async def end(self, *_: object) -> bool:
        """It has ended."""
        return True


def work_through(
    parts: OnePart, cls: type[WorksetItem] = Slow, threads: HandlerThreads | None = None
) -> Deferred[Any]:
    """Begin to work through it."""
    assigned = AssignedJob(7, "pooling.job", 1, 1, {})
    job = begun(assigned, HeldAssignment(Assignment(1, 1, 0, 1, 1, "")), cast("Any", None))
    work = WorksetWork(running_reactor(), cast("Any", threads), parts.of)
    return Deferred.fromCoroutine(work.work_through(cls, job))


async def test_a_cancelled_job_ends_whatever_its_items_wait_for() -> None:
    """Those of asyncio as well: they are not taken for failed, and nothing more is taken."""
    BEGUN[:] = [Deferred()]
    parts = OnePart('[{"deadly": false}]')
    working = work_through(parts)
    await BEGUN[0]
    working.cancel()
    with pytest.raises(CancelledError):
        await working
    assert parts.counted == []


async def test_an_item_that_exits_has_failed() -> None:
    """The process and its other jobs continue."""
    parts = OnePart('[{"deadly": true}]')
    assert await work_through(parts) is None
    (failed,) = parts.counted
    assert "SystemExit" in failed["error"]


async def test_a_part_is_counted_by_one_transaction() -> None:
    """What a second one wrote would be lost silently: it is refused, and the log says so."""
    parts = OnePart('[{"times": 2}]')
    logged: list[str] = []

    @provider(ILogObserver)
    def observe(event: LogEvent) -> None:
        logged.append(formatEvent(event))

    globalLogPublisher.addObserver(observe)
    try:
        assert await work_through(parts, Counts) is None
    finally:
        globalLogPublisher.removeObserver(observe)
    assert parts.connections.committed == ["insert", "select"]
    assert any("job 7: its handler failed after a part was counted" in each for each in logged)
    assert any("opens a transaction of its own while it has one open" in each for each in logged)


async def test_middleware_runs_around_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coroutine in the reactor, a plain function in the thread of the items."""
    monkeypatch.setattr(registry, "_registered", [])
    NOTES.clear()

    @middleware
    async def outer(call_next: Any, job: Any) -> None:
        NOTES.append((f"outer {job.id}", current_thread()))
        await call_next()
        NOTES.append(("outer ends", current_thread()))

    @middleware
    def inner(call_next: Any, job: Any) -> None:
        NOTES.append((f"inner {job.id}", current_thread()))
        call_next()

    pool = ThreadPool(0, 1)
    pool.start()
    threads = HandlerThreads(running_reactor(), pool, most=1)
    try:
        parts = OnePart('[{"number": 1}]')
        assert await work_through(parts, Threaded, threads) is None
    finally:
        pool.stop()
    assert [name for name, _ in NOTES] == ["outer 7", "inner 7", "item 1", "outer ends"]
    assert NOTES[1][1] is NOTES[2][1] is not main_thread()
    assert parts.connections.committed == ["insert", "select"]

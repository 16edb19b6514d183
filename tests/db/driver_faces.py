"""Each driver for which there is an adapter, behind one face, so that one test tries them all.

A face opens a connection that is in a transaction as soon as a statement is sent. Tests are
coroutines: those of drivers that block never wait, so they are run without an event loop.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    asynccontextmanager,
    closing,
)
from typing import Any, Final, TypeVar

import asyncpg
import psycopg
import psycopg2
import pytest
import sqlalchemy
from attrs import define, field
from django.db import connections as django_connections
from django.db import transaction as django_transaction
from psycopg2.extensions import parse_dsn
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool

import txqueue.adapters.asyncpg
import txqueue.adapters.django
import txqueue.adapters.psycopg
import txqueue.adapters.psycopg2
import txqueue.adapters.sqlalchemy
import txqueue.aio
import txqueue.sync
from tests.django_shop.configuration import set_up_django
from txqueue import WorkItem

T = TypeVar("T")


@define
class Face:
    """An open connection of a driver, and the adapter's functions for it."""

    adapter: Any
    handle: Any
    query: Any
    commit: Any
    rollback: Any
    prefix: str = ""
    first: tuple[Any, ...] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.first = () if self.handle is None else (self.handle,)

    async def enqueue(self, work: WorkItem, **options: Any) -> int:
        """Enqueue."""
        return await self._called("enqueue", work, **options)  # type: ignore[no-any-return]

    async def enqueue_many(self, works: Iterable[WorkItem], **options: Any) -> list[int]:
        """Enqueue many."""
        return await self._called("enqueue_many", works, **options)  # type: ignore[no-any-return]

    async def signal(self, of: Any, name: str, value: Any = None, **options: Any) -> bool:
        """Send a signal."""
        return await self._called("signal", of, name, value, **options)  # type: ignore[no-any-return]

    async def execute(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement of the application; return its rows."""
        return [tuple(row) for row in await now(self.query(sql))]

    async def end(self, *, commit: bool) -> None:
        """Commit or roll back."""
        await now(self.commit() if commit else self.rollback())

    @asynccontextmanager
    async def batch(self, callback: WorkItem, **options: Any) -> AsyncIterator[Any]:
        """Collect a batch; the value has awaitable methods, whatever the driver."""
        made = getattr(self.adapter, f"{self.prefix}batch")(*self.first, callback, **options)
        if hasattr(made, "__aenter__"):
            async with made as batch:
                yield batch
        else:
            with made as batch:
                yield batch

    async def _called(self, name: str, *arguments: Any, **options: Any) -> Any:
        function = getattr(self.adapter, f"{self.prefix}{name}")
        return await now(function(*self.first, *arguments, **options))


async def now(value: Any) -> Any:
    """Await what can be awaited."""
    return await value if hasattr(value, "__await__") else value


def rows_of(cursor: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a cursor of a blocking driver; none if it has no result."""
    return [] if cursor.description is None else cursor.fetchall()


@asynccontextmanager
async def with_psycopg2(dsn: str) -> AsyncIterator[Face]:
    """Open one of psycopg2."""
    connection = psycopg2.connect(dsn)

    def query(sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return rows_of(cursor)

    try:
        adapter = txqueue.adapters.psycopg2
        yield Face(adapter, connection, query, connection.commit, connection.rollback)
    finally:
        connection.close()


@asynccontextmanager
async def with_psycopg(dsn: str) -> AsyncIterator[Face]:
    """Open one of psycopg 3."""
    # Its own context manager would commit.
    with closing(psycopg.Connection.connect(dsn, prepare_threshold=None)) as connection:
        yield Face(
            txqueue.adapters.psycopg,
            connection,
            lambda sql: rows_of(connection.execute(sql.encode())),
            connection.commit,
            connection.rollback,
        )


@asynccontextmanager
async def with_psycopg_async(dsn: str) -> AsyncIterator[Face]:
    """Open an asynchronous one of psycopg 3."""
    connection = await psycopg.AsyncConnection.connect(dsn, prepare_threshold=None)

    async def query(sql: str) -> Any:
        cursor = await connection.execute(sql.encode())
        return [] if cursor.description is None else await cursor.fetchall()

    try:
        adapter = txqueue.adapters.psycopg
        yield Face(adapter, connection, query, connection.commit, connection.rollback, "a")
    finally:
        await connection.close()


@asynccontextmanager
async def with_asyncpg(dsn: str) -> AsyncIterator[Face]:
    """Open one of asyncpg, in a transaction, as it would commit each statement otherwise."""
    connection = await asyncpg.connect(**asyncpg_address(dsn), statement_cache_size=0)
    transactions = [connection.transaction()]
    await transactions[0].start()

    async def end(*, commit: bool) -> None:
        last = transactions.pop()
        await (last.commit() if commit else last.rollback())
        transactions.append(connection.transaction())
        await transactions[0].start()

    try:
        yield Face(
            txqueue.adapters.asyncpg,
            connection,
            connection.fetch,
            lambda: end(commit=True),
            lambda: end(commit=False),
        )
    finally:
        await connection.close()


def asyncpg_address(dsn: str) -> dict[str, Any]:
    """Return a libpq DSN as asyncpg names its parts."""
    parts = parse_dsn(dsn)
    return {
        "host": parts["host"],
        "port": int(parts.get("port", 5432)),
        "user": parts["user"],
        "database": parts["dbname"],
    }


def url_of(driver: str, dsn: str) -> sqlalchemy.URL:
    """Return a libpq DSN as SQLAlchemy names it."""
    parts = parse_dsn(dsn)
    socket = {"host": parts["host"], "port": parts.get("port", "5432")}
    return sqlalchemy.URL.create(
        f"postgresql+{driver}", parts["user"], database=parts["dbname"], query=socket
    )


def rows_of_result(result: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a result of SQLAlchemy."""
    return result.all() if result.returns_rows else []


ARGUMENTS: Final[dict[str, dict[str, Any]]] = {
    "psycopg2": {},
    "psycopg": {"connect_args": {"prepare_threshold": None}},
    "asyncpg": {"connect_args": {"statement_cache_size": 0, "prepared_statement_cache_size": 0}},
}
"""What each driver needs for a pooler; SQLAlchemy passes it on."""


def with_sqlalchemy(
    driver: str, made: Callable[[Any], Any]
) -> Callable[[str], AbstractAsyncContextManager[Face]]:
    """Return how to open a Connection or a Session of SQLAlchemy over a driver."""

    @asynccontextmanager
    async def opened(dsn: str) -> AsyncIterator[Face]:
        engine = sqlalchemy.create_engine(
            url_of(driver, dsn), poolclass=NullPool, **ARGUMENTS[driver]
        )
        with made(engine) as bind:
            yield Face(
                txqueue.adapters.sqlalchemy,
                bind,
                lambda sql: rows_of_result(bind.execute(sqlalchemy.text(sql))),
                bind.commit,
                bind.rollback,
            )

    return opened


def with_async_sqlalchemy(
    driver: str, made: Callable[[Any], Any]
) -> Callable[[str], AbstractAsyncContextManager[Face]]:
    """Return how to open an AsyncConnection or an AsyncSession of SQLAlchemy over a driver."""

    @asynccontextmanager
    async def opened(dsn: str) -> AsyncIterator[Face]:
        engine = create_async_engine(url_of(driver, dsn), poolclass=NullPool, **ARGUMENTS[driver])

        async def query(sql: str) -> Any:
            return rows_of_result(await bind.execute(sqlalchemy.text(sql)))

        async with made(engine) as bind:
            yield Face(txqueue.adapters.sqlalchemy, bind, query, bind.commit, bind.rollback, "a")

    return opened


@asynccontextmanager
async def with_django(dsn: str) -> AsyncIterator[Face]:
    """Open the one of Django, outside of `atomic`, with autocommit off."""
    set_up_django(dsn)
    connection = django_connections["default"]

    def query(sql: str) -> Any:
        with connection.cursor() as cursor:
            cursor.execute(sql)
            return rows_of(cursor)

    django_transaction.set_autocommit(False)
    try:
        adapter = txqueue.adapters.django
        yield Face(adapter, None, query, connection.commit, connection.rollback)
    finally:
        connection.close()


class OfQueue:
    """The transaction of a queue without Twisted, with the functions of an adapter."""

    def __init__(self, transaction: type[Any]) -> None:
        self._transaction = transaction

    def enqueue(self, txn: Any, work: WorkItem, *, schema: str = "txqueue", **options: Any) -> Any:
        """Enqueue."""
        return self._transaction(txn.connection, schema).enqueue(work, **options)

    def enqueue_many(self, txn: Any, works: Iterable[WorkItem], **options: Any) -> Any:
        """Enqueue many."""
        return txn.enqueue_many(works, **options)

    def signal(self, txn: Any, *what: Any, schema: str = "txqueue", **options: Any) -> Any:
        """Send a signal."""
        return self._transaction(txn.connection, schema).signal(*what, **options)

    def batch(self, txn: Any, callback: WorkItem, **options: Any) -> Any:
        """Collect a batch."""
        return txn.batch(callback, **options)


@asynccontextmanager
async def with_aio_queue(dsn: str) -> AsyncIterator[Face]:
    """Open the transactions of the queue for asyncio, one after the other."""
    async with await txqueue.aio.Queue.connect(dsn) as queue:
        stack = AsyncExitStack()
        face = Face(OfQueue(txqueue.aio.AsyncTransaction), None, None, None, None)

        async def begin() -> None:
            txn = await stack.enter_async_context(queue.transaction())
            face.first = (txn,)

        async def query(sql: str) -> Any:
            cursor = await face.first[0].execute(sql.encode())
            return [] if cursor.description is None else await cursor.fetchall()

        async def end(error: BaseException | None) -> None:
            await stack.__aexit__(type(error) if error else None, error, None)
            await begin()

        face.query, face.commit = query, lambda: end(None)
        face.rollback = lambda: end(psycopg.Rollback())
        await begin()
        try:
            yield face
        finally:
            # Else a test that fails leaves locks on which the next one waits.
            await stack.__aexit__(psycopg.Rollback, psycopg.Rollback(), None)


@asynccontextmanager
async def with_sync_queue(dsn: str) -> AsyncIterator[Face]:
    """Open the transactions of the queue for threads, one after the other."""
    with txqueue.sync.Queue.connect(dsn) as queue:
        stack = ExitStack()
        face = Face(OfQueue(txqueue.sync.BlockingTransaction), None, None, None, None)

        def begin() -> None:
            face.first = (stack.enter_context(queue.transaction()),)

        def end(error: BaseException | None) -> None:
            stack.__exit__(type(error) if error else None, error, None)
            begin()

        face.query = lambda sql: rows_of(face.first[0].execute(sql.encode()))
        face.commit = lambda: end(None)
        face.rollback = lambda: end(psycopg.Rollback())
        begin()
        try:
            yield face
        finally:
            # Else a test that fails leaves locks on which the next one waits.
            stack.__exit__(psycopg.Rollback, psycopg.Rollback(), None)


BLOCKING: Final[dict[str, Callable[[str], AbstractAsyncContextManager[Face]]]] = {
    "psycopg2": with_psycopg2,
    "psycopg": with_psycopg,
    "sqlalchemy-connection-psycopg2": with_sqlalchemy("psycopg2", lambda each: each.connect()),
    "sqlalchemy-session-psycopg": with_sqlalchemy("psycopg", Session),
    "django": with_django,
    "sync-queue": with_sync_queue,
}
NOT_BLOCKING: Final[dict[str, Callable[[str], AbstractAsyncContextManager[Face]]]] = {
    "psycopg-async": with_psycopg_async,
    "aio-queue": with_aio_queue,
    "asyncpg": with_asyncpg,
    "sqlalchemy-connection-asyncpg": with_async_sqlalchemy("asyncpg", lambda each: each.connect()),
    "sqlalchemy-session-asyncpg": with_async_sqlalchemy("asyncpg", AsyncSession),
    "sqlalchemy-session-psycopg-async": with_async_sqlalchemy("psycopg", AsyncSession),
}
SUBJECTS: Final = ("txqueue/adapters", "txqueue/testing")
FEW: Final = ("psycopg2", "django", "sync-queue", "psycopg-async", "aio-queue", "asyncpg")
NAMES: Final = [
    name if name in FEW else pytest.param(name, marks=pytest.mark.slow(*SUBJECTS))
    for name in (*BLOCKING, *NOT_BLOCKING)
]
"""Those that have the adapter's code in common with one of the few are played with its changes."""


def tried(name: str, dsn: str, test: Callable[[Face], Coroutine[Any, Any, T]]) -> T:
    """Run a test over a connection of a driver, as programs with that driver would."""

    async def over_a_connection() -> T:
        async with {**BLOCKING, **NOT_BLOCKING}[name](dsn) as face:
            return await test(face)

    run: Callable[[Coroutine[Any, Any, T]], T] = run_now if name in BLOCKING else asyncio.run
    # In a thread, as the loop of this one is the reactor's, in which Django would do nothing.
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run, over_a_connection()).result(60)


def run_now(test: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, without an event loop."""
    try:
        test.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    raise AssertionError("a driver that blocks has made a coroutine wait")

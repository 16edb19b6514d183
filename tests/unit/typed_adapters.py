"""Enqueueing over each driver as applications type it, for the type checkers in strict mode."""

from typing import assert_type

import psycopg as driver
from attrs import define
from psycopg2.extensions import connection as OlderConnection
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.orm import Session

from txqueue import Batch, EnqueueOptions, Job, RunningJob, WorkItem, aio, sync
from txqueue.adapters import (
    BlockingBatch,
    django,
    error_of,
    psycopg,
    psycopg2,
    sqlalchemy,
    statement,
    statements,
)
from txqueue.errors import TxqueueError


@define
class Plain(WorkItem):
    """Some work."""

    order: int

    def perform(self, job: RunningJob) -> None:
        """Do nothing."""


def blocking(connection: driver.Connection, older: OlderConnection, session: Session) -> None:
    """Enqueue over drivers that block."""
    options: EnqueueOptions = {"priority": 4, "group": "a"}
    assert_type(psycopg.enqueue(connection, Plain(1), savepoint=True, **options), int)
    assert_type(psycopg2.enqueue_many(older, [Plain(1)], schema="other"), list[int])
    assert_type(sqlalchemy.enqueue(session, Plain(1)), int)
    assert_type(django.enqueue(Plain(1), using="other"), int)
    with psycopg.batch(connection, Plain(2)) as batch:
        assert_type(batch, BlockingBatch)
        assert_type(batch.enqueue(Plain(3), priority=1), int)
    sql, _ = statement(Plain(1), paramstyle="numeric_dollar", queue="mail")
    assert_type(sql, str)
    assert_type([each for each, _ in statements([Plain(1)], paramstyle="named")], list[str])
    assert_type(error_of(ValueError()), TxqueueError | None)
    psycopg.enqueue(connection, Plain(1), prority=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    psycopg.enqueue(connection, Plain(1), priority="high")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    psycopg.enqueue(connection, "mail")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    django.enqueue_many([Plain(1)], using=None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    statement(Plain(1), paramstyle="qmark")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def without_twisted(queue: sync.Queue) -> None:
    """Use the queue for threads."""
    assert_type(queue.enqueue(Plain(1), priority=7), int)
    assert_type(queue.wait(7, timeout=1), object)
    assert_type(queue.job(7), Job)
    with queue.transaction() as txn, txn.batch(Plain(1)) as batch:
        assert_type(txn.enqueue_many([Plain(1)], savepoint=True), list[int])
        assert_type(batch.enqueue(Plain(1)), int)
    queue.enqueue(Plain(1), prority=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def without_twisted_in_asyncio() -> None:
    """Use the queue for asyncio."""
    async with await aio.Queue.connect() as queue:
        assert_type(await queue.enqueue(Plain(1), priority=7), int)
        assert_type(await queue.wait(7, timeout=1), object)
        assert_type(await queue.retry(7, 8), tuple[list[int], list[int]])
        async with queue.transaction() as txn, txn.batch(Plain(1)) as batch:
            assert_type(await txn.enqueue(Plain(1)), int)
            assert_type(await batch.enqueue(Plain(1)), int)


async def not_blocking(
    connection: driver.AsyncConnection, session: AsyncSession, other: AsyncConnection
) -> None:
    """Enqueue over drivers that do not."""
    assert_type(await psycopg.aenqueue(connection, Plain(1)), int)
    assert_type(await sqlalchemy.aenqueue(session, Plain(1)), int)
    assert_type(await sqlalchemy.aenqueue_many(other, [Plain(1)]), list[int])
    async with sqlalchemy.abatch(session, Plain(2)) as batch:
        assert_type(batch, Batch)

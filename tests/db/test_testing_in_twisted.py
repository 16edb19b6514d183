"""`txqueue.testing` in a coroutine of Twisted's: a queue's transaction, handlers that wait."""

from __future__ import annotations

from typing import Any

import pytest
from twisted.internet.defer import Deferred
from txpostgres import txpostgres

from tests.db.letters import opened
from tests.db.tested_work import Mail, Patient, Transfer, add
from txqueue import WorkQueue, enqueue, testing


async def test_jobs_of_a_transaction_run_in_it(migrated_database18: str) -> None:
    """Jobs of an open transaction are found and run through it, and are gone after a rollback."""
    async with opened(migrated_database18) as queue:
        with pytest.raises(LookupError):
            await run_jobs_and_fail(queue)
        async with queue.transaction() as txn:
            await testing.arefute_enqueued(connection=txn)


async def run_jobs_and_fail(queue: WorkQueue) -> None:
    """Enqueue jobs and run them in one transaction, which an error ends."""
    async with queue.transaction() as txn:
        await txn.execute("create table app (amount bigint, text text)")
        await txn.enqueue(Patient())
        await txn.enqueue(Transfer(3))
        await txn.enqueue(add.work(1))
        await testing.aassert_enqueued(Patient, connection=txn)
        outcomes = await testing.adrain(connection=txn)
        assert [each.kind for each in outcomes] == ["done"] * 4
        assert outcomes[0].get() == "waited"
        assert outcomes[0].progress == [1, 2, "half"]
        assert await txn.execute("select amount from app") == [(3,)]
        await testing.aassert_enqueued(Mail, state="done", connection=txn)
        raise LookupError


async def test_a_job_of_another_process_is_awaited(migrated_database18: str) -> None:
    """With within, an assertion waits for a job to be committed, and no longer than that."""
    async with opened(migrated_database18) as queue, queue.transaction() as txn:
        with pytest.raises(AssertionError, match=r"is enqueued after 0.05 s"):
            await testing.aassert_enqueued(Mail, within=0.05, connection=txn)
        await queue.enqueue(Mail("ada"))
        await testing.aassert_enqueued(Mail, within=30, connection=txn)


async def test_a_handler_that_waits_is_performed() -> None:
    """The reactor runs it, and its timeout."""
    outcome = await testing.aperform(Patient())
    assert outcome.get() == "waited"
    assert outcome.progress == [1, 2, "half"]
    outcome = await testing.aperform(Patient(60), timeout=0.01)
    assert isinstance(outcome.error, TimeoutError)


def test_a_handler_that_waits_needs_a_reactor() -> None:
    """Where none runs, the error says which function to call."""
    with pytest.raises(TypeError, match=r"await aperform\(\) in a test of trial"):
        testing.perform(Patient())


async def test_jobs_of_an_interaction_of_txpostgres(migrated_database18: str) -> None:
    """The cursor of an application's own runInteraction is a connection too."""
    connection = txpostgres.Connection()
    await connection.connect(migrated_database18)

    async def interaction(cursor: Any) -> list[str]:
        await enqueue(cursor, Patient())
        await enqueue(cursor, Transfer(0))
        await testing.aassert_enqueued(Patient, connection=cursor)
        outcomes = await testing.adrain(connection=cursor, raise_errors=False)
        return [each.kind for each in outcomes]

    try:
        kinds = await connection.runInteraction(
            lambda cursor: Deferred.fromCoroutine(interaction(cursor))
        )
        assert kinds == ["done", "retry"]
    finally:
        connection.close()

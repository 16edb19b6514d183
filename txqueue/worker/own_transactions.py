"""The transactions in which a worker's jobs write and complete, and the connections for them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

from attrs import astuple

from txqueue.store.connection import Statement
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.driver import IStoreReactor
from txqueue.store.session_bounds import of_a_worker
from txqueue.store.transaction import Transaction
from txqueue.worker.next_stages import enqueue_follow_ups
from txqueue.worker.running_job import RunningJob, change

__all__ = ["MOST_COMPLETING", "MOST_CONNECTIONS", "OwnTransactions"]

MOST_CONNECTIONS: Final = 4
"""Connections for handlers; they may keep them for as long as they run."""

MOST_COMPLETING: Final = 2
"""Connections for what must not wait for handlers; opened only while those have all of theirs."""

_COMPLETE_ONE: Final = """
    select {schema}.complete_one(
        its_incarnation => %s, its_assignment => %s, its_job_id => %s, its_result => %s,
        its_progress => %s, its_lane => %s)"""

_NOTE_LATE_ERROR: Final = """
    select {schema}.note_late_error(
        its_incarnation => %s, its_assignment => %s, its_job_id => %s, its_error => %s)"""


class OwnTransactions:
    """Opens the own transactions of jobs.

    Args:
        reactor: The worker's reactor.
        dsn: A libpq URI or keyword string.
        schema: The name of the schema.
        name: The worker's name, shown in ``pg_stat_activity``.

    Attributes:
        connections: The connections for handlers.
    """

    def __init__(self, reactor: IStoreReactor, dsn: str, schema: str, name: str) -> None:
        pool = partial(ConnectionPool, reactor, dsn, session=of_a_worker())
        self.connections = pool(MOST_CONNECTIONS, f"txqueue worker {name}")
        self._completing = pool(MOST_COMPLETING, f"txqueue worker {name}")
        self._schema = schema
        self._complete_one = _COMPLETE_ONE.format(schema=schema)
        self._note_late_error = _NOTE_LATE_ERROR.format(schema=schema)

    @asynccontextmanager
    async def open(self, job: RunningJob) -> AsyncIterator[Transaction]:
        """Open a transaction whose commit completes a job and enqueues its follow-up work."""
        pool = self._free if job.has_returned else self.connections
        async with pool.transaction(partial(self._completion, job)) as connection:
            txn = Transaction(connection, self._schema, ends=job.id)
            change(job, within=txn)
            try:
                yield txn
                await enqueue_follow_ups(job, txn)
            finally:
                change(job, within=None)
                txn.end()
        change(job, is_completed=True)

    async def note_late_error(self, job: RunningJob, text: str) -> None:
        """Store the error of a handler whose transaction has completed its job before."""
        await self._free.query(self._note_late_error, (*astuple(job.token), job.id, text))

    def close(self) -> None:
        """Close the connections."""
        self.connections.close()
        self._completing.close()

    @property
    def _free(self) -> ConnectionPool:
        return self._completing if self.connections.is_busy else self.connections

    def _completion(self, job: RunningJob) -> Statement:
        token, lane = astuple(job.token), job.assignment.lane
        return self._complete_one, (*token, job.id, job.result, job.last_progress, lane)

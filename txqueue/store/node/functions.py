"""Calls of the stored functions that nodes use for jobs."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from datetime import datetime
from typing import Any

from txqueue.model.assignment import (
    Assignment,
    CompletedJobs,
    JobKey,
    PassedJobs,
    ReturnedJobs,
    SettledJobs,
    StartedJob,
)
from txqueue.policy.placement.claim_plan import Claim
from txqueue.policy.placement.room import Room
from txqueue.store.driver.connection import Connection
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import RefusedStatements, ServerAnswer
from txqueue.store.driver.listener import Listener, OwnChannel
from txqueue.store.node.outcomes import joined_outcomes, nulls_or_texts
from txqueue.store.node.run_functions import (
    COMPLETE,
    NEXT_JOB,
    OPEN_TRANSACTIONS,
    PASS_ON,
    RELEASE,
    SETTLE,
    STARTED,
    Rows,
    RunFunctions,
    WrittenEnds,
    claim_of,
    open_transactions,
    taken,
)


class StoredFunctions(RunFunctions):
    """The stored functions of one schema: these, and those that concern jobs.

    Args:
        pool: The connections on which the calls run.
        schema: The name of the schema.
        listener: The connection for the claims of ordinary jobs while it is idle, as most of them
            follow a notification, for which the server has just woken its process.
        refused: Notes which of the calls the database refuses.
    """

    def __init__(
        self,
        pool: ConnectionPool,
        schema: str = "txqueue",
        *,
        listener: Listener | None = None,
        refused: RefusedStatements | None = None,
    ) -> None:
        super().__init__(pool, schema, refused)
        self._listener = listener
        self._next_job = NEXT_JOB.format(schema=schema)
        self._complete = COMPLETE.format(schema=schema)
        self._settle = SETTLE.format(schema=schema)

    @property
    def refusal(self) -> ServerAnswer | None:
        """What the server answers to a call that it refuses, if any."""
        return self._refused.first

    @property
    def may_claim(self) -> bool:
        """Whether the database does not refuse claims."""
        return not self._refused.refuses(self._next_job)

    async def _query_often(self, sql: str, parameters: Sequence[object]) -> Rows:
        with self._refused.noted(sql):
            return await self._pool.query_often(sql, parameters)

    async def _query_quickly(self, sql: str, parameters: Sequence[object]) -> Rows:
        """Run a frequent statement on the listening connection if it is idle."""
        with self._refused.noted(sql):
            return await self._quickest.query_often(sql, parameters)

    async def _taken(
        self, asking: Coroutine[Any, Any, Rows], incarnation: int, queues: Sequence[str] = ()
    ) -> Rows:
        """Return the rows of a claim or completion; a job that makes it fail is failed."""
        return await taken(asking, lambda: self._set_aside(incarnation, queues))

    async def next_job(
        self,
        node_id: int,
        incarnation: int,
        queues: Sequence[str],
        work_types: Sequence[str],
        room: Room,
        *,
        chunk_jobs: int,
        since: datetime | None,
        suspects: bool = True,
        reached: tuple[str, int] | None = None,
        after_tenant: str | None = None,
        load: float | None = None,
        turn_length: int = 100,
    ) -> Claim:
        """Promote due jobs and claim ready ones in rank order; see ``next_job()`` in SQL."""
        asked_at = time.monotonic()
        rank, job_id = reached or ("-infinity", 0)
        asking = self._query_often(
            self._next_job,
            (
                node_id,
                incarnation,
                list(queues),
                list(work_types),
                room.free,
                room.largest,
                room.capacity,
                chunk_jobs,
                room.workers,
                since,
                suspects,
                rank,
                job_id,
                after_tenant or "",
                load,
                room.ahead,
                turn_length,
            ),
        )
        rows = await self._taken(asking, incarnation, queues)
        assignments = [_assignment(incarnation, asked_at, row[:6]) for row in rows[:-1]]
        return claim_of(assignments, rows[-1][6:])

    async def claim_ready(
        self,
        node_id: int,
        incarnation: int,
        queues: Sequence[str],
        work_types: Sequence[str],
        at_most: int,
    ) -> tuple[list[Assignment], bool, frozenset[int]]:
        """Claim the first jobs of the current lane, if all of them are ordinary.

        A job is ordinary if it is small, has weight 1, is no suspect, and has no group, tenant or
        limit.

        Returns:
            The jobs taken; whether the first jobs are ordinary (if not, none was taken, and
            `next_job` can take them); the transactions that were open when it began.
        """
        asked_at = time.monotonic()
        asking = self._query_quickly(
            "select lane, assignment, jobs, weight, chunk, is_ordinary,"
            f" {OPEN_TRANSACTIONS}"
            f" from {self.schema}.claim_ready(its_node => %s, its_incarnation => %s,"
            " queues => %s::text[], work_types => %s::text[], at_most => %s)",
            (node_id, incarnation, list(queues), list(work_types), at_most),
        )
        rows = await self._taken(asking, incarnation, queues)
        *row, is_ordinary, begun = rows[0]
        assignments = [_assignment(incarnation, asked_at, row)] if row[2] else []
        return assignments, is_ordinary, open_transactions(begun)

    @property
    def _quickest(self) -> Connection | ConnectionPool:
        """The listening connection if it is idle, otherwise the pool."""
        return (self._listener.idle if self._listener else None) or self._pool

    def channel_of(self, incarnation: int) -> OwnChannel:
        """Return the channel on which a run of a node is notified of jobs assigned to it."""
        return OwnChannel(
            f"select {self.schema}.listen_to_run({incarnation})",
            f"select {self.schema}.probe_run({incarnation})",
        )

    async def grant_credit(self, incarnation: int, jobs: int, unused: int | None) -> int | None:
        """Let any session enqueue so many jobs as assigned to a node: ``grant_credit()`` in SQL.

        Args:
            incarnation: The node's run.
            jobs: How many; 0 withdraws the credit.
            unused: The result of the call before.

        Returns:
            None if the credit is granted or withdrawn; otherwise another node's credit, as one
            number.
        """
        sql = f"select {self.schema}.grant_credit(%s, %s, %s)"
        with self._refused.noted(sql):
            rows = await self._quickest.query(sql, (incarnation, jobs, unused))
        credit: int | None = rows[0][0]
        return credit

    async def complete(self, incarnation: int, completed: Sequence[CompletedJobs]) -> WrittenEnds:
        """Move jobs that are done to history."""
        writing = self._query_often(
            self._complete,
            (
                incarnation,
                [entry.lane for entry in completed],
                [entry.assignment for entry in completed],
                [f"{{{entry.ids}}}" for entry in completed],
                nulls_or_texts([entry.results for entry in completed]),
            ),
        )
        return WrittenEnds.of_row((await self._taken(writing, incarnation))[0])

    async def settle(self, incarnation: int, settled: Sequence[SettledJobs]) -> WrittenEnds:
        """Write outcomes that `complete` cannot write."""
        writing = self._query_often(self._settle, (incarnation, joined_outcomes(settled)))
        return WrittenEnds.of_row((await self._taken(writing, incarnation))[0])

    async def notify_ends(self, numbers: str) -> float:
        """Notify waiting clients of ended jobs; see ``notify_ends()`` in SQL.

        Args:
            numbers: The jobs' numbers, joined by commas; empty for any job.

        Returns:
            For how many more seconds clients have asked for notifications.
        """
        sql = f"select {self.schema}.notify_ends(%s)"
        return float((await self._query_often(sql, (numbers,)))[0][0])

    async def started(self, incarnation: int, jobs: Sequence[StartedJob]) -> None:
        """Record how long jobs have been running, and their progress."""
        await self._query(
            STARTED.format(schema=self.schema),
            (
                incarnation,
                [job.assignment for job in jobs],
                [job.job_id for job in jobs],
                [job.seconds for job in jobs],
                nulls_or_texts([job.progress for job in jobs]),
            ),
        )

    async def held_jobs(self, incarnation: int, ids: Sequence[int]) -> list[int]:
        """Return which of some jobs cannot end now, as other sessions have locked their rows."""
        return list(await self._call("held_jobs", incarnation, list(ids)))

    async def release(self, incarnation: int, returned: Sequence[ReturnedJobs]) -> int:
        """Return jobs to the queue, and return how many; see ``release()`` in SQL.

        Args:
            incarnation: The node's run.
            returned: The jobs, at least one entry. ``ids`` is None in all entries or in none, and
                ``died`` is the same in all.
        """
        first = returned[0]
        ids = None if first.ids is None else [n for entry in returned for n in entry.ids or ()]
        rows = await self._query(
            RELEASE.format(schema=self.schema),
            (incarnation, [entry.assignment for entry in returned], first.died, ids),
        )
        return int(rows[0][0])

    async def direct_jobs(self, incarnation: int, assignment: int) -> list[Assignment]:
        """Return the jobs of an assignment that another process has announced by a message."""
        asked_at = time.monotonic()
        asking = self._query(
            f"select lane, assignment, jobs, weight, chunk from {self.schema}.direct_jobs(%s, %s)",
            (incarnation, assignment),
        )
        rows = await self._taken(asking, incarnation)
        return [_assignment(incarnation, asked_at, row) for row in rows]

    async def assignments_of(
        self, incarnation: int, older_than: float
    ) -> tuple[dict[int, int], float]:
        """Return how many jobs of each assignment are assigned to a node.

        Args:
            incarnation: The node's run.
            older_than: Seconds; younger assignments are left out.

        Returns:
            The number of jobs by assignment, and the seconds that the server needed: the time
            until the answer arrives may include an outage.
        """
        call = (
            "select assignment, jobs,"
            " extract(epoch from clock_timestamp() - statement_timestamp())::double precision"
            f" from {self.schema}.assignments_of(%s, %s)"
        )
        rows = await self._query(call, (incarnation, older_than))
        return {row[0]: row[1] for row in rows}, max((row[2] for row in rows), default=0.0)

    async def jobs_of(self, incarnation: int, assignments: Sequence[int]) -> list[JobKey]:
        """Return the jobs of the given assignments that are still assigned to a node."""
        call = f"select assignment, job_id from {self.schema}.jobs_of(%s, %s::bigint[])"
        rows = await self._query(call, (incarnation, list(assignments)))
        return [JobKey(*row) for row in rows]

    async def pass_on(
        self, incarnation: int, jobs: Sequence[JobKey], to: int, parts: int = 1
    ) -> list[PassedJobs]:
        """Pass unstarted jobs on to the node of another incarnation; see ``pass_on()`` in SQL."""
        rows = await self._query(
            PASS_ON.format(schema=self.schema),
            (
                incarnation,
                list({job.assignment: None for job in jobs}),
                [job.job_id for job in jobs],
                to,
                parts,
            ),
        )
        return [PassedJobs(*row) for row in rows]


def _assignment(incarnation: int, asked_at: float, row: Sequence[Any]) -> Assignment:
    lane, number, jobs, weight, chunk, *alone = row
    return Assignment(
        incarnation=incarnation,
        number=number,
        lane=lane,
        jobs=jobs,
        weight=weight,
        chunk=chunk,
        is_alone=any(alone),
        asked_at=asked_at,
    )

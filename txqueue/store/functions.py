"""The calls of the stored functions: what Python knows of the queue's SQL."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import field, frozen

from txqueue.model.assignment import Assignment, CancelledJob, JobKey, PassedJobs, StartedJob
from txqueue.store.connection_pool import ConnectionPool
from txqueue.store.schema_files import checked_name

__all__ = ["Beat", "Claim", "Finished", "StoredFunctions"]


@frozen
class Beat:
    """What a node is told at a heartbeat.

    Attributes:
        owned: Whether this run still owns its name.
        state: ``alive`` or ``draining``: what it is to be.
        peers: The other live nodes that listen for peers: ``node_id, name, incarnation, address,
            port, state, capacity, queues, work_types`` each.
        cancels: Jobs of the node that were cancelled.
        neighbours: The other live nodes of its host: incarnation and process number each.
        next_end: Seconds until the first lease of another node is out; None if no other lives.
    """

    owned: bool
    state: str | None
    peers: list[dict[str, Any]]
    cancels: list[CancelledJob]
    neighbours: list[tuple[int, int]] = field(factory=list)
    next_end: float | None = None


@frozen
class Claim:
    """What a sweep took.

    Attributes:
        assignments: The jobs taken.
        due_in: Seconds until the next job that waits for time is due; None when none waits.
        seen_at: The database's clock; due jobs up to then are promoted.
        reached: The rank, as text, and the job before which nothing was left; None when nothing was
            left at all.
        last_tenant: Where the next claim goes on when more tenants have jobs than get a turn.
    """

    assignments: list[Assignment]
    due_in: float | None
    seen_at: datetime
    reached: tuple[str, int] | None = None
    last_tenant: str | None = None

    @property
    def jobs(self) -> int:
        """How many jobs it took."""
        return sum(assignment.jobs for assignment in self.assignments)

    @property
    def is_quiet(self) -> bool:
        """Whether it let the master sleep: it took nothing, or one job that was all there was."""
        return self.jobs == 0 or (self.jobs == 1 and self.reached is None)


@frozen
class Finished:
    """Jobs of one assignment that returned nothing: their numbers joined by commas."""

    lane: int
    assignment: int
    ids: str


class StoredFunctions:
    """The stored functions of one schema.

    Args:
        pool: Where the calls run.
        schema: The name of the schema.
    """

    def __init__(self, pool: ConnectionPool, schema: str = "txqueue") -> None:
        self.pool = pool
        self.schema = checked_name(schema)

    async def _call(self, function: str, *arguments: object) -> Any:
        marks = ", ".join(["%s"] * len(arguments))
        rows = await self.pool.query(f"select {self.schema}.{function}({marks})", arguments)
        return rows[0][0]

    async def register_node(
        self, node: Mapping[str, Any], work_types: Sequence[Mapping[str, Any]]
    ) -> tuple[int, int]:
        """Register a run of a node and publish its work types; returns (node_id, incarnation)."""
        # A registration that was given up may yet arrive, with a smaller number than the next.
        reserved = await self._call("reserve_incarnation")
        rows = await self.pool.query(
            f"select node_id, incarnation from {self.schema}.register_node("
            "%s, %s, %s, %s, %s, %s, %s::text[], %s, %s, %s, %s)",
            (
                *(
                    node[key]
                    for key in ("name", "hostname", "pid", "port", "lease", "capacity", "queues")
                ),
                json.dumps(work_types),
                node["version"],
                node["address"],
                reserved,
            ),
        )
        return rows[0][0], rows[0][1]

    async def heartbeat(self, incarnation: int, load: float, report: Mapping[str, Any]) -> Beat:
        """Renew the lease, rescue dead nodes' jobs, and return what is new."""
        rows = await self.pool.query(
            "select owned, its_state, peers, cancels, neighbours, next_end"
            f" from {self.schema}.heartbeat(%s, %s, %s)",
            (incarnation, load, json.dumps(report)),
        )
        owned, state, peers, cancels, neighbours, next_end = rows[0]
        return Beat(
            owned,
            state,
            peers,
            [CancelledJob(*cancel) for cancel in cancels],
            [(number, pid) for number, pid in neighbours],
            next_end,
        )

    async def renew_for_peer(self, incarnation: int, heard: Sequence[int]) -> list[int]:
        """Keep the leases of nodes that were just heard; returns those that are to be told."""
        return list(await self._call("renew_for_peer", incarnation, list(heard)))

    async def declare_dead(self, incarnation: int, ended: Sequence[int]) -> int:
        """Give the jobs of nodes of this host back whose masters have ended; returns how many."""
        return int(await self._call("declare_dead", incarnation, list(ended)))

    async def incarnation_of(self, name: str) -> int:
        """Return the incarnation that owns a node's name, 0 if none does."""
        rows = await self.pool.query(
            f"select incarnation from {self.schema}.node_info where name = %s", (name,)
        )
        return int(rows[0][0]) if rows else 0

    async def leave(self, incarnation: int, state: str) -> int:
        """Mark the node draining or stopped; a stopped one's jobs are given back."""
        return int(await self._call("leave", incarnation, state))

    async def next_job(
        self,
        node_id: int,
        incarnation: int,
        queues: Sequence[str],
        work_types: Sequence[str],
        *,
        free: int,
        largest: int,
        capacity: int,
        chunk_jobs: int,
        workers: int,
        since: datetime | None,
        suspects: bool = True,
        reached: tuple[str, int] | None = None,
        after_tenant: str | None = None,
    ) -> Claim:
        """Promote what is due and take ready jobs in rank order; see the stored function."""
        asked_at = time.monotonic()
        rank, job_id = reached or ("-infinity", 0)
        rows = await self.pool.query_often(
            "select lane, assignment, jobs, weight, chunk, alone, due_in, seen_at, last_tenant,"
            f" reached, reached_job from {self.schema}.next_job"
            "(%s, %s, %s::text[], %s::text[], %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                node_id,
                incarnation,
                list(queues),
                list(work_types),
                free,
                largest,
                capacity,
                chunk_jobs,
                workers,
                since,
                suspects,
                rank,
                after_tenant or "",
                job_id,
            ),
        )
        assignments = [_assignment(incarnation, asked_at, row[:6]) for row in rows[:-1]]
        *_, due_in, seen_at, last_tenant, rank, job_id = rows[-1]
        return Claim(assignments, due_in, seen_at, rank and (rank, job_id), last_tenant)

    async def complete(self, incarnation: int, finished: Sequence[Finished]) -> bool:
        """Move jobs that returned nothing to history; True if others may run because of it."""
        rows = await self.pool.query_often(
            "select freed from "
            f"{self.schema}.complete(%s, %s::smallint[], %s::bigint[], %s::text[])",
            (
                incarnation,
                [each.lane for each in finished],
                [each.assignment for each in finished],
                [f"{{{each.ids}}}" for each in finished],
            ),
        )
        return bool(rows[0][0])

    async def settle(self, incarnation: int, outcomes: str) -> bool:
        """Write other endings, a JSON array as text; True if others may run because of it."""
        rows = await self.pool.query_often(
            f"select freed from {self.schema}.settle(%s, %s)", (incarnation, outcomes)
        )
        return bool(rows[0][0])

    async def started(self, incarnation: int, jobs: Sequence[StartedJob]) -> None:
        """Record how long jobs have been running, and their progress."""
        await self.pool.query(
            f"select {self.schema}.started"
            "(%s, %s::bigint[], %s::bigint[], %s::double precision[], %s::text[])",
            (
                incarnation,
                [job.assignment for job in jobs],
                [job.job_id for job in jobs],
                [job.seconds for job in jobs],
                [job.progress for job in jobs],
            ),
        )

    async def release(
        self,
        incarnation: int,
        assignments: Sequence[int],
        *,
        died: bool = False,
        ids: Sequence[int] | None = None,
    ) -> int:
        """Give jobs of assignments back; see the stored function."""
        numbers = None if ids is None else list(ids)
        rows = await self.pool.query(
            f"select {self.schema}.release(%s, %s::bigint[], %s, ids => %s::bigint[])",
            (incarnation, list(assignments), died, numbers),
        )
        return int(rows[0][0])

    async def identity(self) -> str:
        """Return what tells this queue from every other."""
        return str(await self._call("identity"))

    async def direct_jobs(
        self, incarnation: int, assignment: int | None = None, known: Sequence[int] = ()
    ) -> list[Assignment]:
        """Return what was handed to a node by messages: one assignment, or all that are not known.

        Those of the last moment are left out unless named: their messages may be on their way.
        """
        asked_at = time.monotonic()
        rows = await self.pool.query(
            "select lane, assignment, jobs, weight, chunk"
            f" from {self.schema}.direct_jobs(%s, %s, %s::bigint[])",
            (incarnation, assignment, list(known)),
        )
        return [_assignment(incarnation, asked_at, row) for row in rows]

    async def assignments_of(self, incarnation: int, older_than: float) -> dict[int, int]:
        """Return how many jobs of each assignment are assigned to a node.

        Args:
            incarnation: The node's run.
            older_than: Seconds; younger assignments are left out.
        """
        call = f"select assignment, jobs from {self.schema}.assignments_of(%s, %s)"
        return dict(await self.pool.query(call, (incarnation, older_than)))

    async def jobs_of(self, incarnation: int, assignments: Sequence[int]) -> list[JobKey]:
        """Return the jobs of some assignments that are assigned to a node."""
        call = f"select assignment, job_id from {self.schema}.jobs_of(%s, %s::bigint[])"
        rows = await self.pool.query(call, (incarnation, list(assignments)))
        return [JobKey(*row) for row in rows]

    async def pass_on(
        self, incarnation: int, jobs: Sequence[JobKey], to: int, parts: int = 1
    ) -> list[PassedJobs]:
        """Pass jobs on to the node of another incarnation; see the stored function."""
        rows = await self.pool.query(
            "select assignment, jobs, weight, ids_passed from "
            f"{self.schema}.pass_on(%s, %s::bigint[], %s::bigint[], %s, %s)",
            (
                incarnation,
                list({job.assignment: None for job in jobs}),
                [job.job_id for job in jobs],
                to,
                parts,
            ),
        )
        return [PassedJobs(*row) for row in rows]

    async def rotate(self, held: Sequence[str]) -> tuple[list[str], list[str]]:
        """Truncate drained lanes, and look which queues are full.

        Args:
            held: The transactions that kept the call before from it.

        Returns:
            What was done, and the transactions that kept this call from doing more.
        """
        rows = await self.pool.query(
            f"select did, holders, exists (select from {self.schema}.control"
            f" where backlog is not null) from {self.schema}.rotate(%s::text[])",
            (list(held),),
        )
        did, holders, has_backlogs = rows[0]
        if has_backlogs:
            # Not in the statement that holds lanes locked.
            await self._call("refresh_backlog_flags")
        return did, holders

    async def ensure_history(self) -> list[str]:
        """Make history's partitions ahead and drop old ones; returns what was done."""
        return list(await self._call("ensure_history"))

    async def archive_due(self) -> bool:
        """Tell whether days of history are to be archived, and there is an archive."""
        rows = await self.pool.query(
            f"select archive is not null and exists (select from {self.schema}.history_due())"
            f" from {self.schema}.setting"
        )
        return bool(rows[0][0])


def _assignment(incarnation: int, asked_at: float, row: Sequence[Any]) -> Assignment:
    lane, number, jobs, weight, chunk, *alone = row
    return Assignment(incarnation, number, lane, jobs, weight, chunk, any(alone), asked_at)

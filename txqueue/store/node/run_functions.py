"""Calls of the stored functions that concern a node's run and the upkeep of the schema; what they
reply.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Self

from attrs import field, frozen

from txqueue.errors import Refused
from txqueue.model.assignment import Assignment, CancelledJob
from txqueue.policy.findings.obstacles import HeldType
from txqueue.policy.placement.claim_plan import Claim
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.driver.errors import RefusedStatements, is_damage, is_of_a_row
from txqueue.store.schema.files import IDENTITY, QueueIdentity, checked_name

REGISTER_NODE: Final = """
    select node_id, incarnation from {schema}.register_node(
        its_name => %s, its_hostname => %s, its_pid => %s, its_port => %s, its_lease => %s,
        its_capacity => %s, its_queues => %s::text[], its_work_types => %s, its_version => %s,
        its_address => %s, reserved => %s, its_former => %s, its_start => %s)"""
# A snapshot lists no transaction that has begun since the last one ended; age() tells how far their
# numbers go, without taking a number.
OPEN_TRANSACTIONS: Final = "pg_current_snapshot() || ':' || age('3'::xid)"
# The text of a frequent statement is the same at each call, so that it is prepared.
NEXT_JOB: Final = f"""
    select lane, assignment, jobs, weight, chunk, alone, due_in, seen_at, last_tenant, reached,
           reached_job, searched, passed, passed_job, left_job, {OPEN_TRANSACTIONS}
      from {{schema}}.next_job(
        its_node => %s, its_incarnation => %s, queues => %s::text[], work_types => %s::text[],
        free_weight => %s, largest => %s, capacity => %s, chunk_jobs => %s, workers => %s,
        since => %s, take_suspects => %s, from_rank => %s, from_job => %s, after_tenant => %s,
        its_load => %s, ahead => %s, turn_length => %s)"""
COMPLETE: Final = """
    select total, freed, freed_rank, freed_job from {schema}.complete(
        its_incarnation => %s, lanes => %s::smallint[], assignments => %s::bigint[],
        ids => %s::text[], results => %s::text[])"""
SETTLE: Final = """
    select cardinality(settled), freed, freed_rank, freed_job, array_to_string(settled, ',')
      from {schema}.settle(%s, %s)"""
STARTED: Final = """
    select {schema}.started(
        its_incarnation => %s, assignments => %s::bigint[], ids => %s::bigint[],
        seconds => %s::double precision[], progress => %s::text[])"""
RELEASE: Final = """
    select {schema}.release(
        its_incarnation => %s, assignments => %s::bigint[], died => %s, ids => %s::bigint[])"""
PASS_ON: Final = """
    select assignment, jobs, weight, ids_passed from {schema}.pass_on(
        its_incarnation => %s, assignments => %s::bigint[], ids => %s::bigint[],
        to_incarnation => %s, parts => %s)"""


# A single transaction with many savepoints may have any number of them. Polling finds the jobs of
# those that are left out.
MOST_UNLISTED = 1_000


@frozen
class HeartbeatReply:
    """The answer to a heartbeat.

    Attributes:
        owned: Whether the node's name still belongs to this incarnation.
        state: ``alive`` or ``draining``, as operators have ordered.
        peers: The other live nodes that listen for peers: ``node_id, name, incarnation, address,
            port, state, capacity, queues, work_types`` each.
        cancels: The node's running jobs that it must end, cancelled and restarted ones.
        neighbours: The other live nodes of the node's host: incarnation and process id each.
        next_end: Seconds until the node may rescue the first of the nodes next to it, if that one
            sends no heartbeat; None if no other node is alive.
        place: The node's place, from 0, among the live nodes that have room and serve the same
            queues and types; None if it has no room.
        places: How many such nodes there are.
        rescued: How many jobs of dead nodes it returned to the queue.
        nodes: How many nodes are alive, with this one.
        beats: How many heartbeats of this run the database has counted.
        server: Identifies the server and its timeline.
        is_idle: Whether no node has any job, as far as some master sleeps.
        work_in: Seconds until a job of the node's queues is due, 0 if one is ready; None if none
            is, or all masters are awake.
        schedule_in: Seconds until a schedule is due that this node can tick; likewise.
    """

    owned: bool
    state: str | None
    peers: list[dict[str, Any]]
    cancels: list[CancelledJob]
    neighbours: list[tuple[int, int]] = field(factory=list)
    next_end: float | None = None
    place: int | None = None
    places: int | None = None
    rescued: int = 0
    nodes: int = 1
    beats: int = 1
    server: str = ""
    is_idle: bool = False
    work_in: float | None = None
    schedule_in: float | None = None

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """Return the reply of a row of the stored function."""
        owned, state, peers, cancels, neighbours, *counts, restarts = row
        ended_jobs = [
            *(CancelledJob(*cancel) for cancel in cancels),
            *(CancelledJob(number, job_id, who, True) for number, job_id, who in restarts),
        ]
        return cls(
            owned, state, peers, ended_jobs, [(run, pid) for run, pid in neighbours], *counts
        )


@frozen
class WrittenEnds:
    """The effect of a statement that writes ends of jobs.

    Attributes:
        jobs: How many jobs it has changed; not those whose assignment was another one by then.
        has_freed: Whether other jobs may have become ready.
        freed: The place of the first of those that are known: its rank, as text, and its number.
        settled: The numbers of the jobs that ``settle()`` has changed, joined by commas.
    """

    jobs: int
    has_freed: bool
    freed: tuple[str, int] | None = None
    settled: str = ""

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> Self:
        """Return the effect of a row of ``complete()`` or ``settle()``."""
        jobs, has_freed, rank, job_id, *settled = row
        return cls(jobs, has_freed, rank and (rank, job_id), *settled)


def claim_of(assignments: list[Assignment], row: Sequence[Any]) -> Claim:
    """Return the claim that took some assignments and ended with a row of ``next_job()``."""
    due_in, seen_at, tenant, rank, job_id, searched, last_rank, last_id, left, begun = row
    return Claim(
        assignments,
        due_in,
        seen_at,
        rank and (rank, job_id),
        tenant,
        searched or 0.0,
        last_rank and (last_rank, last_id),
        left,
        open_transactions(begun),
    )


def open_transactions(answer: str) -> frozenset[int]:
    """Return the numbers of transactions that had begun to write, and not ended.

    Args:
        answer: Of `OPEN_TRANSACTIONS`: a snapshot, and by how much the next number is above 3.
    """
    _, after, listed, age = answer.split(":")
    following = int(after) + (int(age) + 3 - int(after)) % 2**32
    unlisted = range(max(int(after), following - MOST_UNLISTED), following)
    return frozenset([*map(int, filter(None, listed.split(","))), *unlisted])


Rows = list[tuple[Any, ...]]
SetAside = Callable[[], Coroutine[Any, Any, Sequence[int]]]


async def taken(asking: Coroutine[Any, Any, Rows], set_aside: SetAside) -> Rows:
    """Return the rows of a claim or completion.

    Args:
        asking: The claim, or the completion of jobs.
        set_aside: Fails the jobs that cannot be read, and returns their numbers.

    Raises:
        Refused: When jobs were failed, which the next statement will not meet.
    """
    try:
        return await asking
    except Exception as error:
        if not is_of_a_row(error):
            raise
        ids = await set_aside()
        if not ids:
            raise
    raise Refused(
        f"jobs whose rows cannot be read have failed: {', '.join(map(str, ids[:10]))}",
        f"see the reason: txqueue job {ids[0]}",
    )


async def past_damage(query: Callable[[], Coroutine[Any, Any, Rows]], set_aside: SetAside) -> Rows:
    """Return the rows of a statement, which is repeated once damaged jobs have been failed."""
    try:
        return await query()
    except Exception as error:
        if not is_damage(error) or not await set_aside():
            raise
    return await query()


class RunFunctions:
    """The stored functions of one schema that concern no single job.

    Args:
        pool: The connections on which the calls run.
        schema: The name of the schema.
        refused: Notes which of the calls the database refuses.
    """

    def __init__(
        self, pool: ConnectionPool, schema: str, refused: RefusedStatements | None
    ) -> None:
        self._pool = pool
        self._refused = RefusedStatements() if refused is None else refused
        self.schema = checked_name(schema)

    async def _query(self, sql: str, parameters: Sequence[object] = ()) -> Rows:
        with self._refused.noted(sql):
            return await past_damage(
                lambda: self._pool.query(sql, parameters), lambda: self._set_aside(0)
            )

    async def _call(self, function: str, *arguments: object) -> Any:
        marks = ", ".join(["%s"] * len(arguments))
        rows = await self._query(f"select {self.schema}.{function}({marks})", arguments)
        return rows[0][0]

    async def _set_aside(self, incarnation: int, queues: Sequence[str] = ()) -> Sequence[int]:
        """Fail the jobs that cannot be read or moved; return their numbers."""
        sql = f"select {self.schema}.set_aside(%s, %s::text[])"
        with self._refused.noted(sql):
            rows = await self._pool.query(sql, (incarnation, list(queues)))
        ids: Sequence[int] = rows[0][0]
        return ids

    async def identity(self) -> QueueIdentity:
        """Return which queue this is, by which a client detects a node of another one."""
        [row] = await self._pool.query_dicts(IDENTITY.format(schema=self.schema))
        return QueueIdentity.of_row(row, self.schema)

    async def register_node(
        self,
        node: Mapping[str, Any],
        work_types: Sequence[Mapping[str, Any]],
        since: datetime | None = None,
    ) -> tuple[int, int, datetime]:
        """Register a run of a node and publish its work types.

        Args:
            node: The columns of the node's row.
            work_types: The node's work types, with their policies.
            since: When this process registered first; None if it does now, and the name's former
                run has died with its workers.

        Returns:
            The node's id, the run's incarnation and when it registered, by the database's clock.
        """
        # A registration that was given up may still commit; it is refused if another run has
        # registered since its incarnation was reserved.
        ((reserved, former, now),) = await self._query(
            f"select incarnation, former, clock_timestamp() from {self.schema}.reserve_run(%s)",
            (node["name"],),
        )
        rows = await self._query(
            REGISTER_NODE.format(schema=self.schema),
            (
                *(
                    node[key]
                    for key in ("name", "hostname", "pid", "port", "lease", "capacity", "queues")
                ),
                json.dumps(work_types),
                node["version"],
                node["address"],
                reserved,
                former,
                since,
            ),
        )
        return rows[0][0], rows[0][1], now

    async def heartbeat(
        self, incarnation: int, load: float, report: Mapping[str, Any]
    ) -> HeartbeatReply:
        """Renew the lease and rescue dead nodes' jobs; return what concerns the node."""
        rows = await self._query(
            "select owned, its_state, peers, cancels, neighbours, next_end, place, places, rescued,"
            " nodes, beats, server, is_idle, work_in, schedule_in, restarts"
            f" from {self.schema}.heartbeat(%s, %s, %s)",
            (incarnation, load, json.dumps(report)),
        )
        return HeartbeatReply.of_row(rows[0])

    async def renew_for_peer(self, incarnation: int, heard: Sequence[int]) -> list[int]:
        """Renew the leases of peers that cannot reach the database; return the peers to notify.

        Args:
            incarnation: The node's run.
            heard: The incarnations of the peers, which have just answered this node.
        """
        return list(await self._call("renew_for_peer", incarnation, list(heard)))

    async def declare_dead(self, incarnation: int, ended: Sequence[int]) -> int:
        """Rescue the jobs of nodes of this host whose masters have ended; return how many jobs."""
        return int(await self._call("declare_dead", incarnation, list(ended)))

    async def replaced_by(self, name: str) -> int | None:
        """Return the incarnation that the present run of a node's name has replaced, if any."""
        rows = await self._query(
            f"select former from {self.schema}.node_info where name = %s", (name,)
        )
        return rows[0][0] if rows else None

    async def leave(self, incarnation: int, state: str) -> int:
        """Mark the node as draining or stopped, and return a stopped node's jobs to the queue.

        Returns:
            How many jobs returned to the queue.
        """
        return int(await self._call("leave", incarnation, state))

    async def advance_sequences(self) -> list[str]:
        """Set the sequences that are behind their tables; return what was behind."""
        return list(await self._call("advance_sequences", False))

    async def rotate(self, held: Sequence[str]) -> tuple[list[str], list[str]]:
        """Truncate drained lanes, and update which queues have reached their backlog limits.

        Args:
            held: The transactions that blocked the previous call.

        Returns:
            What was done, and the transactions that blocked this call.
        """
        rows = await self._query(
            f"select did, holders, exists (select from {self.schema}.control"
            f" where backlog is not null) from {self.schema}.rotate(%s::text[])",
            (list(held),),
        )
        did, holders, has_backlogs = rows[0]
        if has_backlogs:
            # A separate statement, as the other one holds locks on lanes.
            await self._call("refresh_backlog_flags")
        return did, holders

    async def ensure_history(self) -> list[str]:
        """Create history's next partitions and drop old ones; return what was done."""
        return list(await self._call("ensure_history"))

    async def measure_minute(self, bounds: Sequence[float]) -> list[tuple[Any, ...]]:
        """Note what jobs have done in the last minute, unless another node just did.

        Returns:
            How long the jobs waited that were done in that minute, if this call noted it: queue,
            work type, how many waited up to each bound and longer, and the sum in seconds.
        """
        sql = f"select queue, work_type, counts, total from {self.schema}.measure_minute(%s)"
        return list(await self._query(sql, (list(bounds),)))

    async def guard_versions(
        self,
        incarnation: int,
        applications: Sequence[str],
        work_types: Sequence[str],
        failures: int,
        share: float,
    ) -> list[HeldType]:
        """Hold types that fail on these versions as on no older one; return all held types."""
        rows = await self._query(
            "select work_type, application, error, failed, runs"
            f" from {self.schema}.guard_versions(its_incarnation => %s, applications => %s::text[],"
            " types => %s::text[], failures => %s, share => %s)",
            (incarnation, list(applications), list(work_types), failures, share),
        )
        return [HeldType(*row) for row in rows]

    async def return_held(self) -> int:
        """Return jobs to the queue that held types have failed; return how many."""
        return int(await self._call("return_held"))

    async def archive_due(self) -> bool:
        """Tell whether an archive is configured and days of history are due to be archived."""
        rows = await self._query(
            f"select archive is not null and exists (select from {self.schema}.history_due())"
            f" from {self.schema}.setting"
        )
        return bool(rows[0][0])

"""What the stored functions that nodes call reply."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Self

from attrs import field, frozen

from txqueue.model.assignment import Assignment, CancelledJob

__all__ = ["Claim", "HeartbeatReply", "WrittenEnds", "open_transactions"]

# A single transaction with many savepoints may have any number of them. Polling finds the jobs of
# those that are left out.
MOST_UNLISTED = 1_000
# The low bits of the sequence ``open_credit``; above them is a node's run, in so many.


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


@frozen
class Claim:
    """The result of a claim.

    Attributes:
        assignments: The jobs taken.
        due_in: Seconds until the next job that waits for its ``not_before`` is due; None if no
            job does.
        seen_at: The time by the database's clock; jobs due by then are promoted.
        reached: The rank, as text, and the job up to which all ready jobs are claimed; None if
            no ready job is left.
        last_tenant: The tenant after which the next claim continues; None if every tenant had a
            turn.
        searched: The seconds that the claim spent on reading ready jobs that the node may not take,
            and rows that only an old snapshot keeps.
        passed: Where the next claim may go on if this one searched and no job is left that the node
            may take: the rank, as text, and the number of the first job that was ready, or of the
            last one that is left.
        left_job: The first heavy job that was left to a less loaded node.
        open: The transactions that were open when the claim began.
    """

    assignments: list[Assignment]
    due_in: float | None
    seen_at: datetime
    reached: tuple[str, int] | None = None
    last_tenant: str | None = None
    searched: float = 0.0
    passed: tuple[str, int] | None = None
    left_job: int | None = None
    open: frozenset[int] = frozenset()

    @classmethod
    def of_row(cls, assignments: list[Assignment], row: Sequence[Any]) -> Claim:
        """Return the claim that took some assignments and ended with a row of ``next_job()``."""
        due_in, seen_at, tenant, rank, job_id, searched, last_rank, last_id, left, begun = row
        reached = rank and (rank, job_id)
        passed = last_rank and (last_rank, last_id)
        return cls(
            assignments,
            due_in,
            seen_at,
            reached,
            tenant,
            searched or 0.0,
            passed,
            left,
            open_transactions(begun),
        )

    @property
    def jobs(self) -> int:
        """How many jobs the claim took."""
        return sum(assignment.jobs for assignment in self.assignments)

    @property
    def is_quiet(self) -> bool:
        """Whether the master may sleep: the claim took nothing, or the only ready job."""
        return self.jobs == 0 or (self.jobs == 1 and self.reached is None)

    @property
    def is_cut_short(self) -> bool:
        """Whether the claim has stopped at a bound of its own, or more jobs are due now."""
        return self.due_in is not None and self.due_in <= 0


def open_transactions(answer: str) -> frozenset[int]:
    """Return the numbers of transactions that had begun to write, and not ended.

    Args:
        answer: Of `OPEN_TRANSACTIONS`: a snapshot, and by how much the next number is above 3.
    """
    _, after, listed, age = answer.split(":")
    following = int(after) + (int(age) + 3 - int(after)) % 2**32
    unlisted = range(max(int(after), following - MOST_UNLISTED), following)
    return frozenset([*map(int, filter(None, listed.split(","))), *unlisted])

"""Claims ready jobs, many at a time, while the workers have room."""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred

from txqueue.errors import DatabaseUnavailable
from txqueue.model.assignment import Assignment, ReturnedJobs
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.periodic import BacklogListener, Periodic, Wakeups
from txqueue.policy.placement.claim_plan import ClaimPlan
from txqueue.policy.placement.credit import turn_length
from txqueue.policy.placement.room import Room
from txqueue.store.driver.errors import is_too_slow
from txqueue.store.node.functions import StoredFunctions

if TYPE_CHECKING:
    from txqueue.node.arrival.assigned import OpenCredit
    from txqueue.node.peers.peer import PeerTable
    from txqueue.node.upkeep import Maintenance
    from txqueue.node.workers.starter import WorkerVersions
    from txqueue.node.workers.workload import Workers

T = TypeVar("T")

CHUNK_JOBS = 1000


@define(eq=False, repr=False, slots=False)
class Claimer(Periodic):
    """Carries out the plan of what the node claims: runs the statements, and hands on their jobs.

    Args:
        clock: Times the waits.
        functions: The stored functions.
        lease: The node's lease; without it the claimer does not claim.
        queues: The queues that the node serves.
        versions: Have the names of the node's work types, and the versions that its workers have.
        workers: Run the jobs.
        peers: Notified of a job that is left to them.
        lanes: Notified of the number of jobs that each claim took.
        listeners: Notified after each claim whether it left ready jobs.
        open_credit: Notified of jobs that might have been enqueued as assigned.
        meters: Counts claimed jobs, and times claims.
        wakeups: Has the claimer's alarm, and the node's place among those that can take the
            same jobs; wakes the reconciliation when the answer to a claim is lost.
    """

    name = "claimer"

    _functions: StoredFunctions
    _lease: Lease
    _queues: Sequence[str]
    _versions: WorkerVersions
    _workers: Workers
    _peers: PeerTable
    _lanes: Maintenance
    _listeners: Sequence[BacklogListener]
    _open_credit: OpenCredit
    _meters: Meters
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.claimer
        self._plan = ClaimPlan(self._queues)
        self._claims = 0
        self._is_claiming = False

    @property
    def claim(self) -> int | None:
        """The number of the running claim; None while no claim runs."""
        return self._claims if self._is_claiming else None

    def on_room(self) -> None:
        """Claim, as workers have room, unless the last claim left no ready job."""
        if self._plan.is_due(self._workers.room, time.monotonic()):
            self.alarm.ring()

    def stopService(self) -> Deferred[None] | None:
        """Stop claiming."""
        self._plan.rest()
        return super().stopService()

    async def step(self) -> float | None:
        """Claim once if the workers have room; return the seconds until the next claim."""
        identity, room, now = self._lease.identity, self._workers.room, time.monotonic()
        delay = self._plan.delay(room, now)
        if identity is None or delay is None:
            # The alarm rings when workers have room, and when the lease is acquired.
            return None
        if delay > 0:
            return delay
        if self._plan.begin(now):
            return await self._claim_ordinary(identity, room)
        return await self._claim_any(identity, room)

    async def _claim_ordinary(self, identity: Identity, room: Room) -> float:
        """Claim a few ordinary jobs; return the seconds until the next claim."""
        plan, most = self._plan, self._plan.ordinary_jobs(room)
        assignments, is_ordinary, begun = await self._answer(
            self._functions.claim_ready(*identity, self._queues, self._versions.claimable, most)
        )
        jobs, now = sum(assignment.jobs for assignment in assignments), time.monotonic()
        plan.note_ordinary(jobs, begun, now)
        await self._hand_over(identity, assignments)
        is_full = 0 < jobs == most
        if is_ordinary and not is_full and plan.is_single(jobs):
            self._open_credit.on_miss()
        commit_time = self._meters.commit_time
        return plan.pause_after_ordinary(
            jobs, now, commit_time, is_full=is_full, is_ordinary=is_ordinary
        )

    async def _claim_any(self, identity: Identity, room: Room) -> float:
        """Claim jobs of any kind; return the seconds until the next claim."""
        # What becomes ready during the claim is for the next one.
        freed, self._wakeups.freed = self._wakeups.freed, None
        asked = self._plan.full_claim(room, self._workers.load, freed)
        claim = await self._answer(
            self._functions.next_job(
                *identity,
                asked.queues,
                self._versions.claimable,
                asked.room,
                chunk_jobs=CHUNK_JOBS,
                since=asked.since,
                suspects=self._workers.takes_suspects,
                reached=asked.reached,
                after_tenant=asked.after_tenant,
                load=asked.load,
                turn_length=turn_length(self._meters.commit_time),
            )
        )
        await self._hand_over(identity, claim.assignments)
        now = time.monotonic()
        is_left_to_others, has_backlog = self._plan.note_full(asked, claim, now)
        if is_left_to_others:
            self._peers.wake()
        if has_backlog is not None:
            for listener in self._listeners:
                listener.on_backlog(has_backlog=has_backlog)
        return self._plan.pause_after_full(
            asked,
            claim,
            now,
            commit_time=self._meters.commit_time,
            nodes=self._wakeups.place,
            slowest=self._wakeups.slowest_claim,
        )

    async def _answer(self, claim: Coroutine[Any, Any, T]) -> T:
        """Run a claim and return its answer.

        If the answer is lost, the reconciliation rings; if it takes too long, the next claims ask
        for less.
        """
        self._claims += 1
        self._is_claiming = True
        began = time.monotonic()
        try:
            answer = await claim
        except DatabaseUnavailable:
            self._wakeups.doubt()
            raise
        except Exception as error:
            if is_too_slow(error):
                self._shrink()
            raise
        finally:
            self._is_claiming = False
        self._meters.claims.observe(time.monotonic() - began)
        return answer

    def _shrink(self) -> None:
        self._plan.shrink()
        self.log.warn(
            "claimer: a claim took longer than a statement may: the next ones ask for one of"
            " {parts} parts of the {queues} queues and of the room",
            parts=self._plan.parts,
            queues=len(self._queues),
        )

    async def _hand_over(self, identity: Identity, assignments: list[Assignment]) -> None:
        """Hand claimed jobs to the workers, or return them if the node has stopped meanwhile."""
        if self.running:
            self._workers.perform(assignments)
        elif assignments:
            returned = [ReturnedJobs(assignment.number) for assignment in assignments]
            await self._functions.release(identity.incarnation, returned)
        jobs = sum(assignment.jobs for assignment in assignments)
        self._meters.claimed += jobs
        self._lanes.count_claimed(jobs)
        self._open_credit.on_claim(jobs)

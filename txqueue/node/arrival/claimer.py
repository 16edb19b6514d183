"""Claims ready jobs, many at a time, while the workers have room; heavy jobs are left to less
loaded nodes for a limited time.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from attrs import define
from twisted.internet.defer import Deferred

from txqueue.errors import DatabaseUnavailable
from txqueue.model.assignment import Assignment, ReturnedJobs
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.collaborators import BacklogListener
from txqueue.node.state.lease import Identity, Lease
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.policy.placement.claim_plan import REWIND, ClaimPlace, ClaimShare, JobPlace, idle_delay
from txqueue.policy.placement.credit import Stragglers, turn_length
from txqueue.policy.placement.room import Room, claim_delay, is_stream, ordinary_jobs
from txqueue.store.driver.errors import is_too_slow
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.run_functions import Claim
from txqueue.system.clock import Clock

if TYPE_CHECKING:
    from txqueue.node.arrival.open_credit import OpenCredit
    from txqueue.node.peers.peer import PeerTable
    from txqueue.node.upkeep.maintenance import Maintenance
    from txqueue.node.workers.starter import WorkerVersions
    from txqueue.node.workers.workload import Workers

# The least difference of loads for which a node leaves a heavy job to another one, as in
# has_lighter_node().
MARGIN = 0.1
# Seconds after which a job that no other node has claimed is not left any longer, and for which
# this node then leaves no jobs: the others may be unable to, for a reason that it does not know.
PATIENCE, REST = 2.0, 10.0


class HeavyJobs:
    """Decides whether claims leave heavy jobs to less loaded nodes; lighter ones go ahead of them.

    Args:
        clock: A clock that never goes back.
        peers: Are notified of a job that is left to them.
    """

    def __init__(self, clock: Clock, peers: PeerTable) -> None:
        self._clock = clock
        self._peers = peers
        self._left: tuple[int, float] | None = None
        self._rests_until = float("-inf")

    def compared_load(self, load: float) -> float | None:
        """Return the load with which a claim compares those of other nodes.

        Args:
            load: The weight of the jobs that this node's workers hold, as a fraction of their
                capacity.

        Returns:
            The load; None if the claim leaves no job to others.
        """
        return load if load > MARGIN and self._clock.seconds() >= self._rests_until else None

    def claimed(self, left_job: int | None) -> None:
        """Note the first job that a claim has left to others."""
        now = self._clock.seconds()
        if left_job is None:
            self._left = None
        elif self._left is None or self._left[0] != left_job:
            self._left = (left_job, now)
            self._peers.wake()
        elif now - self._left[1] >= PATIENCE:
            self._rests_until = now + REST

    def pause(self, pause: float) -> float:
        """Return the pause before the next claim, at most until this node takes the job itself."""
        if self._left is None:
            return pause
        return min(pause, max(0.0, self._left[1] + PATIENCE - self._clock.seconds()))


T = TypeVar("T")

CHUNK_JOBS = 1000
# A claim promotes only jobs that became due since this long before the previous claim, to skip the
# dead rows of earlier ones. Once in FULL_PROMOTION seconds it promotes all due jobs, as a
# transaction may commit a due job late.
PROMOTED_MARGIN = timedelta(minutes=1)
FULL_PROMOTION = 10.0
# Seconds between a claim that took all ready jobs and the next, so that its jobs are sent to the
# workers first: both go through the reactor, and the claim would go ahead of them.
BREATH = 0.001
# A job is ordinary if it has no group, a weight of 1 and a small payload, and is no suspect.
# FEW_QUEUES is the most queues of a node that makes claims of ordinary jobs. After one that met
# another job, the node makes none for ORDINARY_REST seconds.
FEW_QUEUES = 8
ORDINARY_REST = 1.0
# Seconds after which such a claim has read other nodes' jobs in the current lane, too; there is no
# other one until the next claim of any jobs.
SLOW = 0.01


@define(eq=False, repr=False, slots=False)
class Claimer(Periodic):
    """Claims ready jobs while the workers have room, and sleeps while no job is ready.

    Args:
        clock: Times the waits.
        functions: The stored functions.
        lease: The node's lease; without it the claimer does not claim.
        queues: The queues that the node serves.
        versions: Have the names of the node's work types, and the versions that its workers have.
        workers: Run the jobs.
        heavy_jobs: Decides whether a claim leaves heavy jobs to less loaded nodes.
        lanes: Notified of the number of jobs that each claim took.
        listeners: Notified after each claim whether it left ready jobs.
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
    _heavy_jobs: HeavyJobs
    _lanes: Maintenance
    _listeners: Sequence[BacklogListener]
    _open_credit: OpenCredit
    _meters: Meters
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.claimer
        self._share = ClaimShare(self._queues)
        self._claims = 0
        self._is_claiming = False
        self._empty_claims = 0
        self._claimed_at = float("-inf")
        self._promoted_all_at = float("-inf")
        self._since: datetime | None = None
        self._last_tenant: str | None = None
        self._place = ClaimPlace()
        self._wants_room = False
        # When the next claim of any jobs is due; until then, a claim of ordinary jobs will do.
        self._next_full_claim_at = self._ordinary_from = float("-inf")
        # Whether the claims before took so many new jobs that the next ones do, too.
        self._in_stream = False
        self._stragglers = Stragglers()

    @property
    def claim(self) -> int | None:
        """The number of the running claim; None while no claim runs."""
        return self._claims if self._is_claiming else None

    def room_made(self) -> None:
        """Claim, as workers have room, unless the last claim left no ready job."""
        if self._wants_room and not self._may_rest:
            self.alarm.ring()

    @property
    def _may_rest(self) -> bool:
        """Whether a claim is due later, as all workers have work: as they end it, they report."""
        room = self._workers.room
        return room.is_stocked and claim_delay(room, time.monotonic() - self._claimed_at) != 0

    def stopService(self) -> Deferred[None] | None:
        """Stop claiming."""
        self._empty_claims = 0
        return super().stopService()

    async def step(self) -> float | None:
        """Claim once if the workers have room; return the seconds until the next claim."""
        identity = self._lease.identity
        room = self._workers.room
        delay = claim_delay(room, time.monotonic() - self._claimed_at)
        self._wants_room = True
        if identity is None or delay is None:
            # The alarm rings when workers have room, and when the lease is acquired.
            return None
        if delay > 0:
            return delay
        self._claimed_at = time.monotonic()
        if self._is_ordinary():
            return await self._claim_ready(identity, room)
        # What becomes ready during the claim is for the next one.
        freed, self._wakeups.freed = self._wakeups.freed, None
        place = None if self._share.is_part else self._place.next(self._claimed_at, freed)
        claim = await self._claim(identity, self._share.of(room), place)
        await self._hand_over(identity, claim.assignments)
        return self._pause_after(claim, place)

    def _is_ordinary(self) -> bool:
        """Whether the last claim of any jobs left none, so that only new ones can be ready."""
        return self._ordinary_from <= time.monotonic() < self._next_full_claim_at

    async def _claim_ready(self, identity: Identity, room: Room) -> float:
        """Claim a few ordinary jobs; return the seconds until the next claim."""
        most = ordinary_jobs(room, in_stream=self._in_stream)
        assignments, is_ordinary, begun = await self._answer(
            self._functions.claim_ready(
                *identity, self._share.all_queues, self._versions.claimed, most
            )
        )
        if self._place.is_searching and time.monotonic() - self._claimed_at > SLOW:
            self._ordinary_from = self._place.look_due
        await self._hand_over(identity, assignments)
        self._stragglers.claimed(begun, time.monotonic(), found=bool(assignments))
        self._wants_room = False
        jobs = sum(assignment.jobs for assignment in assignments)
        return self._pause_after_ready(jobs, is_full=0 < jobs == most, is_ordinary=is_ordinary)

    def _pause_after_ready(self, jobs: int, *, is_full: bool, is_ordinary: bool) -> float:
        """Return the seconds from a claim of ordinary jobs to the next claim.

        Args:
            jobs: How many it took.
            is_full: Whether these are as many as it could take.
            is_ordinary: Whether it met ordinary jobs only.
        """
        if not is_ordinary:
            self._ordinary_from = time.monotonic() + ORDINARY_REST
            self._place.rewind()
            return 0.0
        if is_full:
            self._next_full_claim_at = float("-inf")
            return BREATH
        if jobs == 1 or (jobs and not self._in_stream):
            self._open_credit.missed()
        if self._in_stream:
            # Only a claim of any jobs decides whether the master may sleep.
            if not is_stream(jobs):
                self._next_full_claim_at = float("-inf")
            return BREATH
        self._next_full_claim_at = min(self._next_full_claim_at, self._place.look_due)
        return max(BREATH, self._before_stragglers(self._next_full_claim_at - time.monotonic()))

    async def _claim(self, identity: Identity, room: Room, place: JobPlace | None) -> Claim:
        claim = await self._answer(
            self._functions.next_job(
                *identity,
                self._share.next_queues(),
                self._versions.claimed,
                room,
                chunk_jobs=CHUNK_JOBS,
                since=self._promoted_since(),
                suspects=self._workers.takes_suspects,
                reached=place,
                after_tenant=self._last_tenant,
                load=self._heavy_jobs.compared_load(self._workers.load),
                turn_length=turn_length(self._meters.commit_time),
            )
        )
        self._since = claim.seen_at - PROMOTED_MARGIN
        self._last_tenant = claim.last_tenant
        return claim

    async def _answer(self, claim: Coroutine[Any, Any, T]) -> T:
        """Run a claim and return its answer.

        If the answer is lost, the reconciliation rings; if it takes too long, the next claims ask
        for less.
        """
        self._claims += 1
        self._is_claiming = True
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
        self._meters.claims.observe(time.monotonic() - self._claimed_at)
        return answer

    def _shrink(self) -> None:
        self._share.shrink()
        self._place.rewind()
        self._next_full_claim_at = float("-inf")
        self.log.warn(
            "claimer: a claim took longer than a statement may: the next ones ask for one of"
            " {parts} parts of the {queues} queues and of the room",
            parts=self._share.parts,
            queues=len(self._share.all_queues),
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
        self._lanes.claimed(jobs)
        self._open_credit.claimed(jobs)

    def _promoted_since(self) -> datetime | None:
        if self._claimed_at - self._promoted_all_at < FULL_PROMOTION:
            return self._since
        self._promoted_all_at = self._claimed_at
        return None

    def _pause_after(self, claim: Claim, place: JobPlace | None) -> float:
        """Return the seconds from a claim of any jobs, which began at a place, to the next."""
        if self._share.is_part:
            took = time.monotonic() - self._claimed_at
            self._share.answered(took)
            return BREATH if claim.assignments else max(BREATH, took)
        self._note(claim, place)
        if not claim.is_quiet:
            return self._pause_in_work(claim)
        if claim.is_cut_short:
            self._empty_claims = 0
            return 0.0
        if place is not None and not self._place.is_searching:
            return 0.0
        return self._pause_at_rest(claim, place)

    def _note(self, claim: Claim, place: JobPlace | None) -> None:
        self._heavy_jobs.claimed(claim.left_job)
        self._place.claimed(
            place,
            claim.reached,
            claim.passed,
            searched=claim.searched,
            took_jobs=bool(claim.assignments),
            now=time.monotonic(),
        )
        if place is None or claim.reached is not None:
            for listener in self._listeners:
                listener.looked(has_backlog=claim.reached is not None)
        self._next_full_claim_at = float("-inf")
        self._stragglers.claimed(claim.open, time.monotonic(), found=claim.jobs > 0)
        self._in_stream = self._may_be_ordinary(claim) and is_stream(claim.jobs)

    def _pause_in_work(self, claim: Claim) -> float:
        """Return the seconds to the next claim after one that took several jobs or left some."""
        self._stragglers.disarmed()
        self._empty_claims = 0
        if self._in_stream:
            due = float("inf") if claim.due_in is None else time.monotonic() + claim.due_in
            self._next_full_claim_at = min(due, self._place.rewound_at + REWIND)
        return 0.0 if claim.reached else BREATH

    def _pause_at_rest(self, claim: Claim, place: JobPlace | None) -> float:
        """Return the seconds to the next claim while the master sleeps, unless it is woken."""
        # The remaining jobs are too heavy for the room, or left to another node.
        self._wants_room = claim.reached is not None
        self._empty_claims = 1 if claim.assignments else self._empty_claims + 1
        wakeups = self._wakeups
        idle = idle_delay(self._empty_claims, wakeups.place, wakeups.slowest_claim)
        pause = self._heavy_jobs.pause(idle)
        if claim.due_in is not None:
            pause = min(pause, claim.due_in)
        if self._place.is_searching and place is not None:
            pause = min(pause, max(0.0, self._place.rewind_due - time.monotonic()))
        if self._may_be_ordinary(claim):
            self._next_full_claim_at = time.monotonic() + pause
        self._stragglers.armed()
        return self._before_stragglers(pause)

    def _may_be_ordinary(self, claim: Claim) -> bool:
        """Whether all jobs that are ready from now on are new, and of few queues."""
        return claim.reached is None and len(self._share.all_queues) <= FEW_QUEUES

    def _before_stragglers(self, pause: float) -> float:
        """Return the seconds until the next claim, which may be due for open transactions."""
        due = self._stragglers.pause(time.monotonic(), self._meters.commit_time)
        return pause if due is None else min(pause, due)

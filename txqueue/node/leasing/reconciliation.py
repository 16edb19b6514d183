"""Returns to the queue the jobs that are assigned to the node but not held by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from attrs import define, frozen
from twisted.internet.defer import TimeoutError
from twisted.internet.task import deferLater

from txqueue.model.assignment import JobKey, ReturnedJobs
from txqueue.node.state.arrivals import Deduplicator
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.store.node.functions import StoredFunctions

if TYPE_CHECKING:
    from txqueue.node.arrival.claimer import Claimer
    from txqueue.node.workers.completions import Completions
    from txqueue.node.workers.workload import Workers

# The age, in seconds, at which an assignment is checked; a younger one's message may be on its way.
YOUNGEST = 1.0
# Seconds between two checks that must agree, unless heartbeats come more often.
GAP = 2.0
# The shortest pause after a check, as a multiple of the time that the server needed for it, and the
# most seconds that this makes.
SHARE, LONGEST = 50.0, 30.0
# How often to check whether all reports are written, and the seconds between two such checks.
TRIES, PAUSE = 20, 0.1
# The most assignments whose jobs are compared at a time.
MOST = 1000


@frozen
class _Look:
    """The result of a check: its time, the state then, and the assignments with missing jobs."""

    at: float
    mark: int
    claim: int | None
    missing: frozenset[int]


def missing(assigned: Mapping[int, int], held: Mapping[int, int]) -> dict[int, int]:
    """Return for each assignment how many of its jobs are assigned to the node but not held by it.

    Args:
        assigned: The number of jobs by assignment, as the database has them.
        held: The number of jobs by assignment, as the node holds them.
    """
    return {
        assignment: jobs - held.get(assignment, 0)
        for assignment, jobs in assigned.items()
        if jobs > held.get(assignment, 0)
    }


@define(eq=False, repr=False, slots=False)
class Reconciliation(Periodic):
    """Periodically checks for jobs that are assigned to the node but not held by it.

    Whatever the cause (a claim that commits after its master has given it up, an assignment that
    arrived in part), such a job would never run. Before this service returns it to the queue, two
    checks must find it, so that it is not on its way, and all earlier reports must be written. The
    statement that returns it names it, so that a late statement returns no other job.

    Args:
        clock: Times the checks.
        functions: The stored functions.
        lease: The node's lease; without it there is nothing to compare.
        workers: Hold the node's jobs.
        records: Writes the outcomes of jobs.
        claims: Has the number of the running claim.
        deduplicator: Notes assignments before they are returned, so that no message starts them.
        wakeups: Has the service's alarm, and the seconds between two checks.

    Attributes:
        missing: How many jobs the last check found missing, in assignments that also lacked jobs
            at the check before.
        given_back: How many jobs this service has returned to the queue so far.
    """

    name = "reconciliation"

    _functions: StoredFunctions
    _lease: Lease
    _workers: Workers
    _records: Completions
    _claims: Claimer
    _deduplicator: Deduplicator
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.reconciliation
        self._gap = min(GAP, self._wakeups.pace.beat)
        self._last: _Look | None = None
        self.missing = self.given_back = 0

    async def step(self) -> float | None:
        """Check once; return to the queue the jobs that were also missing at the previous check."""
        identity = self._lease.identity
        if identity is None:
            self._last = None
            return self._wakeups.pace.beat
        if self._wakeups.is_idle:
            # The heartbeat has seen that no node has any job.
            self._last, self.missing = None, 0
            return self._wakeups.beat
        assigned, duration = await self._functions.assignments_of(identity.incarnation, YOUNGEST)
        counts = missing(assigned, self._workers.holdings)
        if self._last is None:
            self._last = self._look(counts)
        elif self._is_proof(self._last):
            repeated = sorted(self._last.missing & counts.keys())
            self.missing = sum(counts[number] for number in repeated)
            self._last = self._look(counts)
            await self._give_back(identity.incarnation, repeated[:MOST])
        return max(self._gap if counts else self._wakeups.pace.beat, min(duration * SHARE, LONGEST))

    def _look(self, counts: Mapping[int, int]) -> _Look:
        # The claim's number is read after the check, which has seen the jobs that the claim took.
        return _Look(
            self._clock.seconds(), self._records.mark, self._claims.claim, frozenset(counts)
        )

    def _is_proof(self, last: _Look) -> bool:
        """Tell whether the missing jobs cannot merely be on their way."""
        if self._clock.seconds() - last.at < self._gap:
            return False
        # Jobs of a claim whose answer has not arrived yet may still arrive.
        is_same_claim = last.claim is not None and last.claim == self._claims.claim
        return not is_same_claim and self._records.has_written(last.mark)

    async def _give_back(self, incarnation: int, assignments: list[int]) -> None:
        if not assignments:
            return
        # From now on a late message of them starts nothing, or it could start jobs between the
        # workers' answer and the return of what they do not hold.
        for assignment in assignments:
            self._deduplicator.accept(assignment)
        try:
            held = await self._workers.holds(assignments)
        except TimeoutError:
            # A worker is busy; the next check asks again.
            return
        if not await self._written(self._records.mark):
            return
        lost = [
            job
            for job in await self._functions.jobs_of(incarnation, assignments)
            if job.job_id not in held[job.assignment]
        ]
        if lost:
            await self._release(incarnation, lost)

    async def _release(self, incarnation: int, lost: list[JobKey]) -> None:
        ids: dict[int, list[int]] = {}
        for job in sorted(lost):
            ids.setdefault(job.assignment, []).append(job.job_id)
        returned = await self._functions.release(
            incarnation, [ReturnedJobs(assignment, numbers) for assignment, numbers in ids.items()]
        )
        self.given_back += returned
        if returned:
            self.log.warn(
                "returned {given} jobs that were assigned to this node but not held by it",
                given=returned,
            )

    async def _written(self, mark: int) -> bool:
        """Wait briefly until all reports up to a mark are written; return whether they are."""
        for _ in range(TRIES):
            if self._records.has_written(mark):
                return True
            await deferLater(self._clock, PAUSE)  # type: ignore[arg-type]  # it needs callLater only
        return False

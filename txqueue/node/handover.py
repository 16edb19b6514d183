"""Hands work from node to node: to an idle one that asks, from a full one, from one that drains."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from txqueue.model.assignment import PassedJobs
from txqueue.node.collaborators import Executor, GivenBack, OwnReport
from txqueue.node.deduplication import Deduplicator
from txqueue.node.inbox import Inbox
from txqueue.node.lease import Lease
from txqueue.node.lifecycle import Lifecycle
from txqueue.node.periodic import Periodic
from txqueue.policy.balancing import NodeReport, Transfer, Unstarted, drain_shares, overflow, theft
from txqueue.store.functions import Beat, StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["Handover", "Neighbours"]

# Seconds between two looks at the peers; between two while work comes in; while there are none.
LOOK, EAGER, ALONE = 0.1, 0.02, 0.5
# What is beyond a worker's room for so long did not start in a moment: it goes back; seconds.
LASTING = 0.3
# Seconds for which a peer is not asked again after it had nothing that suited this node.
FIRST_REST, LONGEST_REST = 0.2, 10.0
# Jobs passed on by one statement.
MOST_JOBS = 1_000


class Neighbours(Protocol):
    """The other masters."""

    @property
    def reports(self) -> list[NodeReport]:
        """What they say of themselves."""

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Tell one that jobs are assigned to it."""

    async def steal(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Ask one for unstarted work."""


class Handover(Periodic):
    """Evens the work out between this node and its peers; each transfer is one fenced statement.

    Args:
        clock: Times the looks.
        engine: The stored functions.
        lease: Has the incarnation of this run.
        lifecycle: A node that drains passes all on.
        workers: The worker processes, which hold this node's jobs.
        peers: The other masters.
        own: What this node says of itself.
        arrivals: Says what arrives for the first time.
        inbox: Takes the assignments that a peer hands over.
        records: Takes the jobs that no peer takes.
    """

    name = "handover"

    def __init__(
        self,
        clock: Clock,
        engine: StoredFunctions,
        *,
        lease: Lease,
        lifecycle: Lifecycle,
        workers: Executor,
        peers: Neighbours,
        own: OwnReport,
        arrivals: Deduplicator,
        inbox: Inbox,
        records: GivenBack,
    ) -> None:
        super().__init__(clock)
        self._clock = clock
        self._engine = engine
        self._lease = lease
        self._lifecycle = lifecycle
        self._workers = workers
        self._peers = peers
        self._own = own
        self._arrivals = arrivals
        self._inbox = inbox
        self._records = records
        self._is_eager = self._is_idle = False
        self._excess = (float("inf"), 0)
        self._rests: dict[int, tuple[float, float]] = {}

    def room_made(self) -> None:
        """Workers can be handed more: ask again, if the last time brought something."""
        if self._is_eager:
            self.alarm.ring()

    def looked(self, *, has_backlog: bool) -> None:
        """Ask peers for work only while the queue has none."""
        self._is_idle = not has_backlog

    def heard(self, beat: Beat) -> None:
        """Pass all on while an operator drains the node."""
        del beat
        if self._lifecycle.is_draining and self.running:
            Deferred.fromCoroutine(self.pass_all()).addErrback(self._not_passed)

    def taken(self, assignments: Sequence[int]) -> None:
        """Take what a peer hands over; a node that drains gives it back."""
        if not self._lifecycle.is_draining:
            self._inbox.read(assignments)
            return
        for assignment in assignments:
            self._records.give_back(assignment, died=False)

    async def step(self) -> float | None:
        """Look whether work should go to a peer or back to the queue, or come from a peer."""
        mine, peers = self._own.now(), self._rested(self._peers.reports)
        self._is_eager = False
        if lasting := self._lasting_excess(mine.excess):
            self._return(await self._workers.take_back(lasting))
        if not peers or mine.is_draining:
            return LOOK if mine.excess else ALONE
        if shares := overflow(mine, peers):
            unstarted = await self._workers.take_back(sum(share.weight for share in shares))
            await self._share_out(unstarted, shares)
        elif self._is_idle and (taken := theft(mine, peers)) is not None:
            assignments, _ = await self._peers.steal(taken.incarnation, taken.weight)
            await self._perform(assignments)
            self._note(taken.incarnation, is_in_vain=not assignments)
            self._is_eager = bool(assignments)
        return EAGER if self._is_eager else LOOK

    def _lasting_excess(self, excess: int) -> int:
        """Return the weight that workers hold beyond their room, and did a moment ago."""
        now = self._clock.seconds()
        since, least = self._excess
        if not excess:
            self._excess = (float("inf"), 0)
        elif not least:
            self._excess = (now, excess)
        elif now - since < LASTING:
            self._excess = (since, min(least, excess))
        else:
            self._excess = (float("inf"), 0)
            return min(least, excess)
        return 0

    async def surrender(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Pass what waits here, up to a weight, on to a node that asks; it is told by the answer.

        Returns:
            The assignments that are the other's now, and their weight.
        """
        waits = self._own.now().ahead
        if waits == 0:
            return [], 0
        unstarted = await self._workers.take_back(min(weight, waits))
        passed = await self._passed(incarnation, unstarted)
        return [each.assignment for each in passed], sum(each.weight for each in passed)

    async def pass_all(self) -> None:
        """Pass all that is not started on to peers with room, and give the rest back."""
        unstarted = await self._workers.take_back()
        await self._share_out(unstarted, drain_shares(unstarted.weight, self._peers.reports))

    async def drain(self) -> None:
        """Even nothing out any more, and pass on what is not started."""
        stopping = self.stopService()
        if stopping is not None:
            await stopping
        try:
            await self.pass_all()
        except Exception as error:
            self.log.warn("nothing is passed on: {error!r}", error=error)

    async def _share_out(self, unstarted: Unstarted, shares: Sequence[Transfer]) -> None:
        """Pass jobs on in shares, and give the rest back."""
        try:
            for share in shares:
                part, unstarted = unstarted.cut(share.weight)
                passed = await self._pass_on(share.incarnation, part)
                self._note(share.incarnation, is_in_vain=bool(part.jobs) and not passed)
        finally:
            self._return(unstarted)

    async def _pass_on(self, incarnation: int, unstarted: Unstarted) -> list[PassedJobs]:
        """Pass jobs on to a node and tell it."""
        passed = await self._passed(incarnation, unstarted)
        self._peers.forward(incarnation, [each.assignment for each in passed])
        return passed

    async def _passed(self, incarnation: int, unstarted: Unstarted) -> list[PassedJobs]:
        """Pass jobs on to a node; what does not suit it is given back."""
        parts = self._workers_of(incarnation)
        passed: list[PassedJobs] = []
        try:
            for batch in unstarted.batches(MOST_JOBS):
                passed += await self._engine.pass_on(self._held_by, batch.jobs, incarnation, parts)
        finally:
            # Of what was passed on after all, though no answer came, this gives nothing back.
            gone = {job_id for each in passed for job_id in each.ids}
            self._return(unstarted.without(gone))
        return passed

    async def _perform(self, assignments: Sequence[int]) -> None:
        for number in assignments:
            found = await self._engine.direct_jobs(self._held_by, number)
            self._workers.perform([each for each in found if self._arrivals.accept(each.number)])

    @property
    def _held_by(self) -> int:
        """The incarnation of this run while its lease holds: no row names 0."""
        identity = self._lease.identity
        return identity.incarnation if identity else 0

    def _not_passed(self, failure: Failure) -> None:
        self.log.warn("not all is passed on: {error!r}", error=failure.value)

    def _return(self, unstarted: Unstarted) -> None:
        for assignment, ids in unstarted.ids.items():
            self._records.give_back(assignment, died=False, ids=ids)

    def _workers_of(self, incarnation: int) -> int:
        reports = self._peers.reports
        return max([1, *(each.workers for each in reports if each.incarnation == incarnation)])

    def _rested(self, reports: Sequence[NodeReport]) -> list[NodeReport]:
        now = self._clock.seconds()
        never = (float("-inf"), 0.0)
        return [each for each in reports if self._rests.get(each.incarnation, never)[0] <= now]

    def _note(self, incarnation: int, *, is_in_vain: bool) -> None:
        if not is_in_vain:
            self._rests.pop(incarnation, None)
            return
        rest = min(2 * self._rests.get(incarnation, (0.0, FIRST_REST / 2))[1], LONGEST_REST)
        self._rests[incarnation] = (self._clock.seconds() + rest, rest)

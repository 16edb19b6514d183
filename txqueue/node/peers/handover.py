"""Hands unstarted jobs to an idle node that asks for work, or from a full or draining node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from txqueue.model.assignment import PassedJobs
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Periodic
from txqueue.policy.backoff import Backoff
from txqueue.policy.placement.peers import (
    NodeReport,
    Transfer,
    choose_steal,
    drain_shares,
    overflow_shares,
)
from txqueue.policy.placement.room import Unstarted
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.run_functions import HeartbeatReply

if TYPE_CHECKING:
    from txqueue.node.arrival.assigned import Inbox
    from txqueue.node.peers.peer import OwnReport, PeerTable
    from txqueue.node.workers.completions import Completions
    from txqueue.node.workers.workload import Workers

# Seconds between two comparisons with the peers: normally, while they pass work, and without peers.
LOOK, EAGER, ALONE = 0.1, 0.02, 0.5
# Jobs beyond a worker's room go back to the queue after this many seconds.
LASTING = 0.3
# Seconds for which a peer is not asked again after it had no suitable work.
FIRST_REST, LONGEST_REST = 0.2, 10.0
# The most jobs that one statement passes on.
MOST_JOBS = 1_000


@define(eq=False, repr=False, slots=False)
class Handover(Periodic):
    """Balances work between this node and its peers; each transfer is one fenced statement.

    Args:
        clock: Times the steps.
        functions: The stored functions.
        lease: Has the incarnation of this run.
        lifecycle: A draining node passes on all unstarted jobs.
        workers: The worker processes, which hold this node's jobs.
        peers: The other masters.
        own: This node's report.
        inbox: Reads the assignments that peers hand over.
        records: Returns jobs that no peer takes to the queue.
    """

    name = "handover"

    _functions: StoredFunctions
    _lease: Lease
    _lifecycle: Lifecycle
    _workers: Workers
    _peers: PeerTable
    _own: OwnReport
    _inbox: Inbox
    _records: Completions

    def __attrs_post_init__(self) -> None:
        self._is_eager = self._is_idle = False
        self._excess = (float("inf"), 0)
        self._rests: dict[int, tuple[float, Backoff]] = {}

    def on_room(self) -> None:
        """Ask a peer for work again, as workers have room, if the last request brought some."""
        if self._is_eager:
            self.alarm.ring()

    def on_backlog(self, *, has_backlog: bool) -> None:
        """Note whether the queue has ready jobs; while it has none, this node asks peers."""
        self._is_idle = not has_backlog

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Pass on all unstarted jobs if an operator drains the node."""
        del reply
        if self._lifecycle.is_draining and self.running:
            Deferred.fromCoroutine(self.pass_all()).addErrback(self._not_passed)

    def accept(self, assignments: Sequence[int]) -> None:
        """Accept assignments from a peer."""
        self._inbox.read(assignments)

    async def step(self) -> float | None:
        """Move work to a peer, back to the queue, or here from a peer, as the loads require."""
        mine, peers = self._own.now(), self._rested(self._peers.reports)
        self._is_eager = False
        if lasting := self._lasting_excess(mine.excess):
            self._return(await self._workers.take_back(lasting))
        if not peers or mine.is_draining:
            return LOOK if mine.excess else ALONE
        if shares := overflow_shares(mine, peers):
            unstarted = await self._workers.take_back(sum(share.weight for share in shares))
            await self._share_out(unstarted, shares)
        elif self._is_idle and self._inbox.is_empty and (steal := choose_steal(mine, peers)):
            assignments, _ = await self._peers.steal(steal.incarnation, steal.weight)
            self._inbox.read(assignments)
            self._note(steal.incarnation, is_in_vain=not assignments)
            self._is_eager = bool(assignments)
        return EAGER if self._is_eager else LOOK

    def _lasting_excess(self, excess: int) -> int:
        """Return the weight that workers have held beyond their room for a while."""
        now = self._clock.seconds()
        start, least = self._excess
        if not excess:
            self._excess = (float("inf"), 0)
        elif not least:
            self._excess = (now, excess)
        elif now - start < LASTING:
            self._excess = (start, min(least, excess))
        else:
            self._excess = (float("inf"), 0)
            return min(least, excess)
        return 0

    async def surrender(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """Pass unstarted work, up to a weight, to the node that asks for it.

        Returns:
            The assignments that the other node now has, and their weight.
        """
        ahead = self._own.now().ahead
        if ahead == 0:
            return [], 0
        unstarted = await self._workers.take_back(min(weight, ahead))
        passed = await self._passed(incarnation, unstarted)
        return [batch.assignment for batch in passed], sum(batch.weight for batch in passed)

    async def pass_all(self) -> None:
        """Pass all unstarted jobs to peers with room, and return the rest to the queue."""
        unstarted = await self._workers.take_back()
        await self._share_out(unstarted, drain_shares(unstarted.weight, self._peers.reports))

    async def drain(self) -> None:
        """Stop balancing, and pass on all unstarted jobs."""
        stopping = self.stopService()
        if stopping is not None:
            await stopping
        try:
            await self.pass_all()
        except Exception as error:
            self.log.warn("no jobs are passed on: {error!r}", error=error)

    async def _share_out(self, unstarted: Unstarted, shares: Sequence[Transfer]) -> None:
        """Pass jobs on in shares, and return the rest to the queue."""
        try:
            for share in shares:
                part, unstarted = unstarted.cut(share.weight)
                passed = await self._pass_on(share.incarnation, part)
                self._note(share.incarnation, is_in_vain=bool(part.jobs) and not passed)
        finally:
            self._return(unstarted)

    async def _pass_on(self, incarnation: int, unstarted: Unstarted) -> list[PassedJobs]:
        """Pass jobs on to a node and notify it."""
        passed = await self._passed(incarnation, unstarted)
        self._peers.forward(incarnation, [batch.assignment for batch in passed])
        return passed

    async def _passed(self, incarnation: int, unstarted: Unstarted) -> list[PassedJobs]:
        """Pass jobs on to a node; jobs that it cannot run are returned to the queue."""
        parts = self._workers_of(incarnation)
        passed: list[PassedJobs] = []
        try:
            for batch in unstarted.batches(MOST_JOBS):
                passed += await self._functions.pass_on(
                    self._held_by, batch.jobs, incarnation, parts
                )
        finally:
            # If the transfer took effect although its answer was lost, this returns none of its
            # jobs.
            passed_ids = {job_id for jobs in passed for job_id in jobs.ids}
            self._return(unstarted.without(passed_ids))
        return passed

    @property
    def _held_by(self) -> int:
        """The incarnation of this run while its lease holds, otherwise 0, which no row names."""
        identity = self._lease.identity
        return identity.incarnation if identity else 0

    def _not_passed(self, failure: Failure) -> None:
        self.log.warn("not all jobs are passed on: {error!r}", error=failure.value)

    def _return(self, unstarted: Unstarted) -> None:
        for assignment, ids in unstarted.ids.items():
            self._records.give_back(assignment, died=False, ids=ids)

    def _workers_of(self, incarnation: int) -> int:
        reports = self._peers.reports
        return max(
            [1, *(report.workers for report in reports if report.incarnation == incarnation)]
        )

    def _rested(self, reports: Sequence[NodeReport]) -> list[NodeReport]:
        now = self._clock.seconds()
        rests = {incarnation for incarnation, (until, _) in self._rests.items() if until > now}
        return [report for report in reports if report.incarnation not in rests]

    def _note(self, incarnation: int, *, is_in_vain: bool) -> None:
        if not is_in_vain:
            self._rests.pop(incarnation, None)
            return
        _, backoff = self._rests.get(incarnation) or (0.0, Backoff(FIRST_REST, LONGEST_REST))
        self._rests[incarnation] = (self._clock.seconds() + backoff.take(), backoff)

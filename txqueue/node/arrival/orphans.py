"""Finds jobs that were assigned to the node by messages that were lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define

from txqueue.model.assignment import Assignment
from txqueue.node.state.arrivals import Inbox
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.store.node.functions import StoredFunctions

if TYPE_CHECKING:
    from txqueue.node.arrival.assigned import Credits, Intake
    from txqueue.node.peers.peer import PeerTable
    from txqueue.node.workers.workload import Workers


# Seconds between two polls: while clients have credit, while only peers may hand jobs over, and
# otherwise, as a transaction may commit long after its client vanished.
OFTEN, NOW_AND_THEN, SELDOM = 1.0, 2.0, 10.0


@define(eq=False, repr=False, slots=False)
class OrphanFinder(Periodic):
    """Polls for jobs that were handed to the node and did not arrive by message.

    Args:
        clock: Times the polls.
        functions: The stored functions.
        lease: The node's lease; without it no job is adopted.
        inbox: Has the assignments that messages named only by their numbers.
        workers: Know which assignments have arrived.
        intake: Takes the jobs found.
        clients: Tell whether jobs of clients may be on their way.
        peers: Tell whether jobs of peers may be on their way.
        wakeups: Has the service's alarm.

    Attributes:
        adopted: How many jobs this service has found so far.
    """

    name = "orphans"

    _functions: StoredFunctions
    _lease: Lease
    _inbox: Inbox
    _workers: Workers
    _intake: Intake
    _clients: Credits
    _peers: PeerTable
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.orphans
        self._looked_at = float("-inf")
        self.adopted = 0

    async def step(self) -> float | None:
        """Read the assignments that messages named, and poll for unknown ones if it is time."""
        identity = self._lease.identity
        if identity is None:
            return OFTEN
        named = self._inbox.take()
        for assignment in named:
            self._adopt(await self._functions.direct_jobs(identity.incarnation, assignment))
        has_found = False
        if self._wakeups.is_idle and not named and not self._clients.are_out:
            # The heartbeat has seen that no node has any job.
            return self._every
        if not named or self._clock.seconds() - self._looked_at >= OFTEN:
            has_found = await self._look(identity.incarnation)
        return 0.0 if has_found or self._inbox else self._every

    async def _look(self, incarnation: int) -> bool:
        """Adopt unknown assignments; return whether there may be more."""
        self._looked_at = self._clock.seconds()
        known = self._workers.assignments
        has_found = self._adopt(await self._functions.direct_jobs(incarnation, known=known))
        if has_found:
            self._looked_at = float("-inf")
        return has_found

    @property
    def _every(self) -> float:
        if self._clients.are_out:
            return OFTEN
        return NOW_AND_THEN if self._peers.has_fresh else SELDOM

    def _adopt(self, assignments: Sequence[Assignment]) -> bool:
        """Take assignments; return whether any was new."""
        if not self.running:
            return False
        accepted = self._intake.take(assignments)
        self.adopted += sum(assignment.jobs for assignment in accepted)
        return bool(accepted)

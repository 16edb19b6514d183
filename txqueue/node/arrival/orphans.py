"""Runs assignments that notifications or reads have brought, and finds jobs of messages that were
lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define

from txqueue.model.assignment import Assignment
from txqueue.node.state.arrivals import Deduplicator, Inbox
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.store.node.functions import StoredFunctions

if TYPE_CHECKING:
    from txqueue.node.arrival.credits import Credits
    from txqueue.node.peers.peer import PeerTable
    from txqueue.node.workers.completions import Completions
    from txqueue.node.workers.workload import Workers


@define(eq=False, repr=False, slots=False)
class Intake:
    """Takes each assignment once, though notifications, messages and polls may all name it.

    Jobs that a client's message brings do not pass here.

    Args:
        workers: Run the jobs.
        deduplicator: Filters assignments that arrived before.
        lifecycle: A draining node returns what arrives.
        records: Returns jobs to the queue.
    """

    _workers: Workers
    _deduplicator: Deduplicator
    _lifecycle: Lifecycle
    _records: Completions

    def take(self, assignments: Sequence[Assignment]) -> list[Assignment]:
        """Run assignments, or return them to the queue if the node drains.

        Returns:
            Those that had not arrived before.
        """
        accepted = [
            assignment for assignment in assignments if self._deduplicator.accept(assignment.number)
        ]
        if accepted:
            # A job may be named again when the deduplicator has long forgotten it.
            held = frozenset(self._workers.assignments)
            accepted = [assignment for assignment in accepted if assignment.number not in held]
        if not self._lifecycle.is_draining:
            self._workers.perform(accepted)
            return accepted
        for assignment in accepted:
            self._records.give_back(assignment.number, died=False)
        return accepted


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

"""Lets any session enqueue jobs as assigned to this node, and runs the jobs that are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from txqueue.model.assignment import NamedJob
from txqueue.node.arrival.database_notices import DatabaseNotices
from txqueue.node.arrival.intake import Intake
from txqueue.node.state.collaborators import Executor
from txqueue.node.state.lease import Lease
from txqueue.node.state.lifecycle import Lifecycle
from txqueue.node.state.periodic import Periodic
from txqueue.node.state.wakeups import Wakeups
from txqueue.policy.placement.credit import is_stream, is_too_fast, open_credit
from txqueue.store.node.functions import StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["ChannelListener", "OpenCredit"]

# Seconds after which credit may be granted again, even if little of it is known to be used up:
# transactions that were rolled back have used it, too, and another node may have replaced it. But
# if an open transaction has used it, that would collect more and more: so they double each time, up
# to the second number. Jobs that come too fast get no credit for the first.
STALE, LONGEST = 1.0, 60.0


class ChannelListener(Protocol):
    """The connection that listens for notifications."""

    def listens_on(self, own_channel: str) -> bool:
        """Whether it listens on the node's own channel."""


class OpenCredit(Periodic):
    """Grants open credit while the queue has no backlog and the workers have room.

    A session of any client, which need not have joined a node, takes of this credit when it
    enqueues a job, and so assigns the job to this node. The notification of the commit names the
    assignment, but not the job, as any role may listen to it.

    Args:
        clock: Tells how old the credit is.
        functions: The stored functions.
        listener: Receives the notifications; while it does not, no credit is granted.
        notices: The jobs that notifications have named.
        lease: The node's lease; without it no credit is granted.
        lifecycle: A draining node grants no credit.
        workers: Their room limits the credit.
        intake: Takes the jobs.
        wakeups: Has the service's alarm, and the node's place among those that can take the same
            jobs.

    Attributes:
        received: How many jobs were enqueued as assigned to this node by open credit.
    """

    name = "open credit"

    def __init__(
        self,
        clock: Clock,
        functions: StoredFunctions,
        *,
        listener: ChannelListener,
        notices: DatabaseNotices,
        lease: Lease,
        lifecycle: Lifecycle,
        workers: Executor,
        intake: Intake,
        wakeups: Wakeups,
    ) -> None:
        super().__init__(clock, wakeups.open_credit)
        self._clock = clock
        self._functions = functions
        self._listener = listener
        self._notices = notices
        self._lease = lease
        self._lifecycle = lifecycle
        self._workers = workers
        self._intake = intake
        self._wakeups = wakeups
        self._has_backlog = True
        self._is_missed = False
        # The credit as this node has granted it last, and how much of it is known to be used up.
        self._granted = self._spent = 0
        self._granted_at = self._stale_at = self._rests_until = float("-inf")
        # How many jobs this node has claimed since then.
        self._claimed = 0
        self._patience = STALE
        # Another node's credit, which kept this one from granting any.
        self._unused: int | None = None
        self.received = 0

    def missed(self) -> None:
        """Grant credit if it is used up: a job was claimed that might have taken of it."""
        now = self._clock.seconds()
        is_used_up = self._spent >= self._granted > 0 or now >= self._stale_at
        if is_used_up and now >= self._rests_until:
            self._is_missed = True
            self.alarm.ring()

    def claimed(self, jobs: int) -> None:
        """Withdraw the credit if jobs come too fast for it, most of which are claimed anyway."""
        self._claimed += jobs
        if self._granted and self._is_stream:
            self.alarm.ring()

    def looked(self, *, has_backlog: bool) -> None:
        """Withdraw the credit if a claim has left ready jobs, which others must not overtake."""
        self._has_backlog = has_backlog
        if has_backlog and self._granted:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Run the jobs that notifications have named; then grant or withdraw credit if due."""
        identity = self._lease.identity
        if identity is None:
            return None
        named = self._notices.take()
        if named:
            await self._read(identity.incarnation, named)
        must_withdraw = self._granted and (
            self._has_backlog or self._is_stream or self._lifecycle.is_draining
        )
        if not named or must_withdraw or self._is_missed or self._is_half_spent:
            await self._review(identity.incarnation)
        return None

    async def _read(self, incarnation: int, named: Sequence[NamedJob]) -> None:
        try:
            assignments = await self._functions.notified_jobs(incarnation, named)
        except Exception:
            self._notices.put_back(named)
            raise
        accepted = self._intake.take(assignments)
        self.received += len(accepted)
        self._spent += len(accepted)

    @property
    def _is_half_spent(self) -> bool:
        """Whether to renew the credit; with other nodes, one of them gets the next turn."""
        return 2 * self._spent >= self._granted > 0 and self._is_alone

    @property
    def _is_stream(self) -> bool:
        """Whether many jobs have been claimed since the credit was granted."""
        return is_stream(self._claimed, self._clock.seconds() - self._granted_at)

    async def _review(self, incarnation: int) -> None:
        """Grant as much credit as this node may give now, or withdraw it."""
        now = self._clock.seconds()
        if self._is_stream or is_too_fast(self._spent, now - self._granted_at):
            self._rests_until = now + STALE
        offer, had = self._offer, self._granted
        if offer and not (self._is_missed or self._is_half_spent):
            return
        self._is_missed = False
        if not offer and not had:
            return
        is_used_up = 2 * self._spent >= had
        if had and not self._is_stream:
            self._patience = STALE if is_used_up else min(2 * self._patience, LONGEST)
        self._granted, self._granted_at = offer, now
        self._spent = self._claimed = 0
        self._stale_at = now if is_used_up and not offer else now + self._patience
        try:
            await self._grant(incarnation, offer)
        except Exception:
            # Either may be so now.
            self._granted = max(had, offer)
            raise

    async def _grant(self, incarnation: int, offer: int) -> None:
        self._unused = await self._functions.grant_credit(incarnation, offer, self._unused)
        if self._unused is not None:
            self._granted, self._stale_at = 0, self._clock.seconds() + self._patience

    @property
    def _offer(self) -> int:
        """How many jobs may be enqueued as assigned to this node now."""
        identity = self._lease.reaching
        if identity is None or self._lifecycle.is_draining or self._has_backlog:
            return 0
        if not self._listener.listens_on(self._functions.channel_of(identity.incarnation)):
            return 0
        if self._clock.seconds() < self._rests_until:
            return 0
        return open_credit(self._workers.room, is_alone=self._is_alone)

    @property
    def _is_alone(self) -> bool:
        place = self._wakeups.place
        return place is not None and place.of == 1

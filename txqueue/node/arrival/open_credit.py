"""Lets any session enqueue jobs as assigned to this node, and runs the jobs that are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from attrs import define

from txqueue.model.assignment import Assignment
from txqueue.node.arrival.notifications import DatabaseNotices
from txqueue.node.arrival.orphans import Intake
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.policy.placement.credit import CreditGrants, open_credit
from txqueue.store.node.functions import StoredFunctions

if TYPE_CHECKING:
    from txqueue.node.workers.workload import Workers
    from txqueue.store.driver.listener import Listener


@define(eq=False, repr=False, slots=False)
class OpenCredit(Periodic):
    """Grants open credit while the queue has no backlog and the workers have room.

    A session of any client, which need not have joined a node, takes of this credit when it
    enqueues a job, and so assigns the job to this node. The notification of the commit brings the
    job, on a channel of which only the node and the server know the name.

    Args:
        clock: Tells how old the credit is.
        functions: The stored functions.
        listener: Receives the notifications; while it does not, no credit is granted.
        notices: Passes on the jobs that notifications bring.
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

    _functions: StoredFunctions
    _listener: Listener
    _notices: DatabaseNotices
    _lease: Lease
    _lifecycle: Lifecycle
    _workers: Workers
    _intake: Intake
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.open_credit
        self._notices.on_jobs = self._notified
        self._grants = CreditGrants()
        # Another node's credit, which kept this one from granting any.
        self._unused: int | None = None
        self.received = 0

    def _notified(self, jobs: Sequence[Assignment]) -> None:
        """Run jobs that notifications have brought; those of another run are no longer ours."""
        identity = self._lease.identity
        run = None if identity is None else identity.incarnation
        accepted = self._intake.take([job for job in jobs if job.incarnation == run])
        if accepted:
            self.received += len(accepted)
            self._grants.took(len(accepted))
        if self._is_renewed:
            self.alarm.ring()

    def missed(self) -> None:
        """Grant credit if it is used up: a job was claimed that might have taken of it."""
        if self._grants.missed(self._clock.seconds()):
            self.alarm.ring()

    def claimed(self, jobs: int) -> None:
        """Withdraw the credit if jobs come too fast for it, most of which are claimed anyway."""
        if self._grants.claimed(jobs, self._clock.seconds()):
            self.alarm.ring()

    def looked(self, *, has_backlog: bool) -> None:
        """Withdraw the credit if a claim has left ready jobs, which others must not overtake."""
        if self._grants.looked(has_backlog=has_backlog):
            self.alarm.ring()

    async def step(self) -> float | None:
        """Grant or withdraw credit if that is due."""
        if (identity := self._lease.identity) is not None:
            await self._review(identity.incarnation)
        return None

    @property
    def _is_renewed(self) -> bool:
        """Whether to renew the credit; with other nodes, one of them gets the next turn."""
        return self._grants.is_half_spent and self._is_alone

    async def _review(self, incarnation: int) -> None:
        """Grant as much credit as this node may give now, or withdraw it."""
        now, had = self._clock.seconds(), self._grants.granted
        self._grants.judge_pace(now)
        offer = self._offer
        if not self._grants.grant(offer, now, is_renewed=self._is_renewed):
            return
        try:
            await self._grant(incarnation, offer)
        except Exception:
            # Either may be so now.
            self._grants.granted = max(had, offer)
            raise

    async def _grant(self, incarnation: int, offer: int) -> None:
        self._unused = await self._functions.grant_credit(incarnation, offer, self._unused)
        if self._unused is not None:
            self._grants.withheld(self._clock.seconds())

    @property
    def _offer(self) -> int:
        """How many jobs may be enqueued as assigned to this node now."""
        identity = self._lease.reaching
        if identity is None or self._lifecycle.is_draining or self._grants.has_backlog:
            return 0
        if not self._listener.listens_on(self._functions.channel_of(identity.incarnation)):
            return 0
        if self._grants.is_resting(self._clock.seconds()):
            return 0
        return open_credit(self._workers.room, is_alone=self._is_alone)

    @property
    def _is_alone(self) -> bool:
        place = self._wakeups.place
        return place is not None and place.of == 1

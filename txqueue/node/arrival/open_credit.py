"""Lets any session enqueue jobs as assigned to this node, and runs the jobs that are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from txqueue.model.assignment import Assignment
from txqueue.node.arrival.database_notices import DatabaseNotices
from txqueue.node.arrival.intake import Intake
from txqueue.node.state.collaborators import Executor
from txqueue.node.state.lease import Lease
from txqueue.node.state.lifecycle import Lifecycle
from txqueue.node.state.meters import Meters
from txqueue.node.state.periodic import Periodic
from txqueue.node.state.wakeups import Wakeups
from txqueue.policy.placement.credit import OpenCreditTerms, open_credit, open_credit_terms
from txqueue.policy.placement.credit_grants import CreditGrants
from txqueue.policy.placement.credit_reads import CreditReads
from txqueue.store.driver.listener import OwnChannel
from txqueue.store.node.functions import StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["ChannelListener", "OpenCredit"]

# Seconds after shared credit was withdrawn in which a poll may find jobs of it.
SHARED_FOR = 30.0


class ChannelListener(Protocol):
    """The connection that listens for notifications."""

    def listens_on(self, own: OwnChannel) -> bool:
        """Whether it listens on the node's own channel."""


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
        meters: Tells how long a commit takes.
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
        meters: Meters,
        wakeups: Wakeups,
    ) -> None:
        super().__init__(clock, wakeups.open_credit)
        self._clock = clock
        self._functions = functions
        self._listener = listener
        notices.on_jobs = self._notified
        self._lease = lease
        self._lifecycle = lifecycle
        self._workers = workers
        self._intake = intake
        self._wakeups = wakeups
        self._meters = meters
        self._reads = CreditReads()
        self._grants = CreditGrants()
        # Jobs that are too long for a notification. Whether there has been one since the last read.
        self._named: list[Assignment] = []
        self._is_told = False
        # When the next read is due for jobs that no notification has named. Whether there may be
        # some, and when credit was granted or withdrawn last.
        self._read_at: float | None = None
        self._is_sharing, self._shared_at = False, float("-inf")
        # Another node's credit, which kept this one from granting any.
        self._unused: int | None = None
        self.received = 0

    def _notified(self, jobs: Sequence[Assignment]) -> None:
        """Run jobs that notifications have brought; have others read, and those without a lease."""
        identity = self._lease.identity
        run = None if identity is None else identity.incarnation
        brought = [job for job in jobs if job.chunk and job.incarnation == run]
        named = [job for job in jobs if not job.chunk and job.incarnation == run]
        self._named += jobs if run is None else named
        self._take(brought)
        if self._is_sharing:
            # A read of the jobs that have shared the credit follows, and counts these with them.
            self._reads.brought([job.number for job in brought])
        else:
            self._grants.found(any_jobs=bool(brought))
        self._is_told = self._is_sharing or bool(self._named)
        if self._is_told or self._is_renewed:
            self.alarm.ring()

    def missed(self, jobs: int = 1) -> None:
        """Grant credit if it is used up: jobs were claimed that might have taken of it.

        Args:
            jobs: How many. Several at a time would take of a shared credit only.
        """
        if self._grants.missed(jobs, self._clock.seconds(), self._terms):
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
        """Read the jobs of which notifications tell; then grant or withdraw credit if due."""
        identity = self._lease.identity
        if identity is None:
            return None
        if is_read := self._is_told or self._is_read_due:
            await self._read(identity.incarnation)
        is_over = self._lifecycle.is_draining and self._grants.granted
        is_over = is_over or self._grants.must_end(self._clock.seconds())
        if not is_read or is_over or self._grants.is_missed or self._is_renewed:
            await self._review(identity.incarnation)
        return None if self._read_at is None else max(0.0, self._read_at - self._clock.seconds())

    @property
    def _is_read_due(self) -> bool:
        return self._read_at is not None and self._clock.seconds() >= self._read_at

    async def _read(self, incarnation: int) -> None:
        """Read jobs that notifications have named, and those that have shared the credit."""
        is_told, self._is_told = self._is_told, False
        named, self._named = self._named, []
        after = self._reads.after if self._is_sharing else float("inf")
        try:
            if by_name := [job for job in named if job.number <= after]:
                jobs = await self._functions.notified_jobs(incarnation, by_name)
                self._grants.found(any_jobs=self._take(jobs))
            if self._is_sharing:
                await self._read_shared(incarnation, is_notified=is_told)
        except Exception:
            self._named += named
            self._is_told = self._is_told or is_told
            raise

    async def _read_shared(self, incarnation: int, *, is_notified: bool) -> None:
        """Read jobs that no notification need name."""
        if is_notified:
            self._reads.notified()
        assignments, state = await self._functions.credited_jobs(
            incarnation, self._reads.after, self._reads.known
        )
        now = self._clock.seconds()
        self._reads.read([assignment.number for assignment in assignments], state, now)
        pause = self._reads.pause(now, self._meters.commit_time)
        self._read_at = None if pause is None else now + pause
        self._grants.found(any_jobs=self._take(assignments) or is_notified)

    def _take(self, assignments: Sequence[Assignment]) -> bool:
        """Run jobs that took of the credit; return whether any had not arrived before."""
        accepted = self._intake.take(assignments)
        self.received += len(accepted)
        self._grants.took(len(accepted))
        return bool(accepted)

    @property
    def _is_renewed(self) -> bool:
        """Whether to renew the credit; with other nodes, one of them gets the next turn."""
        return self._grants.is_half_spent and self._is_alone

    @property
    def _terms(self) -> OpenCreditTerms:
        """How the node grants credit, where commits take as long as they do now."""
        return open_credit_terms(self._meters.commit_time)

    @property
    def is_shared(self) -> bool:
        """Whether jobs may have been assigned to this node of which no notification tells."""
        is_late = self._clock.seconds() - self._shared_at >= SHARED_FOR
        return self._is_sharing and (self._grants.granted > 0 or not is_late)

    async def _review(self, incarnation: int) -> None:
        """Grant as much credit as this node may give now, or withdraw it."""
        now, had = self._clock.seconds(), self._grants.granted
        self._grants.judge_pace(now, self._terms)
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
        is_shared = self._terms.is_shared
        self._reads.granted()
        self._is_sharing = self._is_sharing or is_shared
        self._shared_at = self._clock.seconds()
        self._unused = await self._functions.grant_credit(
            incarnation, offer, self._unused, is_shared=is_shared
        )
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
        return open_credit(self._workers.room, self._terms, is_alone=self._is_alone)

    @property
    def _is_alone(self) -> bool:
        place = self._wakeups.place
        return place is not None and place.of == 1

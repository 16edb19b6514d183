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
from txqueue.policy.placement.credit import (
    OpenCreditTerms,
    is_stream,
    is_too_fast,
    open_credit,
    open_credit_terms,
)
from txqueue.policy.placement.credit_reads import CreditReads
from txqueue.store.driver.listener import OwnChannel
from txqueue.store.node.functions import StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["ChannelListener", "OpenCredit"]

# Seconds after which credit may be granted again, even if little of it is known to be used up:
# transactions that were rolled back have used it, too, and another node may have replaced it. But
# if an open transaction has used it, that would collect more and more: so they double each time, up
# to the second number. Jobs that come too fast get no credit for the first, and for twice as long
# each time that they still do, up to the third.
STALE, LONGEST, LONGEST_REST = 1.0, 60.0, 16.0
# So many claims of several jobs, each soon after the one before, are a reason for shared credit.
OVERLAPS = 8
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
        # Jobs that are too long for a notification. Whether there has been one since the last read.
        self._named: list[Assignment] = []
        self._is_told = False
        # When the next read is due for jobs that no notification has named. Whether there may be
        # some, and when credit was granted or withdrawn last.
        self._read_at: float | None = None
        self._is_sharing, self._shared_at = False, float("-inf")
        self._has_backlog = True
        self._is_missed = False
        # The credit as this node has granted it last, and how much of it is known to be used up.
        self._granted = self._spent = 0
        # How many reads, or notifications of unshared credit, found jobs that had taken of it.
        self._found = 0
        self._granted_at = self._stale_at = self._rests_until = float("-inf")
        # Since when there has been credit without a pause.
        self._begun_at = float("-inf")
        # Claims of several jobs in a row that left none, and when the last one was.
        self._overlaps, self._overlapped_at = 0, float("-inf")
        # How many jobs this node has claimed since then.
        self._claimed = 0
        self._patience = self._rest = STALE
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
            self._found += bool(brought)
        self._is_told = self._is_sharing or bool(self._named)
        if self._is_told or self._is_half_spent:
            self.alarm.ring()

    def missed(self, jobs: int = 1) -> None:
        """Grant credit if it is used up: jobs were claimed that might have taken of it.

        Args:
            jobs: How many. Several at a time would take of a shared credit only.
        """
        now = self._clock.seconds()
        if jobs > 1 and not (self._terms.is_shared and self._are_overlapping(now)):
            return
        is_used_up = self._spent >= self._granted > 0 or now >= self._stale_at
        if is_used_up and now >= self._rests_until:
            self._is_missed = True
            self.alarm.ring()

    def _are_overlapping(self, now: float) -> bool:
        """Note a claim of several jobs; return whether there were a few, as of several clients.

        Credit that a batch of jobs is followed by would be withdrawn unused as the next one comes.
        """
        is_soon = now - self._overlapped_at < STALE
        self._overlapped_at = now
        self._overlaps = self._overlaps + 1 if is_soon else 1
        return self._overlaps >= OVERLAPS

    def claimed(self, jobs: int) -> None:
        """Withdraw the credit if jobs come too fast for it, most of which are claimed anyway."""
        self._claimed += jobs
        if self._granted and self._is_stream:
            self.alarm.ring()

    def looked(self, *, has_backlog: bool) -> None:
        """Withdraw the credit if a claim has left ready jobs, which others must not overtake."""
        self._has_backlog = has_backlog
        if has_backlog:
            self._overlaps = 0
        if has_backlog and self._granted:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Read the jobs of which notifications tell; then grant or withdraw credit if due."""
        identity = self._lease.identity
        if identity is None:
            return None
        if is_read := self._is_told or self._is_read_due:
            await self._read(identity.incarnation)
        must_withdraw = self._granted and (
            self._has_backlog or self._is_stream or self._lifecycle.is_draining
        )
        if not is_read or must_withdraw or self._is_missed or self._is_half_spent:
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
                self._found += self._take(await self._functions.notified_jobs(incarnation, by_name))
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
        self._found += self._take(assignments) or is_notified

    def _take(self, assignments: Sequence[Assignment]) -> bool:
        """Run jobs that took of the credit; return whether any had not arrived before."""
        accepted = self._intake.take(assignments)
        self.received += len(accepted)
        self._spent += len(accepted)
        return bool(accepted)

    @property
    def _is_half_spent(self) -> bool:
        """Whether to renew the credit; with other nodes, one of them gets the next turn."""
        return 2 * self._spent >= self._granted > 0 and self._is_alone

    @property
    def _is_stream(self) -> bool:
        """Whether many jobs have been claimed since the credit was granted."""
        return is_stream(self._claimed, self._clock.seconds() - self._granted_at)

    @property
    def _terms(self) -> OpenCreditTerms:
        """How the node grants credit, where commits take as long as they do now."""
        return open_credit_terms(self._meters.commit_time)

    @property
    def is_shared(self) -> bool:
        """Whether jobs may have been assigned to this node of which no notification tells."""
        is_late = self._clock.seconds() - self._shared_at >= SHARED_FOR
        return self._is_sharing and (self._granted > 0 or not is_late)

    async def _review(self, incarnation: int) -> None:
        """Grant as much credit as this node may give now, or withdraw it."""
        now = self._clock.seconds()
        is_flood = self._is_stream or is_too_fast(
            self._spent, self._found, now - self._granted_at, self._terms
        )
        if is_flood:
            self._rests_until = max(self._rests_until, now + self._rest)
        if self._granted:
            self._rest = self._next_rest(now, is_flood=is_flood)
        offer, had = self._offer, self._granted
        if offer and not (self._is_missed or self._is_half_spent):
            return
        self._is_missed = False
        if not offer and not had:
            return
        is_used_up = 2 * self._spent >= had
        if had and not self._is_stream:
            self._patience = STALE if is_used_up else min(2 * self._patience, LONGEST)
        if not had:
            self._begun_at = now
        self._granted, self._granted_at = offer, now
        self._spent = self._found = self._claimed = 0
        self._stale_at = now if is_used_up and not offer else now + self._patience
        try:
            await self._grant(incarnation, offer)
        except Exception:
            # Either may be so now.
            self._granted = max(had, offer)
            raise

    def _next_rest(self, now: float, *, is_flood: bool) -> float:
        """Return how long jobs that come too fast get no credit; if it is shared, until calm."""
        if is_flood:
            return min(2 * self._rest, LONGEST_REST)
        # Without sharing, a few jobs that come together end the credit, and are no reason for more.
        is_calm = not self._terms.is_shared or now - self._begun_at >= self._rest
        return STALE if is_calm else self._rest

    async def _grant(self, incarnation: int, offer: int) -> None:
        is_shared = self._terms.is_shared
        self._reads.granted()
        self._is_sharing = self._is_sharing or is_shared
        self._shared_at = self._clock.seconds()
        self._unused = await self._functions.grant_credit(
            incarnation, offer, self._unused, is_shared=is_shared
        )
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
        return open_credit(self._workers.room, self._terms, is_alone=self._is_alone)

    @property
    def _is_alone(self) -> bool:
        place = self._wakeups.place
        return place is not None and place.of == 1

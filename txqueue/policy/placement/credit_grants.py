"""Decides, without I/O, when a node grants, renews and withdraws its open credit."""

from __future__ import annotations

from attrs import define

from txqueue.policy.placement.credit import OpenCreditTerms, is_stream, is_too_fast

__all__ = ["OVERLAPS", "STALE", "CreditGrants"]

# Seconds after which credit may be granted again, even if little of it is known to be used up:
# transactions that were rolled back have used it, too, and another node may have replaced it. But
# if an open transaction has used it, that would collect more and more: so they double each time, up
# to the second number. Jobs that come too fast get no credit for the first, and for twice as long
# each time that they still do, up to the third.
STALE, LONGEST, LONGEST_REST = 1.0, 60.0, 16.0
# So many claims of several jobs, each soon after the one before, are a reason for shared credit.
OVERLAPS = 8


@define
class CreditGrants:
    """The open credit of a node: what it has granted, and how jobs have come since.

    Attributes:
        has_backlog: Whether the last claim left ready jobs, which others must not overtake.
        granted: The credit as this node has granted it last; 0 for none.
        is_missed: Whether jobs were claimed that might have taken of a credit that is used up.
    """

    has_backlog: bool = True
    granted: int = 0
    is_missed: bool = False
    # How much of the credit is known to be used up, and how many reads, or notifications of
    # unshared credit, found jobs that had taken of it.
    _spent: int = 0
    _found: int = 0
    # How many jobs this node has claimed since it granted the credit.
    _claimed: int = 0
    _granted_at: float = float("-inf")
    _stale_at: float = float("-inf")
    _rests_until: float = float("-inf")
    # Since when there has been credit without a pause.
    _begun_at: float = float("-inf")
    # Claims of several jobs in a row that left none, and when the last one was.
    _overlaps: int = 0
    _overlapped_at: float = float("-inf")
    _patience: float = STALE
    _rest: float = STALE

    def took(self, jobs: int) -> None:
        """Note jobs that have taken of the credit."""
        self._spent += jobs

    def found(self, *, any_jobs: bool) -> None:
        """Note a read or a notification, and whether it found jobs that had taken of the credit."""
        self._found += any_jobs

    def missed(self, jobs: int, now: float, terms: OpenCreditTerms) -> bool:
        """Note jobs that were claimed together; return whether credit might have spared that."""
        if jobs > 1 and not (terms.is_shared and self._are_overlapping(now)):
            return False
        is_used_up = self._spent >= self.granted > 0 or now >= self._stale_at
        is_new = is_used_up and not self.is_resting(now)
        self.is_missed = self.is_missed or is_new
        return is_new

    def _are_overlapping(self, now: float) -> bool:
        """Note a claim of several jobs; return whether there were a few, as of several clients.

        Credit that a batch of jobs is followed by would be withdrawn unused as the next one comes.
        """
        is_soon = now - self._overlapped_at < STALE
        self._overlapped_at = now
        self._overlaps = self._overlaps + 1 if is_soon else 1
        return self._overlaps >= OVERLAPS

    def claimed(self, jobs: int, now: float) -> bool:
        """Note how many jobs a claim took; return whether they come too fast for the credit."""
        self._claimed += jobs
        return self.granted > 0 and self.is_stream(now)

    def looked(self, *, has_backlog: bool) -> bool:
        """Note whether a claim has left ready jobs; return whether that ends the credit."""
        self.has_backlog = has_backlog
        if has_backlog:
            self._overlaps = 0
        return has_backlog and self.granted > 0

    @property
    def is_half_spent(self) -> bool:
        """Whether so much is used up that more may be granted."""
        return 2 * self._spent >= self.granted > 0

    def is_stream(self, now: float) -> bool:
        """Whether many jobs have been claimed since the credit was granted."""
        return is_stream(self._claimed, now - self._granted_at)

    def must_end(self, now: float) -> bool:
        """Whether there is credit that must be withdrawn: jobs are left, or come too fast."""
        return self.granted > 0 and (self.has_backlog or self.is_stream(now))

    def is_resting(self, now: float) -> bool:
        """Whether there is no credit yet for jobs that came too fast."""
        return now < self._rests_until

    def judge_pace(self, now: float, terms: OpenCreditTerms) -> None:
        """Decide whether jobs come too fast for credit, and for how long they get none."""
        is_flood = self.is_stream(now) or is_too_fast(
            self._spent, self._found, now - self._granted_at, terms
        )
        if is_flood:
            self._rests_until = max(self._rests_until, now + self._rest)
        if not self.granted:
            return
        # Without sharing, a few jobs that come together end the credit, and are no reason for more;
        # shared credit rests longer until it is calm.
        if is_flood:
            self._rest = min(2 * self._rest, LONGEST_REST)
        elif not terms.is_shared or now - self._begun_at >= self._rest:
            self._rest = STALE

    def grant(self, offer: int, now: float, *, is_renewed: bool) -> bool:
        """Note that so much is granted now, 0 to withdraw it; return whether it need be written.

        Args:
            offer: How much the node may grant.
            now: The time.
            is_renewed: Whether credit of which half is spent is granted again.
        """
        if offer and not (self.is_missed or is_renewed):
            return False
        self.is_missed = False
        if not offer and not self.granted:
            return False
        is_used_up = 2 * self._spent >= self.granted
        if self.granted and not self.is_stream(now):
            self._patience = STALE if is_used_up else min(2 * self._patience, LONGEST)
        if not self.granted:
            self._begun_at = now
        self.granted, self._granted_at = offer, now
        self._spent = self._found = self._claimed = 0
        self._stale_at = now if is_used_up and not offer else now + self._patience
        return True

    def withheld(self, now: float) -> None:
        """Note that nothing was granted, as another node's credit is in use."""
        self.granted, self._stale_at = 0, now + self._patience

"""Decides, without I/O, when a node grants, renews and withdraws its open credit."""

from __future__ import annotations

from attrs import define

from txqueue.policy.placement.credit import is_stream, is_too_fast

__all__ = ["STALE", "CreditGrants"]

# Seconds after which credit may be granted again, even if little of it is known to be used up:
# transactions that were rolled back have used it, too, and another node may have replaced it. But
# if an open transaction has used it, that would collect more and more: so they double each time, up
# to the second number. Jobs that come too fast get no credit for the first, and for twice as long
# each time that they still do, up to the third.
STALE, LONGEST, LONGEST_REST = 1.0, 60.0, 16.0


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
    # How much of the credit is known to be used up, and at how many moments jobs have arrived.
    _spent: int = 0
    _arrivals: int = 0
    # How many jobs this node has claimed since it granted the credit.
    _claimed: int = 0
    _granted_at: float = float("-inf")
    _stale_at: float = float("-inf")
    _rests_until: float = float("-inf")
    _patience: float = STALE
    _rest: float = STALE

    def took(self, jobs: int) -> None:
        """Note jobs that have taken of the credit, and arrived together."""
        self._spent += jobs
        self._arrivals += 1

    def missed(self, now: float) -> bool:
        """Note a single job that was claimed; return whether credit might have spared that."""
        is_used_up = self._spent >= self.granted > 0 or now >= self._stale_at
        is_new = is_used_up and not self.is_resting(now)
        self.is_missed = self.is_missed or is_new
        return is_new

    def claimed(self, jobs: int, now: float) -> bool:
        """Note how many jobs a claim took; return whether they come too fast for the credit."""
        self._claimed += jobs
        return self.granted > 0 and self.is_stream(now)

    def looked(self, *, has_backlog: bool) -> bool:
        """Note whether a claim has left ready jobs; return whether that ends the credit."""
        self.has_backlog = has_backlog
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

    def judge_pace(self, now: float) -> None:
        """Decide whether jobs come too fast for credit, and for how long they get none."""
        is_flood = self.is_stream(now) or is_too_fast(
            self._spent, self._arrivals, now - self._granted_at
        )
        if is_flood:
            self._rests_until = max(self._rests_until, now + self._rest)
        if not self.granted:
            return
        self._rest = min(2 * self._rest, LONGEST_REST) if is_flood else STALE

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
        self.granted, self._granted_at = offer, now
        self._spent = self._arrivals = self._claimed = 0
        self._stale_at = now if is_used_up and not offer else now + self._patience
        return True

    def withheld(self, now: float) -> None:
        """Note that nothing was granted, as another node's credit is in use."""
        self.granted, self._stale_at = 0, now + self._patience

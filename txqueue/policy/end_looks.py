"""When a client looks whether awaited jobs have ended, and at which of them."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from attrs import define, field

from txqueue.policy.awaited_ends import REQUESTED_EVERY, AwaitedEnds
from txqueue.policy.backoff import Backoff

__all__ = ["FACTOR", "FIRST", "LONGEST", "RARELY", "EndLooks"]

FIRST, FACTOR, LONGEST = 0.015, 1.5, 0.5
"""The pauses between looks without announcements, in seconds: the first, their growth, the longest.
"""
RARELY: Final = 2.0
"""The seconds between looks at all awaited jobs while ends are announced."""

W = TypeVar("W")


@define
class EndLooks(Generic[W]):
    """The looks of one queue: at announced jobs at once, at all awaited ones now and then.

    Attributes:
        awaited: The jobs that callers wait for.
        is_listening: Whether announcements arrive.
    """

    awaited: AwaitedEnds[W] = field(factory=AwaitedEnds)
    is_listening: bool = False
    _requested_at: float = float("-inf")
    _all_at: float = float("-inf")
    _pauses: Backoff = field(factory=lambda: Backoff(FIRST, LONGEST, FACTOR))
    _failures: Backoff = field(factory=lambda: Backoff(0.1, 2.0))

    def add(self, job_id: int, waiter: W, now: float) -> None:
        """Add a caller, which reads its job next: what ends after that is announced."""
        is_first = not self.awaited
        self.awaited.add(job_id, waiter)
        self._pauses.reset()
        if self.is_listening and now - self._requested_at < REQUESTED_EVERY:
            self._all_at = max(self._all_at, now + RARELY) if is_first else self._all_at
        else:
            self._all_at = now if is_first else min(self._all_at, now + FIRST)

    def listens(self, now: float, *, is_listening: bool) -> None:
        """Note that announcements arrive now, or no longer: look at all jobs once."""
        self.is_listening = is_listening
        self._all_at = now

    def must_request(self, now: float) -> bool:
        """Tell whether to request announcements for the next seconds, and note the request."""
        if now - self._requested_at < REQUESTED_EVERY:
            return False
        self._requested_at = now
        return True

    def due(self, now: float) -> list[int]:
        """Return the numbers of the jobs to look at now."""
        if now >= self._all_at:
            self.awaited.note(None)
            self._all_at = now + (RARELY if self.is_listening else self._pauses.take())
        return self.awaited.take()

    def pause(self, now: float) -> float:
        """Return the seconds until the next look, unless an end is announced before."""
        self._failures.reset()
        return 0.0 if self.awaited.is_noted else max(0.0, self._all_at - now)

    def pause_after_failure(self, chance: float) -> float:
        """Return the seconds until the next look after one that failed, and look at all then.

        Args:
            chance: A random number in [0, 1), so that clients do not look all at once.
        """
        self._requested_at = self._all_at = float("-inf")
        return self._failures.take(chance)

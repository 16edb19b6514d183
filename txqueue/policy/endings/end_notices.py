"""Of which ended jobs a node notifies waiting clients, and when."""

from __future__ import annotations

from typing import Final

from attrs import define, field

__all__ = ["ASKED_EVERY", "LONGEST_NOTICE", "EndNotices"]

ASKED_EVERY: Final = 0.1
"""Seconds between two questions whether clients wait, while none is known to wait.

A client polls more often than that for as long after its wait has begun.
"""
LONGEST_NOTICE: Final = 4_000
"""The most characters of a notification; with more numbers it stands for any job."""


@define
class EndNotices:
    """The jobs that have ended since the last notification.

    Whether clients wait is known from the answer to the last one. Where none does, ends are kept
    for a moment, and one statement asks for all of them.
    """

    _numbers: list[str] = field(factory=list)
    _length: int = 0
    _awaited_until: float = float("-inf")
    _asked_at: float = float("-inf")

    def note(self, numbers: str) -> None:
        """Note ended jobs, by their numbers joined by commas."""
        # What follows the first numbers that are too many makes no difference, and takes memory.
        if numbers and self._length <= LONGEST_NOTICE:
            self._numbers.append(numbers)
            self._length += len(numbers) + 1

    def is_awaited(self, now: float) -> bool:
        """Tell whether clients are known to wait for jobs to end."""
        return now < self._awaited_until

    def pause(self, now: float) -> float | None:
        """Return the seconds until the next notification; None while there is nothing to say."""
        if not self._numbers:
            return None
        return 0.0 if self.is_awaited(now) else max(0.0, self._asked_at + ASKED_EVERY - now)

    def take(self, now: float) -> str:
        """Return the text of the next notification, and forget its jobs."""
        text = ",".join(self._numbers)
        self._numbers, self._length, self._asked_at = [], 0, now
        return text if len(text) <= LONGEST_NOTICE else ""

    def answered(self, awaited: float, now: float) -> None:
        """Note for how many more seconds clients wait for notifications; 0 if none does."""
        self._awaited_until = now + awaited

"""Decides, without I/O, how many reports of ended jobs one statement writes, and of which ended
jobs a node notifies waiting clients.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final

from attrs import define, field

RESULT_LIMIT: Final = 4 << 20
"""The longest result of a handler, in bytes of JSON text, without ``--result-limit``."""
STEPS_LIMIT: Final = 64 << 20
"""The most bytes of the results of a job's steps together, without ``--steps-limit``."""
MOST: Final = 10_000
# Characters of all reports that one statement writes together, and of a report that is written
# alone, after the others.
MOST_TEXT, LONG = 1 << 20, 1 << 16
# Seconds after a failure during which a statement writes no more than the last successful one.
FORGIVEN = 60.0
# The delay after a statement, in seconds, in which a few more jobs are collected for the next: so
# many times what a commit takes, within bounds. A client that commits while the disk writes a
# completion waits for that first; pauses of 40 ms make drains slower by a twentieth.
GATHERING, LONGEST_GATHERING, COMMITS = 0.01, 0.02, 8


def gathering(commit_time: float | None, interval: float = 0.0) -> float:
    """Return the seconds after a statement in which completions are collected for the next.

    None are where hardly a second one would come, by the shortest of these delays: a completion
    that waits is then written at any moment of the pause between two jobs, also while the next
    one's enqueue commits.

    Args:
        commit_time: About how many seconds a commit takes; None if none was timed.
        interval: The seconds between the last two completions.
    """
    if interval >= GATHERING:
        return 0.0
    return min(max(GATHERING, COMMITS * (commit_time or 0.0)), LONGEST_GATHERING)


@define
class BatchSize:
    """How many reports one statement writes: after a failure half as many, for a while."""

    _most: int = MOST
    _failed_at: float = float("-inf")

    def first(self, lengths: Iterable[int]) -> int:
        """Return how many of the first reports one statement writes, by the lengths of their texts.

        It is one at least.
        """
        total, number = 0, 0
        for number, length in enumerate(islice(lengths, self._most)):
            total += length
            if number and total > MOST_TEXT:
                return number
        return number + 1

    def failed(self, number: int, now: float) -> None:
        """Note that a statement has failed that wrote a number of reports."""
        self._most, self._failed_at = max(1, number // 2), now

    def succeeded(self, now: float) -> None:
        """Note that a statement has succeeded."""
        if now - self._failed_at > FORGIVEN:
            self._most = MOST


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

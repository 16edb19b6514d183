"""Which jobs the callers of a process wait for, and which of these to look at next.

The callers of `WorkQueue.wait` have Deferreds here, those of the queues without Twisted futures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from attrs import define, field

from txqueue.model.job import Job

__all__ = ["ANNOUNCED_FOR", "REQUESTED_EVERY", "AwaitedEnds", "job_ids_in"]

ANNOUNCED_FOR: Final = 10
"""Seconds for which nodes announce ends after a request."""
REQUESTED_EVERY: Final = 4.0
"""Seconds after which a client with waiting callers renews its request."""

W = TypeVar("W")

_NUMBERS = re.compile("[0-9]{1,19}(?:,[0-9]{1,19})*")


@define
class AwaitedEnds(Generic[W]):
    """The callers of one process that wait for jobs; each is an object that gets the end."""

    _waiters: dict[int, list[W]] = field(factory=dict)
    _announced: set[int] = field(factory=set)
    _is_any: bool = False

    def __bool__(self) -> bool:
        """Whether a caller waits."""
        return bool(self._waiters)

    def add(self, job_id: int, waiter: W) -> None:
        """Add a caller that waits for a job."""
        self._waiters.setdefault(job_id, []).append(waiter)

    def discard(self, job_id: int, waiter: W) -> None:
        """Forget a caller that no longer waits."""
        waiters = self._waiters.get(job_id, [])
        if waiter in waiters:
            waiters.remove(waiter)
        if not waiters:
            self._waiters.pop(job_id, None)

    def note(self, ended: frozenset[int] | None) -> bool:
        """Note announced ends, None for any; return whether there is now something to look at."""
        if ended is None:
            self._is_any = True
        else:
            self._announced |= ended & self._waiters.keys()
        return self.is_noted

    @property
    def is_noted(self) -> bool:
        """Whether an awaited job may have ended since the last `take`."""
        return bool(self._waiters) and (self._is_any or bool(self._announced))

    def take(self) -> list[int]:
        """Return the numbers of the awaited jobs that may have ended, and forget what was noted."""
        numbers = self._waiters.keys()
        taken = list(numbers if self._is_any else self._announced & numbers)
        self._is_any = False
        self._announced.clear()
        return taken

    def told(self, jobs: Iterable[Job]) -> Iterator[tuple[W, Job]]:
        """Yield each caller that waits for one of these ended jobs; it no longer waits."""
        for job in jobs:
            for waiter in self._waiters.pop(job.id, []):
                yield waiter, job

    def released(self) -> list[tuple[W, int]]:
        """Return all callers with the numbers of their jobs; none of them waits any longer."""
        waiters = [(each, job_id) for job_id, found in self._waiters.items() for each in found]
        self._waiters.clear()
        return waiters


def job_ids_in(text: str) -> frozenset[int] | None:
    """Return the job numbers in a notification; None if its text is not a list of numbers."""
    return frozenset(map(int, text.split(","))) if _NUMBERS.fullmatch(text) else None

"""Which jobs the callers of a process wait for, when a client looks whether they have ended, and at
which.

The callers of `WorkQueue.wait` have Deferreds here, those of the queues without Twisted futures.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final, Generic, TypeVar

from attrs import define, field

from txqueue.model.job import Job
from txqueue.policy.backoff import Backoff

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

    def told(self, asked: Iterable[int], found: Iterable[Job]) -> Iterator[tuple[W, Job | None]]:
        """Yield each caller whose job has ended, or is gone; it no longer waits.

        Args:
            asked: The numbers of the jobs that were looked at.
            found: Those that are there.
        """
        jobs = {job.id: job for job in found}
        for job_id in asked:
            job = jobs.get(job_id)
            if job is None or job.state.is_final:
                for waiter in self._waiters.pop(job_id, []):
                    yield waiter, job

    def released(self) -> list[tuple[W, int]]:
        """Return all callers with the numbers of their jobs; none of them waits any longer."""
        waiters = [(each, job_id) for job_id, found in self._waiters.items() for each in found]
        self._waiters.clear()
        return waiters


def job_ids_in(text: str) -> frozenset[int] | None:
    """Return the job numbers in a notification; None if its text is not a list of numbers."""
    return frozenset(map(int, text.split(","))) if _NUMBERS.fullmatch(text) else None


FIRST, FACTOR, LONGEST = 0.015, 1.5, 0.5
"""The pauses between looks without announcements, in seconds: the first, their growth, the longest.
"""
RARELY: Final = 2.0
"""The seconds between looks at all awaited jobs while ends are announced."""


def read_limit(timeout: float | None) -> float | None:
    """Return the seconds in which a caller learns of an earlier end, even if it does not wait."""
    return None if timeout is None else max(timeout, 1.0)


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

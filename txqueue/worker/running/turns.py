"""When a worker acts: in the reactor's next turn, or right after it has read messages."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context

from txqueue.system.clock import Clock

__all__ = ["Turns"]


class Turns:
    """Starts jobs and reports ended ones soon after it was asked to, once for many requests.

    Without messages that is in the reactor's next turn. What messages request that are read
    together is done after the last of them, unless a turn was due before: a job that was handed
    to an idle worker, and has ended, is reported in the turn that read it.

    Args:
        clock: Has the reactor's turns.
        start: Starts jobs.
        report: Reports what has ended.
    """

    def __init__(self, clock: Clock, start: Callable[[], None], report: Callable[[], None]) -> None:
        self._clock = clock
        self._start = start
        self._report = report
        self._is_reading = False
        self._is_starting = False
        self.is_due = False

    def request(self, after: float = 0) -> None:
        """Request a turn, unless one is due.

        Args:
            after: Seconds until the turn, at least; while messages are read, none.
        """
        if not self.is_due:
            self.is_due = True
            if not self._is_reading:
                self._clock.callLater(after, self._take)

    def start_now(self) -> None:
        """Start jobs without a turn, which costs more than to start one, unless one is due."""
        if self.is_due:
            return
        if self._is_starting:
            # A job has ended while others are being started.
            self.request()
            return
        # A job that has just ended leaves the next ones nothing of its context.
        Context().run(self._start_jobs)

    def _start_jobs(self) -> None:
        self._is_starting = True
        try:
            self._start()
        finally:
            self._is_starting = False

    def reading(self) -> AbstractContextManager[None]:
        """Take the turn that the block requests at its end."""
        return _Reading(self)

    def begin_reading(self) -> None:
        """Note that messages are read, which may request a turn."""
        self._is_reading = True

    def end_reading(self, *, was_due: bool) -> None:
        """Take the turn that the messages have requested, unless one was due before."""
        self._is_reading = False
        if self.is_due and not was_due:
            self._take()

    def _take(self) -> None:
        self.is_due = False
        self._start_jobs()
        self._report()


class _Reading(AbstractContextManager[None]):
    """A block that reads messages; a class, as a generator for each read costs more."""

    __slots__ = ("_turns", "_was_due")

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        self._was_due = turns.is_due

    def __enter__(self) -> None:
        self._turns.begin_reading()

    def __exit__(self, *error: object) -> None:
        self._turns.end_reading(was_due=self._was_due)

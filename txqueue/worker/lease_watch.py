"""Watches the lease of a worker's node: when it expires, jobs of groups must end."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

from txqueue.system.clock import Clock, Timer

__all__ = ["LeaseWatch"]

# Seconds in which interrupted jobs must end; other nodes take them a second after the lease's end.
GRACE = 0.5


class LeaseWatch:
    """Interrupts jobs of groups when the lease expires; ends the whole process if they do not end.

    Another node may run the next job of a group as soon as this node is presumed dead, so the
    group's job here must have ended. Jobs without a group continue: they may run twice, and only
    one run counts.

    Args:
        clock: Times the lease.
        end: Interrupts jobs of groups: all, or only those of other runs of the node than an
            incarnation; returns whether some are left.
        leave: Exits the process.
    """

    def __init__(
        self, clock: Clock, end: Callable[[int | None], bool], leave: Callable[[], None]
    ) -> None:
        self._clock = clock
        self._end = end
        self._leave = leave
        self._until = math.inf
        self._timer: Timer | None = None
        self._former: Timer | None = None
        self._incarnation = 0

    def renew(self, until: float, incarnation: int = 0) -> None:
        """Note that the lease of run `incarnation` holds until `until`, by the monotonic clock.

        It does not cover jobs of former runs of the node, which other nodes may have taken.
        """
        if incarnation != self._incarnation:
            self._incarnation = incarnation
            self._end_former()
        self._until = until
        self._wait(max(0.0, until - time.monotonic()), self._look)

    def stop(self) -> None:
        """Stop watching the lease."""
        for timer in (self._timer, self._former):
            if timer is not None and timer.active():
                timer.cancel()

    def _end_former(self) -> None:
        if self._former is not None and self._former.active():
            return
        if self._end(self._incarnation):
            self._former = self._clock.callLater(GRACE, self._look_at_former)

    def _look_at_former(self) -> None:
        if self._end(self._incarnation):
            self._leave()

    def _look(self) -> None:
        left = self._until - time.monotonic()
        if left > 0:
            self._wait(left, self._look)
        elif self._end(None):
            self._wait(GRACE, self._look_again)

    def _look_again(self) -> None:
        if self._end(None):
            self._leave()

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        if self._timer is not None and self._timer.active():
            self._timer.cancel()
        self._timer = self._clock.callLater(seconds, then)

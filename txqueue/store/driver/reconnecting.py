"""The reconnect backoff, shared by all connections of a node."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from txqueue.errors import DatabaseUnavailable
from txqueue.policy.backoff import JITTER, Backoff
from txqueue.store.driver.slow_hosts import SlowHosts

__all__ = ["ReconnectBackoff"]

FIRST, LONGEST = 0.1, 2.0
# Seconds that follow the end of a failed attempt at least.
LEAST = FIRST * JITTER


class ReconnectBackoff:
    """After a failed attempt to connect, fails further ones at once, for a growing time.

    The time counts from the start of the attempt, which takes long where a host does not answer.

    Args:
        now: Returns the time by the monotonic clock.
        longest: The longest such time in seconds, at most two.

    Attributes:
        slow_hosts: The hosts that did not answer recently.
        on_failure: Called when such a time begins.
        on_recovery: Called when an attempt succeeds after one that failed.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, *, longest: float = LONGEST
    ) -> None:
        self._now = now
        self._until = float("-inf")
        self._backoff = Backoff(FIRST, min(longest, LONGEST))
        self._failure: DatabaseUnavailable | None = None
        self.slow_hosts = SlowHosts(now)
        self.on_failure: Callable[[], None] = lambda: None
        self.on_recovery: Callable[[], None] = lambda: None

    @property
    def failure(self) -> str | None:
        """Why the last attempt to connect has failed; None if it succeeded."""
        return None if self._failure is None else self._failure.what

    @property
    def left(self) -> float | None:
        """The seconds until an attempt may be made; None if the last one succeeded."""
        return None if self._failure is None else max(0.0, self._until - self._now())

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Make one attempt to connect.

        Raises:
            DatabaseUnavailable: When this attempt fails, or at once, with the previous error, when
                an attempt has just failed.
        """
        began = self._now()
        if self._failure is not None and began < self._until:
            raise DatabaseUnavailable(*self._failure.args)
        try:
            yield
        except DatabaseUnavailable as error:
            self._pause(error, began)
            raise
        self._backoff.reset()
        failure, self._failure = self._failure, None
        if failure is not None:
            self.on_recovery()

    def _pause(self, error: DatabaseUnavailable, began: float) -> None:
        self._failure = error
        now = self._now()
        if now < self._until:
            # Concurrent attempts to connect that failed together count as one.
            return
        self._until = max(began + self._backoff.take(random.random()), now + LEAST)
        self.on_failure()

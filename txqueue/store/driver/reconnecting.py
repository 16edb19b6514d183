"""The reconnect backoff, shared by all connections of a node."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from txqueue.errors import DatabaseUnavailable
from txqueue.policy.backoff import Backoff

__all__ = ["ReconnectBackoff"]

FIRST, LONGEST = 0.1, 2.0


class ReconnectBackoff:
    """After a failed attempt to connect, fails further ones at once, for a growing time.

    Args:
        now: Returns the time by the monotonic clock.
        longest: The longest such time in seconds, at most two.

    Attributes:
        on_recovery: Called when an attempt succeeds after one that failed.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, *, longest: float = LONGEST
    ) -> None:
        self._now = now
        self._until = float("-inf")
        self._backoff = Backoff(FIRST, min(longest, LONGEST))
        self._failure: DatabaseUnavailable | None = None
        self.on_recovery: Callable[[], None] = lambda: None

    @property
    def failure(self) -> str | None:
        """Why the last attempt to connect has failed; None if it succeeded."""
        return None if self._failure is None else self._failure.what

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Make one attempt to connect.

        Raises:
            DatabaseUnavailable: When this attempt fails, or at once, with the previous error, when
                an attempt has just failed.
        """
        if self._failure is not None and self._now() < self._until:
            raise DatabaseUnavailable(*self._failure.args)
        try:
            yield
        except DatabaseUnavailable as error:
            self._begin(error)
            raise
        self._backoff.reset()
        failure, self._failure = self._failure, None
        if failure is not None:
            self.on_recovery()

    def _begin(self, error: DatabaseUnavailable) -> None:
        self._failure = error
        if self._now() < self._until:
            # Concurrent attempts to connect that failed together count as one.
            return
        self._until = self._now() + self._backoff.take(random.random())

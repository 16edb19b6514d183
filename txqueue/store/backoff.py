"""A pause after a failed attempt to connect, shared by all connections of a node."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from txqueue.errors import DatabaseUnavailable

__all__ = ["Backoff"]

FIRST, LONGEST = 0.1, 2.0


class Backoff:
    """Lets one attempt fail for all that come soon after it, for a time that grows with each.

    Args:
        now: The monotonic clock.
        longest: Seconds that a pause has at most, two in any case.
    """

    def __init__(
        self, now: Callable[[], float] = time.monotonic, *, longest: float = LONGEST
    ) -> None:
        self._now = now
        self._longest = min(longest, LONGEST)
        self._until = float("-inf")
        self._pause = FIRST
        self._said = ""

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Make one attempt to connect.

        Raises:
            DatabaseUnavailable: When one has failed just now: says what that said, and makes none.
        """
        if self._now() < self._until:
            raise DatabaseUnavailable(self._said, "check the DSN and that the server runs")
        try:
            yield
        except DatabaseUnavailable as error:
            self._begin(error)
            raise
        self._pause = FIRST

    def _begin(self, error: DatabaseUnavailable) -> None:
        self._said = error.what
        if self._now() < self._until:
            # Several attempts were under way, and have failed together.
            return
        self._until = self._now() + self._pause * random.uniform(0.5, 1.0)
        self._pause = min(self._pause * 2, self._longest)

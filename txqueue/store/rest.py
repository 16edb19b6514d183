"""A moment in which nobody tries to connect: the last attempt has just failed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from txqueue.errors import DatabaseUnavailable

__all__ = ["Rest"]

FIRST, LONGEST = 0.1, 2.0


class Rest:
    """Lets one attempt fail for all that come soon after it, for a time that grows with each.

    Args:
        now: The monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._until = float("-inf")
        self._pause = FIRST
        self._said = ""

    def check(self) -> None:
        """Let an attempt be made.

        Raises:
            DatabaseUnavailable: When one has failed just now; it says what that said.
        """
        if self._now() < self._until:
            raise DatabaseUnavailable(self._said, "check the DSN and that the server runs")

    def begin(self, error: DatabaseUnavailable) -> None:
        """An attempt has failed."""
        self._said = error.what
        self._until = self._now() + self._pause * random.uniform(0.5, 1.0)
        self._pause = min(self._pause * 2, LONGEST)

    def end(self) -> None:
        """An attempt has succeeded."""
        self._until = float("-inf")
        self._pause = FIRST

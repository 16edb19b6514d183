"""What a measurement tells of itself while it runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Advance", "Pace", "Stages"]

Advance = Callable[[int], None]
"""Says how much of a stage is done."""


class Stages(Protocol):
    """Who shows how far a measurement is."""

    def begin(self, name: str, total: int | None = None) -> Advance:
        """Begin a stage; the one before it is over.

        Args:
            name: What happens in it.
            total: How much there is to do; None if nobody knows.
        """


class Pace:
    """Spaces out a question so that asking costs the server next to nothing.

    Args:
        least: Seconds between two questions at least.
        share: No more than this part of the time goes into asking,
        most: but it is asked again after so many seconds, whatever that costs.
    """

    def __init__(self, least: float = 0.2, share: float = 0.02, most: float = 2.0) -> None:
        self._least = least
        self._share = share
        self._most = most
        self._asked_at = time.monotonic()

    def asking(self) -> None:
        """Note that the question is asked now."""
        self._asked_at = time.monotonic()

    def rest(self) -> None:
        """Sleep until it may be asked again."""
        took = time.monotonic() - self._asked_at
        time.sleep(min(max(self._least, took / self._share), self._most))

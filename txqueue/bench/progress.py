"""The progress of a measurement."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Advance", "Pace", "Stages"]

Advance = Callable[[int], None]
"""Reports how much of a stage is done."""


class Stages(Protocol):
    """Shows the progress of a measurement."""

    def begin(self, name: str, total: int | None = None) -> Advance:
        """Begin a stage, which ends the one before.

        Args:
            name: The stage's name.
            total: How much there is to do; None if unknown.
        """


class Pace:
    """Spaces out a query so that it costs the server little.

    Args:
        least: The shortest interval between two queries, in seconds.
        share: The largest fraction of time that queries may take.
        most: The longest interval in seconds, whatever the queries cost.
    """

    def __init__(self, least: float = 0.2, share: float = 0.02, most: float = 2.0) -> None:
        self._least = least
        self._share = share
        self._most = most
        self._asked_at = time.monotonic()

    def asking(self) -> None:
        """Note the start of a query."""
        self._asked_at = time.monotonic()

    def rest(self) -> None:
        """Sleep until the next query is due."""
        took = time.monotonic() - self._asked_at
        time.sleep(min(max(self._least, took / self._share), self._most))

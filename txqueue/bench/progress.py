"""Shows how far a measurement is, and limits how often it queries the database."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

__all__ = ["Advance", "Pace", "Stages"]

Advance = Callable[[int], None]
"""A function that shows how much of a stage is done, in the unit of the stage's total."""


class Stages(Protocol):
    """Shows the stages of a measurement one after the other, each with its progress."""

    def begin(self, name: str, total: int | None = None) -> Advance:
        """Begin a stage, which ends the one before.

        Args:
            name: The stage's name.
            total: How much the stage has to do, for instance how many jobs; None if unknown.
        """


class Pace:
    """Spaces out the repetitions of a query so that they cost the server little.

    Args:
        least: The shortest interval between two queries, in seconds.
        share: The largest fraction of time that the query may take.
        most: The longest interval in seconds, whatever the queries cost.
    """

    def __init__(self, least: float = 0.2, share: float = 0.02, most: float = 2.0) -> None:
        self._least = least
        self._share = share
        self._most = most
        self._asked_at = time.monotonic()

    def asking(self) -> None:
        """Note that the query starts now."""
        self._asked_at = time.monotonic()

    def rest(self) -> None:
        """Sleep until the next query is due."""
        took = time.monotonic() - self._asked_at
        time.sleep(min(max(self._least, took / self._share), self._most))

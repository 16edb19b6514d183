"""Assignments that messages named by their numbers alone, until they are read from the database."""

from __future__ import annotations

from collections.abc import Sequence

from txqueue.node.wakeups import Wakeups

__all__ = ["MOST_NAMED", "Inbox"]

# Each assignment that a message names costs a statement.
MOST_NAMED = 2_000


class Inbox:
    """What clients and peers have told the node to read.

    Args:
        wakeups: Wakes what reads it.
    """

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._named: list[int] = []
        self._is_overfull = False

    def __bool__(self) -> bool:
        return bool(self._named) or self._is_overfull

    def read(self, assignments: Sequence[int]) -> None:
        """Take numbers."""
        self._named += assignments
        if len(self._named) > MOST_NAMED:
            self._named.clear()
            self._is_overfull = True
        self._wakeups.orphans.ring()

    def take(self) -> list[int]:
        """Return what was named, each number once, and forget it.

        Nothing if it was too much: a look for all that is not known finds it as well.
        """
        named = [] if self._is_overfull else list(dict.fromkeys(self._named))
        self._named, self._is_overfull = [], False
        return named

"""Assignments that messages named by number only, until they are read from the database."""

from __future__ import annotations

from collections.abc import Sequence

from txqueue.node.state.wakeups import Wakeups

__all__ = ["MOST_NAMED", "Inbox"]

# Limits the statements, as each named assignment costs one.
MOST_NAMED = 2_000


class Inbox:
    """The numbers of assignments that clients and peers have named and no service has read yet.

    Args:
        wakeups: Wakes the service that reads the inbox.
    """

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._named: list[int] = []
        self._is_overfull = False

    def __bool__(self) -> bool:
        return bool(self._named) or self._is_overfull

    def read(self, assignments: Sequence[int]) -> None:
        """Add numbers of assignments, and wake the service that reads them."""
        self._named += assignments
        if len(self._named) > MOST_NAMED:
            self._named.clear()
            self._is_overfull = True
        self._wakeups.orphans.ring()

    def take(self) -> list[int]:
        """Return the assignment numbers, each once, and empty the inbox.

        Return none if there were too many: polling for all unknown assignments finds them too.
        """
        named = [] if self._is_overfull else list(dict.fromkeys(self._named))
        self._named, self._is_overfull = [], False
        return named

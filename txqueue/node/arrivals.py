"""Which assignments have arrived at a node, by message or by looking, so that each runs once."""

from __future__ import annotations

from collections import deque

__all__ = ["Arrivals"]

REMEMBERED = 100_000


class Arrivals:
    """The numbers of the assignments that arrived last."""

    def __init__(self) -> None:
        self._known: set[int] = set()
        self._in_order: deque[int] = deque()

    def accept(self, assignment: int) -> bool:
        """Note that an assignment arrived; returns whether it did for the first time."""
        if assignment in self._known:
            return False
        self._known.add(assignment)
        self._in_order.append(assignment)
        if len(self._in_order) > REMEMBERED:
            self._known.discard(self._in_order.popleft())
        return True

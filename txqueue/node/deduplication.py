"""Which assignments have arrived at a node, by message or by looking, so that each runs once."""

from __future__ import annotations

__all__ = ["Deduplicator"]

BLOCK = 1024
"""Numbers of assignments that are kept together, a bit each."""
REMEMBERED = 1000
"""Blocks: of the last million assignments of the whole cluster all that came here are known."""


class Deduplicator:
    """The numbers of the assignments that arrived last."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def accept(self, assignment: int) -> bool:
        """Note that an assignment arrived; returns whether it did for the first time."""
        block, place = divmod(assignment, BLOCK)
        arrived = self._blocks.get(block, 0)
        if arrived >> place & 1:
            return False
        self._blocks[block] = arrived | 1 << place
        if len(self._blocks) > REMEMBERED:
            del self._blocks[next(iter(self._blocks))]
        return True

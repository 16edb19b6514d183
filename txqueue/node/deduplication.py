"""Remembers which assignments have arrived, by message or by polling, so that each runs once."""

from __future__ import annotations

__all__ = ["Deduplicator"]

BLOCK = 1024
"""How many assignment numbers a block of bits stands for, with one bit each."""
REMEMBERED = 1000
"""How many blocks of bits are kept: enough for the cluster's last million assignments."""


class Deduplicator:
    """The numbers of the latest assignments that have arrived."""

    def __init__(self) -> None:
        self._blocks: dict[int, int] = {}

    def accept(self, assignment: int) -> bool:
        """Note that an assignment arrived; return whether it is new."""
        block, place = divmod(assignment, BLOCK)
        arrived = self._blocks.get(block, 0)
        if arrived >> place & 1:
            return False
        self._blocks[block] = arrived | 1 << place
        if len(self._blocks) > REMEMBERED:
            del self._blocks[next(iter(self._blocks))]
        return True

"""Remembers which assignments have arrived, by message or by polling, so that each runs once."""

from __future__ import annotations

from array import array

from txqueue.model.assignment import place_of

__all__ = ["Deduplicator"]

BLOCK = 1024
"""How many consecutive assignments a block stands for, with the number of each that arrived."""
REMEMBERED = 256
"""How many blocks are kept, 2 MB: the cluster's last quarter of a million assignments."""
_EMPTY = array("q", [-1]) * BLOCK


class Deduplicator:
    """The numbers of the latest assignments that have arrived."""

    def __init__(self) -> None:
        self._blocks: dict[int, array[int]] = {}

    def accept(self, assignment: int) -> bool:
        """Note that an assignment arrived; return whether it is new."""
        block, place = divmod(place_of(assignment), BLOCK)
        arrived = self._blocks.get(block)
        if arrived is None:
            arrived = self._blocks[block] = _EMPTY[:]
            if len(self._blocks) > REMEMBERED:
                del self._blocks[next(iter(self._blocks))]
        # The whole number: a restored database may use a place again.
        if arrived[place] == assignment:
            return False
        arrived[place] = assignment
        return True

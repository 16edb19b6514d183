"""Decides, without I/O, how much a claim asks for once one took longer than a statement may."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, evolve, field

from txqueue.policy.placement.room import Room

__all__ = ["ClaimShare"]

# By how much claims shrink each time, and to which part at most; each one too many costs a
# statement's patience. They double again after one that took less than QUICK seconds.
SHRINKAGE, LEAST, QUICK = 8, 4096, 1.0


@define
class ClaimShare:
    """The part of its queues and of the workers' room that a node's next claim asks for.

    Args:
        all_queues: The queues that the node serves.

    Attributes:
        parts: How many claims ask for all queues, one after the other.
    """

    all_queues: Sequence[str]
    parts: int = field(default=1, init=False)
    _turn: int = field(default=0, init=False)

    @property
    def is_part(self) -> bool:
        """Whether a claim asks for less than there is."""
        return self.parts > 1

    def shrink(self) -> None:
        """Have claims ask for less, as one took too long."""
        self.parts = min(self.parts * SHRINKAGE, LEAST)

    def answered(self, seconds: float) -> None:
        """Have claims ask for more if one was answered quickly."""
        if seconds < QUICK:
            self.parts = max(1, self.parts // 2)

    def next_queues(self) -> Sequence[str]:
        """Return the queues of the next claim: of a part, others each time."""
        self._turn += 1
        parts = min(self.parts, len(self.all_queues))
        return self.all_queues[self._turn % parts :: parts]

    def of(self, room: Room) -> Room:
        """Return the room of the next claim, with space for the heaviest job all the same."""
        free = max(room.free // self.parts, min(room.free, room.largest))
        return evolve(room, free=free, ahead=min(room.ahead, free)) if self.is_part else room

"""A loaded node leaves heavy jobs to an idle peer."""

from __future__ import annotations

from collections.abc import Callable

from txqueue.policy.dispatch import Room

__all__ = ["Yielding"]

# A node is loaded that has so much of its room taken; a job is heavy that takes so much of a
# worker's capacity.
LOADED, HEAVY = 0.5, 0.25
# A peer that has not taken them for so many seconds may be unable to; then nothing is left to it
# for so many.
PATIENCE, REST = 2.0, 10.0


class Yielding:
    """Says how heavy the jobs may be that a claim takes.

    A claim ends at the first job that is too heavy for it, so that one that an idle peer is to have
    holds up lighter ones behind it only until that has claimed, a moment later.

    Args:
        seconds: Returns the time of a clock that never goes back.
        has_idle_peer: Whether a node that can run the same jobs runs next to nothing.
    """

    def __init__(self, seconds: Callable[[], float], has_idle_peer: Callable[[], bool]) -> None:
        self._seconds = seconds
        self._has_idle_peer = has_idle_peer
        self._since: float | None = None
        self._is_yielding = False

    def heaviest(self, room: Room) -> int:
        """Return the weight of the heaviest job to claim."""
        waited = 0.0 if self._since is None else self._seconds() - self._since
        if waited >= PATIENCE + REST:
            self._since, waited = None, 0.0
        is_loaded = room.free <= room.limit * (1 - LOADED)
        self._is_yielding = is_loaded and waited < PATIENCE and self._has_idle_peer()
        if not self._is_yielding:
            return room.largest
        return min(room.largest, max(1, int(room.capacity * HEAVY)))

    def claimed(self, *, is_left: bool) -> None:
        """Note whether a claim has left ready jobs behind."""
        if self._is_yielding and is_left:
            self._since = self._seconds() if self._since is None else self._since
        elif self._is_yielding:
            self._since = None

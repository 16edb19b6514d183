"""Lets a loaded node leave heavy jobs to an idle peer."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from txqueue.policy.dispatch import Room
from txqueue.system.clock import Clock

__all__ = ["HeavyJobLimit", "IdlePeers"]

# The fraction of taken room from which a node counts as loaded, and the fraction of a worker's
# capacity from which a job counts as heavy.
LOADED, HEAVY = 0.5, 0.25
# Seconds after which an idle peer that has not claimed the heavy jobs counts as unable to, and
# seconds for which this node then leaves it no jobs.
PATIENCE, REST = 2.0, 10.0


class IdlePeers(Protocol):
    """The loads of the peers."""

    def has_idle(self, queues: Collection[str], work_types: Collection[str]) -> bool:
        """Tell whether a peer that serves all these queues and work types is nearly idle."""


class HeavyJobLimit:
    """Limits the weight of the jobs that a claim takes.

    A claim ends at the first job that is too heavy for it. So a job left to an idle peer delays
    lighter ones behind it only until the peer claims, a moment later.

    Args:
        clock: A clock that never goes back.
        peers: Tell whether a node that can run the same jobs is nearly idle.
        queues: The queues that this node serves.
        work_types: The names of this node's work types.
    """

    def __init__(
        self,
        clock: Clock,
        peers: IdlePeers,
        queues: Collection[str],
        work_types: Collection[str],
    ) -> None:
        self._clock = clock
        self._peers = peers
        self._queues = queues
        self._work_types = work_types
        self._since: float | None = None
        self._is_limiting = False

    def heaviest(self, room: Room) -> int:
        """Return the weight of the heaviest job that a claim may take."""
        waited = 0.0 if self._since is None else self._clock.seconds() - self._since
        if waited >= PATIENCE + REST:
            self._since, waited = None, 0.0
        is_loaded = room.free <= room.limit * (1 - LOADED)
        self._is_limiting = is_loaded and waited < PATIENCE and self._has_idle_peer
        if not self._is_limiting:
            return room.largest
        return min(room.largest, max(1, int(room.capacity * HEAVY)))

    @property
    def _has_idle_peer(self) -> bool:
        return self._peers.has_idle(self._queues, self._work_types)

    def claimed(self, *, is_left: bool) -> None:
        """Note whether a claim has left ready jobs."""
        if self._is_limiting and is_left:
            self._since = self._clock.seconds() if self._since is None else self._since
        elif self._is_limiting:
            self._since = None

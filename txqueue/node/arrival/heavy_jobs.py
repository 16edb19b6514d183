"""Lets a node leave heavy jobs to less loaded ones, for a limited time."""

from __future__ import annotations

from typing import Protocol

from txqueue.system.clock import Clock

__all__ = ["HeavyJobs"]

# The least difference of loads for which a node leaves a heavy job to another one, as in
# has_lighter_node().
MARGIN = 0.1
# Seconds after which a job that no other node has claimed is not left any longer, and for which
# this node then leaves no jobs: the others may be unable to, for a reason that it does not know.
PATIENCE, REST = 2.0, 10.0


class Peers(Protocol):
    """The other nodes."""

    def wake(self) -> None:
        """Notify connected nodes with room that there may be work."""


class HeavyJobs:
    """Decides whether claims leave heavy jobs to less loaded nodes; lighter ones go ahead of them.

    Args:
        clock: A clock that never goes back.
        peers: Are notified of a job that is left to them.
    """

    def __init__(self, clock: Clock, peers: Peers) -> None:
        self._clock = clock
        self._peers = peers
        self._left: tuple[int, float] | None = None
        self._rests_until = float("-inf")

    def compared_load(self, load: float) -> float | None:
        """Return the load with which a claim compares those of other nodes.

        Args:
            load: The weight of the jobs that this node's workers hold, as a fraction of their
                capacity.

        Returns:
            The load; None if the claim leaves no job to others.
        """
        return load if load > MARGIN and self._clock.seconds() >= self._rests_until else None

    def claimed(self, left_job: int | None) -> None:
        """Note the first job that a claim has left to others."""
        now = self._clock.seconds()
        if left_job is None:
            self._left = None
        elif self._left is None or self._left[0] != left_job:
            self._left = (left_job, now)
            self._peers.wake()
        elif now - self._left[1] >= PATIENCE:
            self._rests_until = now + REST

    def pause(self, pause: float) -> float:
        """Return the pause before the next claim, at most until this node takes the job itself."""
        if self._left is None:
            return pause
        return min(pause, max(0.0, self._left[1] + PATIENCE - self._clock.seconds()))

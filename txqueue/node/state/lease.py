"""The node's lease: written by the lease keeper, read by all services."""

from __future__ import annotations

import time
from typing import NamedTuple

__all__ = ["Identity", "Lease"]


class Identity(NamedTuple):
    """The numbers that the database has given to a node and to this run of it."""

    node_id: int
    incarnation: int


class Lease:
    """The right to the jobs that are assigned to this run of the node.

    Args:
        seconds: How long the lease holds after a renewal.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._identity: Identity | None = None
        self._renewed_at = self._reached_at = float("-inf")

    @property
    def until(self) -> float:
        """When the lease expires, by the monotonic clock."""
        return self._renewed_at + self.seconds

    @property
    def left(self) -> float:
        """Seconds until the lease expires; 0 or less once it has expired."""
        return self.until - time.monotonic()

    @property
    def is_reached(self) -> bool:
        """Whether the database has answered this node within the last half of a lease."""
        return time.monotonic() - self._reached_at < self.seconds / 2

    @property
    def is_registered(self) -> bool:
        """Whether the node has an incarnation, even if its lease has expired."""
        return self._identity is not None

    @property
    def incarnation(self) -> int:
        """The incarnation, even after the lease has expired; 0 while the node is unregistered."""
        return self._identity.incarnation if self._identity else 0

    @property
    def identity(self) -> Identity | None:
        """The run's identity while its lease holds, else None."""
        return self._identity if time.monotonic() < self.until else None

    @property
    def reaching(self) -> Identity | None:
        """The run's identity while its lease holds and the database answers this node, else None.

        Without answers, a peer may still renew the lease.
        """
        return self.identity if self.is_reached else None

    def register(self, identity: Identity) -> None:
        """Begin a run of this identity; only `renew` starts its lease."""
        self._identity = identity

    def forget(self) -> None:
        """Forget the run's identity, as other nodes have taken its jobs."""
        self._identity = None

    def reached(self) -> None:
        """Note that the database has just answered this node."""
        self._reached_at = time.monotonic()

    def renew(self, began: float) -> None:
        """Let the lease count from `began`, by the monotonic clock, unless it counts from later."""
        self._renewed_at = max(began, self._renewed_at)

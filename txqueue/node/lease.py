"""The node's lease: written by the lease keeper, read by all services."""

from __future__ import annotations

import time
from typing import NamedTuple

__all__ = ["Identity", "Lease"]


class Identity(NamedTuple):
    """The identity of a node's run, as the database numbers it."""

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
        """The moment at which the lease expires, by the monotonic clock."""
        return self._renewed_at + self.seconds

    @property
    def is_registered(self) -> bool:
        """Whether the node has an incarnation, whether its lease holds or not."""
        return self._identity is not None

    @property
    def incarnation(self) -> int:
        """The incarnation, even after the lease, as its writes are fenced; 0 for none."""
        return self._identity.incarnation if self._identity else 0

    @property
    def identity(self) -> Identity | None:
        """The run's identity while its lease holds, else None."""
        return self._identity if time.monotonic() < self.until else None

    @property
    def reaching(self) -> Identity | None:
        """The identity while this node itself reaches the database; else a peer may renew its
        lease.
        """
        is_reached = time.monotonic() - self._reached_at < self.seconds / 2
        return self.identity if is_reached else None

    def register(self, identity: Identity) -> None:
        """Start a run, whose lease is not renewed yet."""
        self._identity = identity

    def forget(self) -> None:
        """End the run, as other nodes have its jobs."""
        self._identity = None

    def reached(self) -> None:
        """Note that the database has just answered this node."""
        self._reached_at = time.monotonic()

    def renew(self, began: float) -> None:
        """Renew the lease from a moment of the monotonic clock, unless that is earlier."""
        self._renewed_at = max(began, self._renewed_at)

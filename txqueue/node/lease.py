"""The node's lease: read by all services, written by what keeps it."""

from __future__ import annotations

import time
from typing import NamedTuple

__all__ = ["Identity", "Lease"]


class Identity(NamedTuple):
    """A run of a node, as the database numbers it."""

    node_id: int
    incarnation: int


class Lease:
    """The right to the jobs that are assigned to this run of the node.

    Args:
        seconds: How long it holds after a renewal.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._identity: Identity | None = None
        self._renewed_at = self._reached_at = float("-inf")

    @property
    def until(self) -> float:
        """The moment of the monotonic clock at which it expires."""
        return self._renewed_at + self.seconds

    @property
    def is_registered(self) -> bool:
        """Whether the node has an incarnation, whether its lease holds or not."""
        return self._identity is not None

    @property
    def incarnation(self) -> int:
        """The incarnation, whether its lease holds or not: its writes are fenced. 0 for none."""
        return self._identity.incarnation if self._identity else 0

    @property
    def identity(self) -> Identity | None:
        """The run while its lease holds by the monotonic clock, else None."""
        return self._identity if time.monotonic() < self.until else None

    @property
    def reaching(self) -> Identity | None:
        """The identity while the node itself reaches the database; a peer may keep its lease."""
        is_reached = time.monotonic() - self._reached_at < self.seconds / 2
        return self.identity if is_reached else None

    def register(self, identity: Identity) -> None:
        """Begin a run; its lease is to be renewed from the moment at which it was asked for."""
        self._identity = identity

    def forget(self) -> None:
        """End the run: other nodes have its jobs."""
        self._identity = None

    def reached(self) -> None:
        """Note that the database has answered this node just now."""
        self._reached_at = time.monotonic()

    def renew(self, began: float) -> None:
        """Let it hold from a moment of the monotonic clock on; an earlier one changes nothing."""
        self._renewed_at = max(began, self._renewed_at)

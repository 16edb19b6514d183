"""The health of a master process, from the health of its nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from txqueue.policy.health import Health, merge_health

__all__ = ["HealthReporter", "NodesReporter", "ReportingNode"]


class HealthReporter(Protocol):
    """Reports the health of the master process."""

    def report(self) -> Health:
        """Return the current health, at once and without a query."""


class ReportingNode(Protocol):
    """A node that decides its own health."""

    @property
    def node_name(self) -> str:
        """The node's name in the queue."""

    @property
    def health(self) -> Health:
        """Whether the node is live and ready."""


class NodesReporter:
    """Merges the health of the nodes of a process.

    Args:
        nodes: The nodes; at least one.
    """

    def __init__(self, nodes: Sequence[ReportingNode]) -> None:
        self._nodes = nodes

    def report(self) -> Health:
        """Return the current health: ready if every node is."""
        return merge_health([(node.node_name, node.health) for node in self._nodes])

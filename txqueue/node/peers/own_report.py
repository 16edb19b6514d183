"""The node's report to its peers: its load and its reactor lag."""

from __future__ import annotations

from importlib.metadata import version
from typing import Protocol

from txqueue.node.state.collaborators import Capacity
from txqueue.node.state.lease import Lease
from txqueue.node.state.lifecycle import Lifecycle
from txqueue.policy.placement.node_report import NodeReport
from txqueue.policy.placement.room import ahead_of

__all__ = ["Measured", "OwnReport"]


class Measured(Protocol):
    """The measurements of the master: its reactor lag, and the weight that waits in its workers."""

    lag: float
    steady: int

    @property
    def memory(self) -> int:
        """The memory of the process in bytes."""


class OwnReport:
    """Makes the report by which peers decide how to share work with this node.

    Args:
        lease: A node that cannot reach the database reports no room.
        lifecycle: Tells whether the node drains.
        workers: Have the load and its limit.
        lag: Measures reactor lag and the weight that waits in the workers.
    """

    def __init__(
        self, lease: Lease, lifecycle: Lifecycle, workers: Capacity, lag: Measured
    ) -> None:
        self._lease = lease
        self._lifecycle = lifecycle
        self._workers = workers
        self._lag = lag
        self._version = version("txqueue")

    def now(self) -> NodeReport:
        """Return the current report."""
        loads = self._workers.loads
        node_id, incarnation = self._lease.identity or (0, 0)
        # Without the database, this node could not read jobs that a peer hands over.
        has_room = self._lease.reaching is not None
        return NodeReport(
            node_id,
            incarnation,
            capacity=sum(load.capacity for load in loads),
            outstanding=sum(load.outstanding for load in loads),
            limit=sum(load.limit for load in loads) if has_room else 0,
            ahead=self._lag.steady,
            excess=ahead_of(loads)[1],
            workers=max(1, len(loads)),
            lag=self._lag.lag,
            memory=self._lag.memory,
            is_draining=self._lifecycle.is_draining,
            version=self._version,
        )

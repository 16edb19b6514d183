"""What the node says of itself to its peers: how loaded it is, and how late its reactor."""

from __future__ import annotations

from importlib.metadata import version
from typing import Protocol

from txqueue.node.collaborators import Capacity
from txqueue.node.lease import Lease
from txqueue.node.lifecycle import Lifecycle
from txqueue.policy.balancing import NodeReport, ahead_of

__all__ = ["Measured", "OwnReport"]


class Measured(Protocol):
    """Measures the process."""

    lag: float
    steady: int

    @property
    def memory(self) -> int:
        """Bytes that it uses."""


class OwnReport:
    """Makes the report that peers decide by.

    Args:
        lease: A node that does not reach the database has no room.
        lifecycle: Whether the node drains.
        workers: What they hold, and may hold.
        lag: Measures the reactor, and what waits.
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
        """Return the report as things are."""
        loads = self._workers.loads
        node_id, incarnation = self._lease.identity or (0, 0)
        # One that cannot reach the database could read nothing that it is handed.
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

"""The node's report to its peers: its load, its reactor lag, and what waits in its workers."""

from __future__ import annotations

import os
import time
from importlib.metadata import version
from typing import TYPE_CHECKING

from attrs import define

from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.state.periodic import Periodic
from txqueue.policy.placement.peers import NodeReport
from txqueue.policy.placement.room import ahead_of
from txqueue.system.processes import memory_of

if TYPE_CHECKING:
    from txqueue.node.peers.peer import PeerTable
    from txqueue.node.workers.workload import Workers

# Seconds between two measurements, and between those of a node without peers while it has no job.
BEAT, RESTING = 0.1, 1.0
# The fraction of the measured lag that remains after a beat: a stall shows for about a second.
FADING = 0.8
# Seconds for which a measurement of memory is used, as reading it costs more than all else in a
# report.
MEMORY_AGE = 1.0


@define(eq=False, repr=False, slots=False)
class LagMeter(Periodic):
    """Measures reactor lag, and the weight that waits in the workers, ten times a second.

    Args:
        clock: Times the measurements.
        workers: Have the jobs that wait in them.
        peers: Tell whether there are peers, which act on the measurements.

    Attributes:
        lag: Seconds by which the reactor has recently called timers late.
        steady: The weight that waits in the workers now and also waited a tenth of a second ago.
    """

    name = "lag"

    _workers: Workers
    _peers: PeerTable

    def __attrs_post_init__(self) -> None:
        self._due_at = float("inf")
        self._pause = BEAT
        self._waited = 0
        self.lag = 0.0
        self.steady = 0
        self._memory, self._memory_at = 0, float("-inf")

    @property
    def memory(self) -> int:
        """The memory of this process in bytes, at most a second old; 0 where the system does not
        report it.
        """
        now = time.monotonic()
        if now - self._memory_at >= MEMORY_AGE:
            self._memory, self._memory_at = memory_of(os.getpid()), now
        return self._memory

    async def step(self) -> float | None:
        """Measure once."""
        now, waits = time.monotonic(), ahead_of(self._workers.loads)[0]
        late = max(0.0, now - self._due_at)
        self.lag = round(max(late, self.lag * FADING ** (self._pause / BEAT)), 4)
        self.steady, self._waited = min(waits, self._waited), waits
        self._pause = BEAT if self._workers.load > 0 or self._peers.has_fresh else RESTING
        self._due_at = now + self._pause
        return self._pause


@define(eq=False, repr=False, slots=False)
class OwnReport:
    """Makes the report by which peers decide how to share work with this node.

    Args:
        lease: A node that cannot reach the database reports no room.
        lifecycle: Tells whether the node drains.
        workers: Have the load and its limit.
        lag: Measures reactor lag and the weight that waits in the workers.
    """

    _lease: Lease
    _lifecycle: Lifecycle
    _workers: Workers
    _lag: LagMeter

    def __attrs_post_init__(self) -> None:
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

"""A node's figures for metrics, at one moment, without a query."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from txqueue.model.run_tally import Histogram, RunTally
from txqueue.node.arrival.credits import Credits
from txqueue.node.arrival.open_credit import OpenCredit
from txqueue.node.arrival.orphans import OrphanFinder
from txqueue.node.leasing.reconciliation import Reconciliation
from txqueue.node.peers.handover import Handover
from txqueue.node.peers.lag import LagMeter
from txqueue.node.peers.table import PeerTable
from txqueue.node.state.lease import Lease
from txqueue.node.state.meters import Meters
from txqueue.node.workers.completions import Completions
from txqueue.node.workers.workload import Workers

__all__ = ["FigureCollector", "NodeFigures"]


@frozen
class NodeFigures:
    """What a node has counted since its start, and its state now.

    Attributes:
        tally: What jobs did, by work type.
        claims: How long claims took.
        completions: How long statements took that write done jobs.
        waits: How long jobs waited, by queue and work type; see `Meters`.
        deliveries: How many jobs arrived, by the way: ``claim``, ``direct``, ``notified``,
            ``peer``, ``adopted``.
        given_back: How many jobs the node returned to the queue because it did not hold them.
        worker_deaths: How many worker processes ended without being told to.
        rescues: How many jobs of dead nodes it returned to the queue; see `Meters`.
        tokens_lost: How many jobs ended whose outcome changed nothing; see `Meters`.
        running: How many jobs run now.
        unwritten: How many jobs have ended whose outcome is not written yet.
        workers: How many worker processes are ready.
        capacity: The weight that all workers run at a time.
        held: The weight of the jobs that the workers hold.
        lag: Seconds by which the reactor has recently called timers late.
        memory: The memory of the master in bytes.
        lease_left: Seconds until the lease expires; 0 if it has.
        is_reached: Whether the database has answered within the last half of a lease.
        peers: How many peers are connected.
    """

    tally: RunTally
    claims: Histogram
    completions: Histogram
    waits: Mapping[tuple[str, str], Histogram]
    deliveries: Mapping[str, int]
    given_back: int
    worker_deaths: int
    rescues: Mapping[str, int]
    tokens_lost: int
    running: int
    unwritten: int
    workers: int
    capacity: int
    held: int
    lag: float
    memory: int
    lease_left: float
    is_reached: bool
    peers: int


@frozen
class FigureCollector:
    """Collects a node's figures from its services."""

    _meters: Meters
    _lease: Lease
    _workers: Workers
    _completions: Completions
    _credits: Credits
    _open_credit: OpenCredit
    _orphans: OrphanFinder
    _handover: Handover
    _reconciliation: Reconciliation
    _peers: PeerTable
    _lag: LagMeter

    def now(self) -> NodeFigures:
        """Return the figures of this moment."""
        meters, workers = self._meters, self._workers
        capacity = workers.count * workers.capacity
        return NodeFigures(
            tally=meters.tally,
            claims=meters.claims,
            completions=meters.completions,
            waits=meters.waits,
            deliveries={
                "claim": meters.claimed,
                "direct": self._credits.describe()["delivered"],
                "notified": self._open_credit.received,
                "peer": self._handover.received,
                "adopted": self._orphans.adopted,
            },
            given_back=self._reconciliation.given_back,
            worker_deaths=meters.worker_deaths,
            rescues=meters.rescues,
            tokens_lost=meters.tokens_lost,
            running=workers.in_flight,
            unwritten=self._completions.unwritten,
            workers=len(workers.regular),
            capacity=capacity,
            held=round(workers.load * capacity),
            lag=self._lag.lag,
            memory=self._lag.memory,
            lease_left=self._lease.left,
            is_reached=self._lease.is_reached,
            peers=sum(peer.pipe is not None for peer in self._peers),
        )

"""The node's description of itself for operators and heartbeats, and its figures for metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from txqueue.model.run_log import Histogram, RunTally
from txqueue.node.arrival.credits import Credits
from txqueue.node.arrival.open_credit import OpenCredit
from txqueue.node.arrival.orphans import OrphanFinder
from txqueue.node.leasing.reconciliation import Reconciliation
from txqueue.node.peers.handover import Handover
from txqueue.node.peers.own_report import LagMeter
from txqueue.node.peers.peer import PeerTable
from txqueue.node.settings import NodeSettings, locked_types, row_of
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.lease import Lease, Lifecycle
from txqueue.node.workers.completions import Completions
from txqueue.node.workers.starter import WorkerStarter, WorkerVersions
from txqueue.node.workers.suspects import blocking_report, described
from txqueue.node.workers.workload import Workers
from txqueue.policy.facts.status import worker_state
from txqueue.policy.health import Health, HealthFacts, decide_health
from txqueue.store.driver.reconnecting import ReconnectBackoff
from txqueue.store.node.functions import StoredFunctions


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


# How many workers a heartbeat describes: the node's row must stay small.
_PROCESSES_TOLD = 32


@frozen
class Description:
    """Collects the node's description of itself from its services, without a query."""

    _settings: NodeSettings
    _functions: StoredFunctions
    _backoff: ReconnectBackoff
    _lease: Lease
    _lifecycle: Lifecycle
    _workers: Workers
    _starter: WorkerStarter
    _completions: Completions
    _reconciliation: Reconciliation
    _credits: Credits
    _orphans: OrphanFinder
    _peers: PeerTable
    _lag: LagMeter
    _versions: WorkerVersions

    @property
    def load(self) -> float:
        """The weight of the jobs that the workers hold, as a fraction of their capacity."""
        return self._workers.load

    def measured(self) -> dict[str, Any]:
        """Return, as plain data, the measurements that a heartbeat carries besides the load."""
        refusal = self._functions.refusal
        return {
            "workers": len(self._workers.all) - len(self._workers.apart),
            "processes": [
                _in_brief(process) for process in described(self._workers.all)[:_PROCESSES_TOLD]
            ],
            "unable": len(self._workers.regular) - len(self._workers.able),
            "closed": self._workers.closed,
            **blocking_report(self._workers.all),
            "room": self._workers.room_report(),
            "left": self._workers.left,
            "keyless": locked_types(),
            "not_forked": self._starter.obstacle,
            "missing": self._reconciliation.missing,
            "holds": self._workers.holdings.total() + self._completions.unwritten,
            "lag": self._lag.lag,
            "memory": self._lag.memory,
            "unreadable_for": self._settings.unreadable_for,
            "refused": None if refusal is None else asdict(refusal),
            "may_claim": self._functions.may_claim,
            **self._versions.measured(),
        }

    def health(self) -> Health:
        """Return whether the node is live and ready."""
        refusal = self._functions.refusal
        return decide_health(
            HealthFacts(
                has_started=self._lease.is_registered,
                is_draining=self._lifecycle.is_draining,
                has_database=self._lease.is_reached,
                lease_left=self._lease.left,
                workers=len(self._workers.regular),
                able=len(self._workers.able),
                are_starting=self._workers.are_starting,
                refusal=None if refusal is None else refusal.said,
                connect_error=self._backoff.failure,
            )
        )

    def describe(self) -> dict[str, Any]:
        """Return the node's state as plain data, without secrets."""
        return {
            **row_of(self._settings),
            "lag": self._lag.lag,
            "memory": self._lag.memory,
            "peers": self._peers.describe(),
            "incarnation": self._lease.incarnation,
            "state": "draining" if self._lifecycle.is_draining else "alive",
            "has_lease": self._lease.identity is not None,
            "load": self._workers.load,
            "workers": described(self._workers.all),
            "direct_dispatch": {**self._credits.describe(), "adopted": self._orphans.adopted},
            "unwritten": not self._completions.is_clean,
            "missing": self._reconciliation.missing,
            "given_back": self._reconciliation.given_back,
        }


def _in_brief(worker: Mapping[str, Any]) -> list[object]:
    """Return the process id of a worker, its state, its jobs and their weight."""
    return [worker["pid"], worker_state(worker), worker["jobs"], worker["weight"]]

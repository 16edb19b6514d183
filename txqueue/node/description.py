"""The node's description of itself, for operators and for heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import asdict, frozen

from txqueue.node.arrival.credits import Credits
from txqueue.node.arrival.orphans import OrphanFinder
from txqueue.node.leasing.reconciliation import Reconciliation
from txqueue.node.peers.lag import LagMeter
from txqueue.node.peers.table import PeerTable
from txqueue.node.settings import NodeSettings, locked_types, row_of
from txqueue.node.state.lease import Lease
from txqueue.node.state.lifecycle import Lifecycle
from txqueue.node.workers.completions import Completions
from txqueue.node.workers.reports import blocking_report, described
from txqueue.node.workers.starter import WorkerStarter
from txqueue.node.workers.versions import WorkerVersions
from txqueue.node.workers.workload import Workers
from txqueue.policy.facts.status import worker_state
from txqueue.policy.health import Health, HealthFacts, decide_health
from txqueue.store.driver.reconnecting import ReconnectBackoff
from txqueue.store.node.functions import StoredFunctions

__all__ = ["Description"]

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

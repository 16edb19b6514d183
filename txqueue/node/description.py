"""The node's description of itself for operators and heartbeats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from attrs import asdict, frozen

from txqueue.node.settings import locked_types, row_of
from txqueue.node.workers.suspects import blocking_report, described
from txqueue.policy.findings.status import worker_state
from txqueue.policy.health import Health, HealthFacts, decide_health

if TYPE_CHECKING:
    from txqueue.node.services import Services


# How many workers a heartbeat describes: the node's row must stay small.
_PROCESSES_TOLD = 32


@frozen
class Description:
    """The node's description of itself, without a query.

    Args:
        node: Its services.
    """

    _node: Services

    @property
    def load(self) -> float:
        """The weight of the jobs that the workers hold, as a fraction of their capacity."""
        return self._node.workers.load

    def measured(self) -> dict[str, Any]:
        """Return, as plain data, the measurements that a heartbeat carries besides the load."""
        node, refusal = self._node, self._node.functions.refusal
        return {
            "workers": len(node.workers.staying),
            "processes": [
                _in_brief(process) for process in described(node.workers.all)[:_PROCESSES_TOLD]
            ],
            "unable": len(node.workers.regular) - len(node.workers.able),
            "closed": node.workers.closed,
            **blocking_report(node.workers.all),
            "room": node.workers.room_report(),
            "left": node.workers.left,
            "keyless": locked_types(),
            "not_forked": node.starter.obstacle,
            "missing": node.reconciliation.missing,
            "holds": node.workers.holdings.total() + node.completions.unwritten,
            "lag": node.lag.lag,
            "memory": node.lag.memory,
            "unreadable_for": node.settings.unreadable_for,
            "refused": None if refusal is None else asdict(refusal),
            "may_claim": node.functions.may_claim,
            **node.versions.measured(),
        }

    def health(self) -> Health:
        """Return whether the node is live and ready."""
        node, refusal = self._node, self._node.functions.refusal
        return decide_health(
            HealthFacts(
                has_started=node.lease.is_registered,
                is_draining=node.lifecycle.is_draining,
                has_database=node.lease.is_reached,
                lease_left=node.lease.remaining,
                workers=len(node.workers.regular),
                able=len(node.workers.able),
                are_starting=node.workers.are_starting,
                refusal=None if refusal is None else refusal.said,
                connect_error=node.backoff.failure,
            )
        )

    def describe(self) -> dict[str, Any]:
        """Return the node's state as plain data, without secrets."""
        node = self._node
        return {
            **row_of(node.settings),
            "lag": node.lag.lag,
            "memory": node.lag.memory,
            "peers": node.peers.describe(),
            "incarnation": node.lease.incarnation,
            "state": "draining" if node.lifecycle.is_draining else "alive",
            "has_lease": node.lease.identity is not None,
            "load": node.workers.load,
            "workers": described(node.workers.all),
            "direct_dispatch": node.credits.describe(),
            "unwritten": not node.completions.is_clean,
            "missing": node.reconciliation.missing,
            "given_back": node.reconciliation.given_back,
        }


def _in_brief(worker: Mapping[str, Any]) -> list[object]:
    """Return the process id of a worker, its state, its jobs and their weight."""
    return [worker["pid"], worker_state(worker), worker["jobs"], worker["weight"]]

"""How much weight a node can take, and how much of that a job may have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from txqueue.policy.blockers.reason import Facts, control

__all__ = [
    "HIGH",
    "Node",
    "ahead_weight",
    "capped",
    "closed_weight",
    "fits",
    "free_weight",
    "job_weight",
    "kept_weight",
    "largest_free",
    "least_load",
    "weight_to_fill",
]

Node = Mapping[str, Any]

HIGH: Final = 7
"""Jobs of this priority or higher may use a queue's reserve."""


def free_weight(node: Node) -> int:
    """The weight that a node can take: what it said, and what has changed since."""
    room = node.get("room")
    if room is None:
        unused: float = node["capacity"] * (1 - node["load"])
        return max(0, round(unused))
    free: int = room["free"] + room["weight"] - node["held"]
    return max(0, free)


def largest_free(node: Node) -> int:
    """The weight of the heaviest job that a worker of the node can take."""
    room = node.get("room")
    if room is None:
        return free_weight(node)
    return min(int(room["largest"] + max(0, room["weight"] - node["held"])), free_weight(node))


def kept_weight(facts: Facts, node: Node) -> int:
    """The weight of a node that the job's queue keeps for jobs of high priority."""
    reserve = control(facts, "queue").get("reserve") or 0.0
    if not reserve:
        return 0
    if facts["job"]["priority"] >= HIGH and not _is_limited(control(facts, "tenant")):
        return 0
    capacity: int = node["capacity"]
    return max(0, min(ceil(reserve * capacity), capacity - 1))


def closed_weight(facts: Facts, node: Node) -> int:
    """The free weight that the job may not take: what its queue keeps, and what is beyond that."""
    kept = kept_weight(facts, node)
    return kept + ahead_weight(node) if kept else 0


def ahead_weight(node: Node) -> int:
    """The weight that the node may hold beyond what it runs, as it ends jobs quickly."""
    return int((node.get("room") or {}).get("ahead") or 0)


def _is_limited(tenant: Mapping[str, Any]) -> bool:
    """Tell whether a tenant has a limit: in the turn of the reserve, its jobs are not counted."""
    return tenant.get("concurrency") is not None or tenant.get("rate") is not None


def job_weight(facts: Facts, node: Node) -> int:
    """The job's weight; one that is heavier than a worker counts as what the worker has."""
    return capped(facts["job"]["weight"], node)


def capped(weight: int, node: Node) -> int:
    """Return a weight; of one that is more than a worker has, what the worker has."""
    of_worker = (node.get("room") or {}).get("capacity") or node["capacity"]
    return int(min(weight, of_worker))


def fits(facts: Facts, node: Node) -> bool:
    """Tell whether the node has room for the job, beside what its queue keeps for others."""
    weight, free = job_weight(facts, node), free_weight(node)
    if not 0 < weight <= largest_free(node):
        return False
    return (
        weight <= free - closed_weight(facts, node) or free - ahead_weight(node) >= node["capacity"]
    )


def weight_to_fill(facts: Facts, node: Node) -> int:
    """The least weight of other jobs that leaves a node no room for this one, which now fits.

    Nor for the heaviest of those before it: claims of a node do not overtake one that does not fit.
    """
    weight = max(job_weight(facts, node), capped(facts["ahead"].get("heaviest") or 0, node))
    free = free_weight(node)
    if weight > largest_free(node):
        return 0
    workers = node.get("workers") or 1
    of_workers = max(largest_free(node) - weight + 1, free - workers * (weight - 1))
    return max(1, min(free - closed_weight(facts, node) - weight + 1, of_workers))


def least_load(nodes: Sequence[Node]) -> float:
    """The load of the least loaded node, by the jobs that it holds now."""
    return min((max(node["load"], node["held"] / node["capacity"]) for node in nodes), default=0.0)

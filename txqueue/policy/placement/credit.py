"""Decides how much may be enqueued as assigned, and to which node: credit of clients and of all."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from txqueue.policy.placement.room import Room

__all__ = [
    "NodeLoad",
    "credit_limit",
    "is_stream",
    "is_too_fast",
    "new_credit",
    "open_credit",
]

# The weight that one client may enqueue as assigned before its node grants more credit, and the
# steps in which credit is spread over the nodes.
MOST_CREDIT, CREDIT_STEP = 32, 4
# How many claimed jobs show a rate, and not a burst; and at how many a second credit serves few of
# all jobs.
BURST, STREAM = 100, 1_000


@frozen
class NodeLoad:
    """The load of one node of the cluster, for direct dispatch.

    Attributes:
        node_id: The node.
        incarnation: The node's run.
        outstanding: The weight of the jobs that the node has got and not yet finished, plus the
            weight granted to clients as credit.
        capacity: The weight that the node can take in all.
    """

    node_id: int
    incarnation: int
    outstanding: int
    capacity: int

    @property
    def fullness(self) -> float:
        """The node's load as a fraction of its capacity."""
        return self.outstanding / self.capacity if self.capacity > 0 else 1.0


def credit_limit(nodes: Sequence[NodeLoad], clients: int) -> int:
    """Return the credit that each client may have: an equal share of the nodes, up to a limit."""
    total = sum(node.capacity for node in nodes)
    return min(MOST_CREDIT, total // max(1, clients))


def new_credit(nodes: Sequence[NodeLoad], weight: int) -> dict[int, int]:
    """Spread new credit over the nodes, each step to the least loaded node that has room for it.

    Args:
        nodes: The loads of the nodes, first that of the granting node, which wins ties.
        weight: The largest weight to spread.

    Returns:
        The credit by incarnation; less than `weight` in all if the nodes have less room.
    """
    grants: dict[int, int] = {}
    loads = list(nodes)
    while weight > 0 and loads:
        step = min(CREDIT_STEP, weight)
        chosen = min(loads, key=lambda node: node.fullness)
        if chosen.outstanding + step > chosen.capacity:
            loads.remove(chosen)
            continue
        grants[chosen.incarnation] = grants.get(chosen.incarnation, 0) + step
        loads[loads.index(chosen)] = evolve(chosen, outstanding=chosen.outstanding + step)
        weight -= step
    return grants


# The most open credit of a node that is alone, and while there are others: that is used up soon, so
# that the nodes take turns.
MOST_OPEN, TURN_OPEN = 32, 8
# Jobs a second, and at once, from which on they are claimed, many at a time, which costs less.
MOST_A_SECOND, MOST_AT_ONCE = 1_000, 32


def open_credit(room: Room, *, is_alone: bool) -> int:
    """Return how many jobs any session may enqueue as assigned to a node.

    Args:
        room: What the node's workers can still take.
        is_alone: Whether no other node can take the same jobs.
    """
    return min(MOST_OPEN if is_alone else TURN_OPEN, room.free // 2)


def is_too_fast(jobs: int, arrivals: int, seconds: float) -> bool:
    """Return whether jobs were enqueued too fast to be assigned one by one.

    Args:
        jobs: How many were enqueued as assigned.
        arrivals: At how many moments notifications have brought them.
        seconds: The time since they could be.
    """
    return jobs > seconds * MOST_A_SECOND or jobs > arrivals * MOST_AT_ONCE


def is_stream(claimed: int, seconds: float) -> bool:
    """Return whether so many jobs are claimed that credit for some of them saves nothing.

    Args:
        claimed: How many the node has claimed.
        seconds: The time since there is credit.
    """
    return claimed >= BURST and claimed > seconds * STREAM

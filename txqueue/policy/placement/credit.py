"""Decides how much may be enqueued as assigned, and to which node: credit of clients and of all."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from txqueue.policy.placement.room import Room

__all__ = [
    "LONE_CREDIT",
    "SHARED_CREDIT",
    "NodeLoad",
    "OpenCreditTerms",
    "credit_limit",
    "is_stream",
    "is_too_fast",
    "new_credit",
    "open_credit",
    "open_credit_terms",
]

# The weight that one client may enqueue as assigned before its node grants more credit, and the
# steps in which credit is spread over the nodes.
MOST_CREDIT, CREDIT_STEP = 32, 4
# How many claimed jobs show a rate, and not a burst; and at how many a second credit serves few of
# all jobs.
BURST, STREAM = 100, 1_000
# Seconds that a commit takes, from which on credit is shared: a claim commits, and a read does not.
SLOW_COMMIT = 0.001


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


@frozen
class OpenCreditTerms:
    """How much open credit a node grants, and up to which pace.

    Attributes:
        most: The most jobs for a node that is alone.
        turn: The most while there are others: it is used up soon, so that the nodes take turns.
        most_a_second: Jobs a second from which on they are claimed, many at a time, which costs
            less.
        least: How many jobs show that they come too fast: many clients commit together.
        most_a_read: Jobs that a read finds, from which on they are claimed: so many come because
            reads take long, as the processors are busy.
        is_shared: Whether transactions take of it that do not have the turn to notify.
    """

    most: int
    turn: int
    most_a_second: int
    least: int
    most_a_read: int
    is_shared: bool


LONE_CREDIT = OpenCreditTerms(32, 8, 1_000, least=1, most_a_read=32, is_shared=False)
SHARED_CREDIT = OpenCreditTerms(128, 32, 3_000, least=32, most_a_read=16, is_shared=True)


def open_credit_terms(commit_time: float | None) -> OpenCreditTerms:
    """Return how a node grants open credit where a commit takes so many seconds, if known."""
    is_slow = commit_time is not None and commit_time >= SLOW_COMMIT
    return SHARED_CREDIT if is_slow else LONE_CREDIT


def open_credit(room: Room, terms: OpenCreditTerms, *, is_alone: bool) -> int:
    """Return how many jobs any session may enqueue as assigned to a node.

    Args:
        room: What the node's workers can still take.
        terms: How the node grants credit.
        is_alone: Whether no other node can take the same jobs.
    """
    return min(terms.most if is_alone else terms.turn, room.free // 2)


def is_too_fast(jobs: int, reads: int, seconds: float, terms: OpenCreditTerms) -> bool:
    """Return whether jobs were enqueued too fast to be assigned one by one.

    Args:
        jobs: How many were enqueued as assigned.
        reads: How many reads have found them.
        seconds: The time since they could be.
        terms: How the node grants credit.
    """
    is_fast = jobs > seconds * terms.most_a_second or jobs > reads * terms.most_a_read
    return jobs >= terms.least and is_fast


def is_stream(claimed: int, seconds: float) -> bool:
    """Return whether so many jobs are claimed that credit for some of them saves nothing.

    Args:
        claimed: How many the node has claimed.
        seconds: The time since there is credit.
    """
    return claimed >= BURST and claimed > seconds * STREAM

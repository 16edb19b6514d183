"""Decides from plain facts whether a node is live and ready, for probes and service managers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import asdict, frozen

from txqueue.policy.findings.obstacles import IMPORTING


@frozen
class HealthFacts:
    """What a node's health depends on.

    Attributes:
        has_started: Whether the node has registered since its start.
        is_draining: Whether the node accepts no jobs, because it is drained or stops.
        has_database: Whether the database has answered a heartbeat lately.
        lease_left: Seconds until the node's lease expires; 0 or less once it has expired.
        workers: How many worker processes have imported the application.
        able: How many of them can start jobs: no handler blocks them, and threads of ended jobs
            leave room for others.
        refusal: What the database answers to a statement that it refuses; None if it refuses none.
        connect_error: Why the last attempt to connect has failed; None if it succeeded.
        are_starting: Whether no worker runs yet because the application is being imported for the
            first time; only for a while, as the import may hang.
    """

    has_started: bool
    is_draining: bool
    has_database: bool
    lease_left: float
    workers: int
    able: int
    refusal: str | None = None
    connect_error: str | None = None
    are_starting: bool = False


@frozen
class Health:
    """Whether a node is live and ready.

    Attributes:
        live: Whether the master's reactor runs. An answer of the master shows it; a node that does
            not answer is not live.
        ready: Whether the node can start jobs now.
        reason: One line that says why it is ready or not.
    """

    live: bool
    ready: bool
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return the attributes as plain data."""
        return asdict(self)


def decide_health(facts: HealthFacts) -> Health:
    """Decide whether a node that answers is ready.

    Args:
        facts: The facts about the node.

    Returns:
        The health; a node that answers is always live, as a restart would not bring back the
        database.
    """
    obstacle = _obstacle(facts)
    return Health(live=True, ready=obstacle is None, reason=obstacle or "ready")


def merge_health(parts: Sequence[tuple[str, Health]]) -> Health:
    """Return the health of a process that runs several nodes: the first that is not ready counts.

    Args:
        parts: The name and the health of each node; at least one.
    """
    if len(parts) == 1:
        return parts[0][1]
    for name, health in parts:
        if not health.ready:
            return Health(live=health.live, ready=False, reason=f"{name}: {health.reason}")
    return parts[0][1]


def _obstacle(facts: HealthFacts) -> str | None:
    """Return the first reason for which the node cannot start jobs, in the order of their weight.

    Draining comes first: it is intended, and outlasts the other reasons.
    """
    obstacles = (
        (facts.is_draining, "draining: the node accepts no jobs"),
        (facts.refusal is not None, f"the database refuses statements: {facts.refusal}"),
        (not facts.has_started, _starting(facts)),
        (not facts.has_database, facts.connect_error or "the database does not answer"),
        (facts.lease_left <= 0, "the lease has expired: no job starts until it is renewed"),
        (facts.are_starting, f"starting: {IMPORTING}"),
        (not facts.workers, "no worker process runs: each starts or has ended; see the log"),
        (not facts.able, "no worker process can start jobs: none answers, or threads are full"),
    )
    return next((reason for is_so, reason in obstacles if is_so), None)


def _starting(facts: HealthFacts) -> str:
    error = f": {facts.connect_error}" if facts.connect_error else ""
    return f"starting: the node has not registered in the database yet{error}"

"""The numbers of live jobs by name, of which there may be more than a list can hold."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from attrs import field, frozen

__all__ = ["MOST_SERVED", "SERVING", "STATES", "UNENDED", "LiveJobs", "Rest", "served_queues"]

Row = Mapping[str, Any]

UNENDED = ("waiting", "ready", "assigned")
STATES = (*UNENDED, "failed")
"""The states of live jobs, failed ones included."""

SERVING = ("alive", "draining")
"""The states of nodes that have a lease."""

MOST_SERVED = 1000
"""How many of the queues and work types that nodes serve are listed, whatever jobs they have."""


@frozen
class Rest:
    """The queues, or work types, that are left out of a list, together.

    Attributes:
        names: How many there are.
        jobs: The number of their jobs in each state.
    """

    names: int = 0
    jobs: Mapping[str, int] = field(factory=dict)

    def as_dict(self) -> dict[str, int]:
        """Return all numbers."""
        return {"names": self.names, **{state: self.jobs.get(state, 0) for state in STATES}}


@frozen
class LiveJobs:
    """The numbers of jobs that are not history; names may be very many, so that only some are kept.

    Attributes:
        queues: Of the queues with the most jobs, and those that nodes serve: by queue, state and
            waiting_for.
        work_types: Of the work types with the most jobs, and those that nodes have: by work_type
            and state.
        other_queues: The queues left out; no node serves one of them, unless nodes serve more than
            `MOST_SERVED`.
        other_types: The work types left out, likewise.
    """

    queues: Sequence[Row]
    work_types: Sequence[Row]
    other_queues: Rest = Rest()
    other_types: Rest = Rest()


def served_queues(
    nodes: Iterable[Row], states: Collection[str] = ("alive",)
) -> dict[str, list[str]]:
    """Return which of the nodes serve each queue, of those in some states."""
    served: dict[str, list[str]] = {}
    for node in nodes:
        if node["state"] in states:
            for queue in node["queues"]:
                served.setdefault(queue, []).append(node["name"])
    return served

"""The overview: what is wrong, the queues, the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txqueue.policy.facts.live_jobs import STATES
from txqueue.policy.facts.status import largest, living_first
from txqueue.store.reads.queue_state import about_all
from txqueue.web.messages import PageRequest, Reply
from txqueue.web.page_services import PageServices
from txqueue.web.pages.spans import drawn

__all__ = ["overview"]

# How many queues and nodes are shown; their own pages have all.
_TOLD = 50


async def overview(services: PageServices, request: PageRequest) -> Reply:
    """Show the state of everything on one page."""
    figures = await services.reads.shared("overview", about_all)
    values = figures.value
    nodes = living_first(node for node in values["nodes"] if node["state"] != "stopped")
    queues = largest(values["queues"], _TOLD)
    return services.show(
        "overview",
        request,
        figures=figures,
        queues=queues,
        queues_left=len(values["queues"]) - len(queues) + values["other_queues"]["names"],
        nodes=nodes[:_TOLD],
        nodes_left=len(nodes) - _TOLD,
        warnings=values["warnings"],
        blocked=values["blocked"][:_TOLD],
        left_out=values["blocked_left_out"],
        sums=sums(values["queues"], values["other_queues"]),
        history=values["history"],
        now=values["at"],
        **await drawn(services, request, values["at"]),
    )


def sums(queues: Sequence[Mapping[str, Any]], others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the figures of all queues together.

    Args:
        queues: The queues that are listed.
        others: The sums of the others.
    """
    oldest = [row["oldest_ready_seconds"] for row in queues if row["oldest_ready_seconds"]]
    return {
        **{state: sum(row[state] for row in queues) + others[state] for state in STATES},
        "oldest": max(oldest, default=None),
        "rate": sum(row["done_per_second"] for row in queues) + others["done_per_second"],
    }

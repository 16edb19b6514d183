"""The overview: what is wrong, the queues, the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txqueue.store.queries import about_all
from txqueue.web.messages import PageRequest, Reply
from txqueue.web.page_services import PageServices
from txqueue.web.pages.spans import drawn

__all__ = ["overview"]


async def overview(services: PageServices, request: PageRequest) -> Reply:
    """Show the state of everything on one page."""
    figures = await services.reads.shared("overview", about_all)
    found = figures.value
    nodes = [node for node in found["nodes"] if node["state"] != "stopped"]
    return services.show(
        "overview",
        request,
        figures=figures,
        queues=found["queues"],
        nodes=nodes,
        warnings=found["warnings"],
        sums=sums(found["queues"]),
        history=found["history"],
        now=found["at"],
        **await drawn(services, request, found["at"]),
    )


def sums(queues: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the figures of all queues together."""
    oldest = [row["oldest_ready_seconds"] for row in queues if row["oldest_ready_seconds"]]
    states = ("waiting", "ready", "assigned", "failed")
    return {
        **{state: sum(row[state] for row in queues) for state in states},
        "oldest": max(oldest, default=None),
        "rate": sum(row["done_per_second"] for row in queues),
    }

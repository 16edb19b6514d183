"""One queue: its depth, its limits, its nodes, and what its jobs did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from txqueue.policy.facts.warnings import unserved_queue
from txqueue.store.reads.dashboard import LOOKED_AT, about_live_jobs
from txqueue.store.reads.queue_state import about_controls, about_nodes
from txqueue.web.messages import PageRequest, Reply, redirect
from txqueue.web.page_services import PageServices, marked
from txqueue.web.pages.spans import ended

__all__ = ["queue", "serving"]

# How many nodes are shown.
_TOLD = 100


@marked
async def queue(services: PageServices, request: PageRequest) -> Reply:
    """Show the queue that the address names."""
    name = request.exact("name")
    if name is None:
        return redirect("/queues")
    figures = await services.reads.shared(
        f"jobs of queue {name}", lambda schema: about_live_jobs(schema, "queue", name)
    )
    depth = figures.value
    limits = await services.reads.find(about_controls(services.reads.schema, queue=name))
    nodes = (await services.reads.shared("nodes", about_nodes)).value
    serve = serving(nodes, name, depth["running_on"])
    limit = next(iter(limits), None)
    lately = await ended(
        services=services, request=request, now=depth["at"], column="queue", name=name
    )
    has_jobs = any(depth[state] for state in ("waiting", "ready", "assigned", "failed"))
    is_unknown = not (limit or serve or has_jobs or lately["sums"])
    return services.show(
        "queue",
        request,
        queue=name,
        figures=figures,
        depth=depth,
        looked_at=LOOKED_AT,
        limit=limit,
        nodes=serve[:_TOLD],
        nodes_left=len(serve) - _TOLD,
        is_unknown=is_unknown,
        trouble=None if is_unknown else unserved_queue(name, nodes, depth["at"]),
        **lately,
    )


def serving(
    nodes: Iterable[Mapping[str, Any]], queue: str, running_on: Mapping[int, int]
) -> list[dict[str, Any]]:
    """Return the nodes that serve a queue or run its jobs.

    Args:
        nodes: The nodes.
        queue: The queue.
        running_on: How many of its jobs each run of a node has.

    Returns:
        The rows of the nodes, with ``running``.
    """
    return [
        {**node, "running": running_on.get(node["incarnation"], 0)}
        for node in nodes
        if node["incarnation"] in running_on
        or (node["state"] in ("alive", "draining") and queue in node["queues"])
    ]

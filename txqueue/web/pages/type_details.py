"""One work type: its jobs, what they did, how they fail, and its schedules."""

from __future__ import annotations

from typing import Any

from txqueue.errors import TxqueueError
from txqueue.policy.facts.warnings import unknown_type
from txqueue.store.inquiries.together import together
from txqueue.store.reads.dashboard import LOOKED_AT, about_live_jobs, about_policy
from txqueue.store.reads.history import about_failures
from txqueue.store.reads.queue_state import about_nodes
from txqueue.store.reads.schedule_list import about_schedules
from txqueue.web.messages import PageRequest, Reply, redirect
from txqueue.web.page_services import PageServices
from txqueue.web.pages.spans import ended

__all__ = ["work_type"]

# How many kinds of failure and schedules are shown; their own pages have all.
_TOLD = 10
_NODES_TOLD = 100


async def work_type(services: PageServices, request: PageRequest) -> Reply:
    """Show the work type that the address names."""
    name = request.exact("name")
    if name is None:
        return redirect("/types")
    shared, schema = services.reads.shared, services.reads.schema
    figures = await shared(
        f"jobs of type {name}", lambda schema: about_live_jobs(schema, "work_type", name)
    )
    depth = figures.value
    policy, schedules = await services.reads.find(
        together(
            about_policy(schema, name), about_schedules(schema, {"work_type": name}, _TOLD + 1)
        )
    )
    nodes = (await shared("nodes", about_nodes)).value
    return services.show(
        "type",
        request,
        work_type=name,
        figures=figures,
        depth=depth,
        looked_at=LOOKED_AT,
        published=policy,
        nodes=[node for node in nodes if name in node["work_types"]][:_NODES_TOLD],
        trouble=unknown_type(name, nodes, is_published=policy is not None),
        kinds=await _kinds(services, name),
        schedules=schedules,
        told=_TOLD,
        **await ended(
            services=services, request=request, now=depth["at"], column="work_type", name=name
        ),
    )


async def _kinds(services: PageServices, name: str) -> list[dict[str, Any]] | None:
    """Return the kinds of failure of a work type; None if those of all could not be read."""
    try:
        figures = await services.reads.shared("failures", about_failures)
    except TxqueueError:
        return None
    return [kind for kind in figures.value if kind["work_type"] == name]

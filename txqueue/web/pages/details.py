"""One queue, one node, one work type: depth, limits, what its jobs did and how they fail."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from txqueue.policy.findings.catalogue import warnings
from txqueue.policy.findings.status import named_nodes, work_types
from txqueue.policy.findings.work import by_cause, unknown_type, unserved_queue
from txqueue.store.inquiries.inquiry import together
from txqueue.store.reads.dashboard import LOOKED_AT, about_live_jobs, about_node_jobs, about_policy
from txqueue.store.reads.history import about_failures
from txqueue.store.reads.queue_state import about_clock, about_controls, about_nodes
from txqueue.store.reads.schedule_list import about_schedules
from txqueue.web.messages import Reply, redirect
from txqueue.web.page_services import PageVisit, found_or
from txqueue.web.pages.enqueue_form import has_form
from txqueue.web.pages.overview import ended

# How many nodes are shown.
_TOLD = 100


async def queue(visit: PageVisit) -> Reply:
    """Show the queue that the address names."""
    name = visit.request.exact("name")
    if name is None:
        return redirect("/queues")
    figures = await visit.reads.shared(about_live_jobs, "queue", name)
    depth = figures.value
    limits = await visit.find(about_controls, queue=name)
    nodes = (await visit.reads.shared(about_nodes)).value
    serve = serving(nodes, name, depth["running_on"])
    limit = next(iter(limits), None)
    lately = await ended(visit, depth["at"], "queue", name)
    has_jobs = any(depth[state] for state in ("waiting", "ready", "assigned", "failed"))
    is_unknown = not (limit or serve or has_jobs or lately["sums"])
    return visit.show(
        "queue",
        queue=name,
        figures=figures,
        depth=depth,
        looked_at=LOOKED_AT,
        limit=limit,
        nodes=serve[:_TOLD],
        nodes_left=len(serve) - _TOLD,
        is_unknown=is_unknown,
        trouble=None if is_unknown else unserved_queue(name, nodes),
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


# How many jobs and work types are shown.
_JOBS_TOLD, _TYPES_TOLD = 100, 200


async def node(visit: PageVisit) -> Reply:
    """Show the node that the address names."""
    name, shared = visit.request.exact("name"), visit.reads.shared
    if name is None:
        return redirect("/nodes")
    figures = await shared(about_nodes, name=name)
    row = next(iter(figures.value), None)
    now = (await shared(about_clock)).value
    jobs = []
    if row is not None:
        jobs = await visit.find(about_node_jobs, row["incarnation"], _JOBS_TOLD)
    return visit.show(
        "node",
        node_name=name,
        figures=figures,
        node=row,
        jobs=jobs,
        types=row["work_types"][:_TYPES_TOLD] if row else [],
        warnings=by_cause(warnings({"nodes": [row]}), []) if row else [],
        now=now,
    )


# How many kinds of failure and schedules are shown; their own pages have all.
_TOLD_OF_TYPES = 10
_NODES_TOLD = 100


async def work_type(visit: PageVisit) -> Reply:
    """Show the work type that the address names."""
    name = visit.request.exact("name")
    if name is None:
        return redirect("/types")
    shared, schema = visit.reads.shared, visit.reads.schema
    figures = await shared(about_live_jobs, "work_type", name)
    depth = figures.value
    policy, schedules = await visit.reads.operations.find(
        together(
            about_policy(schema, name),
            about_schedules(schema, {"work_type": name}, _TOLD_OF_TYPES + 1),
        )
    )
    nodes = (await shared(about_nodes)).value
    return visit.show(
        "type",
        work_type=name,
        figures=figures,
        depth=depth,
        looked_at=LOOKED_AT,
        published=policy,
        has_form=has_form(policy),
        nodes=named_nodes(work_types([{"work_type": name}], (), nodes)[0])[:_NODES_TOLD],
        trouble=unknown_type(name, nodes, is_published=policy is not None),
        kinds=await _kinds(visit, name),
        schedules=schedules,
        told=_TOLD_OF_TYPES,
        **await ended(visit, depth["at"], "work_type", name),
    )


async def _kinds(visit: PageVisit, name: str) -> list[dict[str, Any]] | None:
    """Return the kinds of failure of a work type; None if those of all could not be read."""
    figures = await found_or(None, visit.reads.shared(about_failures))
    if figures is None:
        return None
    return [kind for kind in figures.value if kind["work_type"] == name]

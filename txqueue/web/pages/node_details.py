"""One node: what is wrong with it, its workers, its work types, and the jobs that it runs."""

from __future__ import annotations

from txqueue.policy.facts.live_jobs import LiveJobs
from txqueue.policy.facts.warnings import warnings
from txqueue.store.reads.dashboard import about_node_jobs
from txqueue.store.reads.queue_state import about_clock, about_nodes
from txqueue.web.messages import PageRequest, Reply, redirect
from txqueue.web.page_services import PageServices, marked

__all__ = ["node"]

# How many jobs and work types are shown.
_JOBS_TOLD, _TYPES_TOLD = 100, 200


@marked
async def node(services: PageServices, request: PageRequest) -> Reply:
    """Show the node that the address names."""
    name, reads = request.exact("name"), services.reads
    if name is None:
        return redirect("/nodes")
    figures = await reads.shared("nodes", about_nodes)
    row = next((candidate for candidate in figures.value if candidate["name"] == name), None)
    now = (await reads.shared("clock", about_clock)).value
    jobs = []
    if row is not None:
        inquiry = about_node_jobs(reads.schema, row["incarnation"], _JOBS_TOLD)
        jobs = await reads.find(inquiry)
    return services.show(
        "node",
        request,
        node_name=name,
        figures=figures,
        node=row,
        jobs=jobs,
        types=row["work_types"][:_TYPES_TOLD] if row else [],
        warnings=warnings(LiveJobs([], []), [row], (), now) if row else [],
        now=now,
    )

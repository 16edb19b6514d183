"""The overview: what is wrong, the queues, the nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txqueue.store.dashboard_queries import about_chart
from txqueue.store.queries import about_all
from txqueue.web.charts import SPANS, charts
from txqueue.web.messages import PageRequest, Reply
from txqueue.web.page_services import PageServices

__all__ = ["overview"]


async def overview(services: PageServices, request: PageRequest) -> Reply:
    """Show the state of everything on one page."""
    figures = await services.reads.shared("overview", about_all)
    found = figures.value
    now = found["at"]
    chosen = request.asked("span") or "1h"
    span, step = SPANS.get(chosen, SPANS["1h"])
    steps = await services.reads.shared(
        f"chart {span}", lambda schema: about_chart(schema, span, step)
    )
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
        now=now,
        charts=charts(steps.value, now, span, step) if steps.value else [],
        spans=SPANS,
        span=chosen if chosen in SPANS else "1h",
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

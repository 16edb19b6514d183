"""What jobs did over spans of time: charts over the one that the address names, and sums of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from txqueue.store.reads.dashboard import Column, about_chart, about_ended
from txqueue.web.charts import SPANS, charts
from txqueue.web.messages import PageRequest
from txqueue.web.page_services import PageServices

__all__ = ["drawn", "ended", "sums_by_span"]

_LENGTHS = {name: length for name, (length, _) in SPANS.items()}


async def drawn(
    services: PageServices, request: PageRequest, now: datetime, **filters: str
) -> dict[str, Any]:
    """Return charts, the spans to choose from and the chosen one, by their names in templates.

    Args:
        services: Reads the figures.
        request: Its address names the span.
        now: The time by the database's clock.
        **filters: ``queue`` or ``work_type``, to draw only its jobs.
    """
    name = request.asked("span") or ""
    span_name = name if name in SPANS else "1h"
    span, step = SPANS[span_name]
    steps = await services.reads.shared(
        f"chart {span_name} {filters}", lambda schema: about_chart(schema, span, step, **filters)
    )
    drawings = charts(steps.value, now, span, step, is_part=bool(filters)) if steps.value else []
    return {"charts": drawings, "spans": SPANS, "span": span_name}


async def ended(
    services: PageServices, request: PageRequest, now: datetime, column: Column, name: str
) -> dict[str, Any]:
    """Return what `drawn` does of one queue or work type, and what its jobs did in each span.

    Args:
        services: Reads the figures.
        request: Its address names the span.
        now: The time by the database's clock.
        column: What the name is of.
        name: The queue or work type.

    Returns:
        With ``sums`` by span, and ``within``, a row for each of its work types or queues in the
        chosen span.
    """
    figures_by_span = await drawn(services, request, now, **{column: name})
    figures = await services.reads.shared(
        f"ended {column} {name}", lambda schema: about_ended(schema, column, name, _LENGTHS)
    )
    rows, covered = figures.value
    within = [row for row in rows if row["part"] and row["span"] == figures_by_span["span"]]
    return {**figures_by_span, "sums": sums_by_span(rows, covered), "within": within}


def sums_by_span(
    rows: Iterable[Mapping[str, Any]], covered: Mapping[str, float]
) -> dict[str, dict[str, Any]]:
    """Return what all jobs did in each span, with how many were done in a minute.

    Args:
        rows: What the jobs did, as `about_ended` returns it.
        covered: How many seconds of each span are known.
    """
    minutes = {name: max(seconds, 1.0) / 60 for name, seconds in covered.items()}
    return {
        row["span"]: {**row, "per_minute": row["done"] / minutes.get(row["span"], 1.0)}
        for row in rows
        if row["part"] is None
    }

"""The overview of one database or of several, and charts of what jobs did over spans of time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from twisted.internet.defer import Deferred, gatherResults

from txqueue.policy.findings.status import STATES, Rest, largest, living_first
from txqueue.policy.findings.work import by_cause
from txqueue.store.reads.dashboard import Column, about_chart, about_ended
from txqueue.store.reads.queue_state import about_all
from txqueue.web.charts import SPANS, charts
from txqueue.web.filters import SortOrder
from txqueue.web.messages import Reply
from txqueue.web.page_services import Figures, IndexVisit, PageVisit
from txqueue.web.pages.lists import QUEUE_HEADS
from txqueue.web.settings import database_path

_LENGTHS = {name: length for name, (length, _) in SPANS.items()}


async def drawn(visit: PageVisit, now: datetime, **filters: str) -> dict[str, Any]:
    """Return charts, the spans to choose from and the chosen one, by their names in templates.

    Args:
        visit: Reads the figures; its address names the span.
        now: The time by the database's clock.
        **filters: ``queue`` or ``work_type``, to draw only its jobs.
    """
    name = visit.request.asked("span") or ""
    span_name = name if name in SPANS else "1h"
    span, step = SPANS[span_name]
    steps = await visit.reads.shared(about_chart, span, step, **filters)
    rows, before = steps.value
    drawings = charts(rows, now, span, step, before=before, is_part=bool(filters))
    return {"charts": drawings if rows else [], "spans": SPANS, "span": span_name}


async def ended(visit: PageVisit, now: datetime, column: Column, name: str) -> dict[str, Any]:
    """Return what `drawn` does of one queue or work type, and what its jobs did in each span.

    Args:
        visit: Reads the figures; its address names the span.
        now: The time by the database's clock.
        column: What the name is of.
        name: The queue or work type.

    Returns:
        With ``sums`` by span, and ``within``, a row for each of its work types or queues in the
        chosen span.
    """
    figures_by_span = await drawn(visit, now, **{column: name})
    figures = await visit.reads.shared(about_ended, column, name, _LENGTHS)
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


# How many queues and nodes are shown; their own pages have all.
_TOLD = 50


async def overview(visit: PageVisit) -> Reply:
    """Show the state of everything on one page."""
    figures = await visit.reads.shared(about_all)
    values = figures.value
    nodes = living_first(node for node in values["nodes"] if node["state"] != "stopped")
    queues = largest(values["queues"], _TOLD)
    order = SortOrder.asked(visit.request, QUEUE_HEADS)
    return visit.show(
        "overview",
        figures=figures,
        queues=order.rows(queues),
        order=order,
        queues_left=len(values["queues"]) - len(queues) + values["other_queues"]["names"],
        nodes=nodes[:_TOLD],
        nodes_left=len(nodes) - _TOLD,
        warnings=by_cause(values["warnings"], values["nodes"]),
        blocked=[row for row in values["blocked"] if row["kind"] != "no_node"][:_TOLD],
        left_out=values["blocked_left_out"],
        sums=sums(values["queues"], values["other_queues"]),
        history=values["history"],
        now=values["at"],
        **await drawn(visit, values["at"]),
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


# Seconds to wait for all databases; then the last figures of the others are shown.
_PATIENCE: Final = 1.0
# The sums of no queue.
_NONE: Final[Mapping[str, Any]] = {**Rest().as_dict(), "done_per_second": 0.0}
# The warnings that the overview shows in red.
_GRAVE: Final = frozenset({"dead_node", "no_node", "unserved_queue"})


async def database_list(visit: IndexVisit) -> Reply:
    """Show all databases; one that does not answer delays the page by a second at most."""
    all_figures = await gatherResults(
        Deferred.fromCoroutine(reads.latest(about_all, _PATIENCE))
        for reads in visit.databases.values()
    )
    cards = [*map(database_card, visit.databases, all_figures)]
    return visit.show("databases", cards=cards)


def database_card(name: str, figures: Figures[dict[str, Any] | None]) -> dict[str, Any]:
    """Return what the list shows of a database.

    Args:
        name: Its name.
        figures: The figures of its overview.

    Returns:
        The sums of all queues, how many nodes there are but for those that were stopped, how many
        are alive, and how many warnings there are, how many of them grave.
    """
    overview = figures.value or {"queues": [], "other_queues": _NONE, "nodes": [], "warnings": []}
    nodes = [node["state"] for node in overview["nodes"] if node["state"] != "stopped"]
    return {
        "name": name,
        "path": database_path(name),
        "figures": figures,
        "sums": sums(overview["queues"], overview["other_queues"]),
        "alive": nodes.count("alive"),
        "nodes": len(nodes),
        "warnings": len(overview["warnings"]),
        "grave": sum(warning["kind"] in _GRAVE for warning in overview["warnings"]),
    }

"""The pages that show one list each: queues, work types, failures, nodes and others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from txqueue.policy.findings.status import largest, living_first
from txqueue.store.inquiries.inquiry import together
from txqueue.store.reads import queue_state
from txqueue.store.reads.dashboard import about_last_hour
from txqueue.store.reads.history import about_failures
from txqueue.store.reads.job_details import about_actions
from txqueue.store.reads.schedule_list import about_schedules, about_worksets
from txqueue.web.filters import SortOrder
from txqueue.web.messages import Reply, page
from txqueue.web.page_services import PageVisit

_ON_A_PAGE = 100
_STATES: Final = {
    "assigned": "Running",
    "ready": "Ready",
    "waiting": "Waiting",
    "failed": "Failed",
}
QUEUE_HEADS: Final = {
    "queue": "Queue",
    **_STATES,
    "oldest_ready_seconds": "Oldest ready",
    "done_per_second": "Done/s",
    "nodes": "Nodes",
}
"""The columns of queues on the overview."""
_TYPE_HEADS: Final = {
    "work_type": "Work type",
    "queue": "Queue",
    **_STATES,
    "done": "Done",
    "busy": "≈ Time",
    "wait_p50": "Wait p50",
    "wait_p95": "Wait p95",
    "run_p50": "Run p50",
    "run_p95": "Run p95",
    "nodes": "Nodes",
}
_TENANT_HEADS: Final = {
    "tenant": "Tenant",
    **_STATES,
    "oldest_ready_seconds": "Oldest ready",
    "share": "Share",
    "concurrency": "At a time",
}
_SCHEDULE_HEADS: Final = {
    "name": "Name",
    "kind": "When",
    "next_due": "Next",
    "last_due": "Last",
    "outcome": "Outcome",
    "late": "Late",
    "took": "Took",
    "failed": "Failed of 20",
}


async def queues(visit: PageVisit) -> Reply:
    """Show the queues with their limits."""
    after, shared = visit.request.exact("after"), visit.reads.shared
    figures = await shared(queue_state.about_queues, after, _ON_A_PAGE + 1)
    now = await shared(queue_state.about_clock)
    controls = await shared(queue_state.about_controls)
    limits = {control["key"]: control for control in controls.value if control["kind"] == "queue"}
    hour = await shared(about_last_hour)
    other_controls = [control for control in controls.value if control["kind"] != "queue"]
    return visit.show(
        "queues",
        figures=figures,
        queues=figures.value[:_ON_A_PAGE],
        has_more=len(figures.value) > _ON_A_PAGE,
        limits=limits,
        hour=hour.value["queue"],
        others=other_controls[:_ON_A_PAGE],
        left_out=len(other_controls) - _ON_A_PAGE,
        now=now.value,
    )


async def nodes(visit: PageVisit) -> Reply:
    """Show the nodes."""
    figures = await visit.reads.shared(queue_state.about_nodes)
    return visit.show(
        "nodes",
        figures=figures,
        nodes=living_first(figures.value)[:_ON_A_PAGE],
        left_out=len(figures.value) - _ON_A_PAGE,
    )


_NONE_ENDED: Final = dict.fromkeys(_TYPE_HEADS)


async def work_types(visit: PageVisit) -> Reply:
    """Show the work types with their policies and jobs."""
    figures = await visit.reads.shared(queue_state.about_work_types)
    hour = (await visit.reads.shared(about_last_hour)).value["work_type"]
    rows, others = figures.value
    types = [
        {**hour.get(row["work_type"], _NONE_ENDED), **row} for row in largest(rows, _ON_A_PAGE)
    ]
    order = SortOrder.asked(visit.request, _TYPE_HEADS)
    return visit.show(
        "types",
        figures=figures,
        types=order.rows(types),
        order=order,
        left_out=len(rows) - len(types) + others.names,
    )


async def failures(visit: PageVisit) -> Reply:
    """Show the kinds of failure, those with the most jobs first; of one work type, if asked."""
    work_type = visit.request.exact("work_type")
    figures = await visit.reads.shared(about_failures)
    now = await visit.reads.shared(queue_state.about_clock)
    rows = [kind for kind in figures.value if work_type in (None, kind["work_type"])]
    kinds = sorted(rows, key=lambda kind: (-kind["failed"], -kind["waiting"]))
    return visit.show(
        "failures",
        figures=figures,
        kinds=kinds[:_ON_A_PAGE],
        more=len(kinds) - _ON_A_PAGE,
        work_type=work_type,
        now=now.value,
    )


async def schedules(visit: PageVisit) -> Reply:
    """Show the schedules by name; a page of them in another order if asked."""
    request = visit.request
    filters = {"after": request.asked("after"), "work_type": request.exact("work_type")}
    inquiry = about_schedules(visit.reads.schema, filters, _ON_A_PAGE + 1)
    rows, now = await visit.reads.operations.find(together(inquiry, queue_state.about_clock()))
    order = SortOrder.asked(request, _SCHEDULE_HEADS)
    values: dict[str, Any] = {"schedules": order.rows(rows[:_ON_A_PAGE]), "order": order}
    last = rows[_ON_A_PAGE - 1]["name"] if len(rows) > _ON_A_PAGE else None
    return visit.show("schedules", **values, last=last, now=now)


async def worksets(visit: PageVisit) -> Reply:
    """Show the worksets with their progress."""
    after, shared = visit.request.exact("after"), visit.reads.shared
    figures = await shared(about_worksets, after=after, limit=_ON_A_PAGE + 1)
    return _show(visit, "worksets", figures.value, figures=figures)


async def tenants(visit: PageVisit) -> Reply:
    """Show the tenants that have jobs."""
    figures = await visit.reads.shared(queue_state.about_tenants, _ON_A_PAGE + 1)
    order = SortOrder.asked(visit.request, _TENANT_HEADS)
    tenants = order.rows(figures.value)
    return _show(visit, "tenants", tenants, figures=figures, order=order)


async def actions(visit: PageVisit) -> Reply:
    """Show the acts of operators, the latest first."""
    before, subject = visit.request.number("after"), visit.request.asked("subject")
    inquiry = about_actions(visit.reads.schema, before, _ON_A_PAGE + 1, subject)
    rows, now = await visit.reads.operations.find(together(inquiry, queue_state.about_clock()))
    return _show(visit, "actions", rows, now=now)


def _show(visit: PageVisit, name: str, rows: Sequence[Any], **values: Any) -> Reply:
    """Show the page of a list, of which one row more than a page has was read."""
    first: dict[str, Any] = {name: rows[:_ON_A_PAGE], "has_more": len(rows) > _ON_A_PAGE}
    return visit.show(name, **first, **values)


LISTS: Final = (
    page("/failures", failures, "Failures", "work_type"),
    page("/queues", queues, "Queues", "after"),
    page("/types", work_types, "Work types", "sort"),
    page("/schedules", schedules, "Schedules", "after", "work_type", "sort"),
    page("/worksets", worksets, "Worksets", "after"),
    page("/tenants", tenants, "Tenants", "sort"),
    page("/nodes", nodes, "Nodes"),
    page("/actions", actions, "Actions", "after", "subject"),
)
"""The lists, in the order of the menu."""

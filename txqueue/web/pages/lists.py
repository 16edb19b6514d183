"""The pages that show one list each: queues, work types, failures, nodes and others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from txqueue.policy.facts.status import largest
from txqueue.store.inquiries.inquiry import Inquiry
from txqueue.store.reads import queue_state
from txqueue.store.reads.dashboard import about_last_hour
from txqueue.store.reads.history import about_failures
from txqueue.store.reads.schedule_list import about_schedules
from txqueue.web.messages import PageRequest, Reply
from txqueue.web.page_services import PageServices

__all__ = [
    "actions",
    "failures",
    "nodes",
    "queues",
    "schedules",
    "tenants",
    "work_types",
    "worksets",
]

_ON_A_PAGE = 100
Handler = Callable[[PageServices, PageRequest], Awaitable[Reply]]


async def queues(services: PageServices, request: PageRequest) -> Reply:
    """Show the queues with their limits."""
    after = request.exact("after")
    figures = await services.reads.shared(
        f"queues after {after or ''}",
        lambda schema: queue_state.about_queues(schema, after, _ON_A_PAGE + 1),
    )
    now = await services.reads.shared("clock", queue_state.about_clock)
    controls = await services.reads.shared("controls", queue_state.about_controls)
    limits = {each["key"]: each for each in controls.value if each["kind"] == "queue"}
    hour = await services.reads.shared("hour", about_last_hour)
    others = [each for each in controls.value if each["kind"] != "queue"]
    return services.show(
        "queues",
        request,
        figures=figures,
        queues=figures.value[:_ON_A_PAGE],
        has_more=len(figures.value) > _ON_A_PAGE,
        limits=limits,
        hour=hour.value["queue"],
        others=others[:_ON_A_PAGE],
        left_out=len(others) - _ON_A_PAGE,
        now=now.value,
    )


async def nodes(services: PageServices, request: PageRequest) -> Reply:
    """Show the nodes."""
    figures = await services.reads.shared("nodes", queue_state.about_nodes)
    return services.show(
        "nodes",
        request,
        figures=figures,
        nodes=figures.value[:_ON_A_PAGE],
        left_out=len(figures.value) - _ON_A_PAGE,
    )


async def work_types(services: PageServices, request: PageRequest) -> Reply:
    """Show the work types with their policies and jobs."""
    figures = await services.reads.shared("types", queue_state.about_work_types)
    hour = (await services.reads.shared("hour", about_last_hour)).value["work_type"]
    found, others = figures.value
    types = largest(found, _ON_A_PAGE)
    return services.show(
        "types",
        request,
        figures=figures,
        types=types,
        hour=hour,
        left_out=len(found) - len(types) + others.names,
    )


async def failures(services: PageServices, request: PageRequest) -> Reply:
    """Show the kinds of failure, those with the most jobs first; of one work type, if asked."""
    work_type = request.exact("work_type")
    figures = await services.reads.shared("failures", about_failures)
    now = await services.reads.shared("clock", queue_state.about_clock)
    chosen = [kind for kind in figures.value if work_type in (None, kind["work_type"])]
    kinds = sorted(chosen, key=lambda kind: (-kind["failed"], -kind["waiting"]))
    return services.show(
        "failures",
        request,
        figures=figures,
        kinds=kinds[:_ON_A_PAGE],
        more=len(kinds) - _ON_A_PAGE,
        work_type=work_type,
        now=now.value,
    )


async def schedules(services: PageServices, request: PageRequest) -> Reply:
    """Show the schedules by name."""
    filters = {"after": request.asked("after"), "work_type": request.exact("work_type")}
    rows = await services.reads.find(
        about_schedules(services.reads.schema, filters, _ON_A_PAGE + 1)
    )
    now = await services.reads.shared("clock", queue_state.about_clock)
    return services.show(
        "schedules",
        request,
        schedules=rows[:_ON_A_PAGE],
        has_more=len(rows) > _ON_A_PAGE,
        now=now.value,
    )


async def worksets(services: PageServices, request: PageRequest) -> Reply:
    """Show the worksets with their progress."""
    after = request.exact("after")
    figures = await services.reads.shared(
        f"worksets after {after or ''}",
        lambda schema: queue_state.about_worksets(schema, after=after, limit=_ON_A_PAGE + 1),
    )
    return services.show(
        "worksets",
        request,
        figures=figures,
        worksets=figures.value[:_ON_A_PAGE],
        has_more=len(figures.value) > _ON_A_PAGE,
    )


async def tenants(services: PageServices, request: PageRequest) -> Reply:
    """Show the tenants that have jobs."""

    def inquire(schema: str) -> Inquiry[list[dict[str, Any]]]:
        return queue_state.about_tenants(schema, _ON_A_PAGE + 1)

    figures = await services.reads.shared("tenants", inquire)
    return services.show(
        "tenants",
        request,
        figures=figures,
        tenants=figures.value[:_ON_A_PAGE],
        has_more=len(figures.value) > _ON_A_PAGE,
    )


async def actions(services: PageServices, request: PageRequest) -> Reply:
    """Show the acts of operators, the latest first."""
    text = request.asked("after") or ""
    before = int(text) if text.isdecimal() and len(text) < 19 else None
    asked = queue_state.about_actions(
        services.reads.schema, before, _ON_A_PAGE + 1, request.asked("subject")
    )
    rows = await services.reads.find(asked)
    now = await services.reads.shared("clock", queue_state.about_clock)
    return services.show(
        "actions",
        request,
        actions=rows[:_ON_A_PAGE],
        has_more=len(rows) > _ON_A_PAGE,
        now=now.value,
    )

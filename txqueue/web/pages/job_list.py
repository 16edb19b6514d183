"""The list of jobs, and the question before an act on all that match."""

from __future__ import annotations

from txqueue.model.job import State
from txqueue.store.queries import about_depth, about_jobs, about_matching
from txqueue.web.acts import CHANGEABLE, COUNTED, chosen_filters
from txqueue.web.messages import PageRequest, Reply, redirect
from txqueue.web.page_services import PageServices

__all__ = ["confirmation", "jobs"]

_ON_A_PAGE = 50
# How many jobs one page looks at, the newest first: a rare filter would else read all of history.
_LOOKED_AT = 50_000
_ACTS = {"cancel": "Cancel", "retry": "Retry"}


async def jobs(services: PageServices, request: PageRequest) -> Reply:
    """Show jobs, the newest first, that match the filters in the address."""
    number = request.asked("id")
    if number is not None and number.isdecimal():
        return redirect(f"/jobs/{number}")
    text = request.asked("after") or ""
    after = int(text) if text.isdecimal() and len(text) < 19 else None
    filters = {**chosen_filters(request), "state": _state(request)}
    schema, find = services.reads.schema, services.reads.find
    depth = await find(about_depth(schema, filters["state"], after, _LOOKED_AT))
    bounds = {"after": after, "from_job": depth or None}
    asked = about_jobs(schema, {**filters, **bounds}, _ON_A_PAGE + 1)
    rows, now = await find(asked)
    has_more = len(rows) > _ON_A_PAGE
    return services.show(
        "jobs",
        request,
        jobs=rows[:_ON_A_PAGE],
        has_more=has_more,
        looked_at=_LOOKED_AT,
        further=depth if depth and not has_more else None,
        filters=filters,
        is_filtered=any(chosen_filters(request).values()),
        states=[state.value for state in State],
        now=now,
    )


async def confirmation(services: PageServices, request: PageRequest) -> Reply:
    """Ask whether to act on all jobs that match, with their number."""
    act = request.asked("act") or ""
    if act not in _ACTS:
        return redirect("/jobs")
    filters = {**chosen_filters(request), "state": _state(request)}
    asked = {**filters, "states": CHANGEABLE[act]}
    count = await services.reads.find(about_matching(services.reads.schema, asked, COUNTED + 1))
    return services.show(
        "confirm",
        request,
        act=act,
        verb=_ACTS[act],
        count=min(count, COUNTED),
        is_capped=count > COUNTED,
        filters={name: value for name, value in filters.items() if value},
    )


def _state(request: PageRequest) -> str | None:
    state = request.asked("state")
    return state if state in {each.value for each in State} else None

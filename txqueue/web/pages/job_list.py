"""The list of jobs, and the question before an act on all that match."""

from __future__ import annotations

from txqueue.errors import TxqueueError
from txqueue.model.job import State
from txqueue.model.operator_acts import ACTS
from txqueue.store.reads.dashboard import about_last_hour
from txqueue.store.reads.job_search import LOOKED_AT, about_bound, about_found, about_matching
from txqueue.web.acts import COUNTED
from txqueue.web.filters import MORE, USUAL, chips, chosen_filters, given_filters
from txqueue.web.messages import PageRequest, Reply, redirect
from txqueue.web.page_services import PageServices

_ON_A_PAGE = 50
MOST_SUGGESTED = 100
_ACTS = {"retry": "Retry", "restart": "Restart", "cancel": "Cancel"}


async def jobs(services: PageServices, request: PageRequest) -> Reply:
    """Show jobs, the newest first, that match the filters in the address."""
    number = request.asked("id")
    if number is not None and number.isdecimal():
        return redirect(f"/jobs/{number}")
    text = request.asked("after") or ""
    last_id = int(text) if text.isdecimal() and len(text) < 19 else None
    filters = chosen_filters(request)
    bounded = {**filters, "after": last_id}
    is_bounded = filters["batch"] is None
    inquiry = about_found(services.reads.schema, bounded, _ON_A_PAGE, is_bounded=is_bounded)
    jobs_page = await services.reads.find(inquiry)
    return services.show(
        "jobs",
        request,
        found=jobs_page,
        is_first=last_id is None,
        filters=filters,
        usual=USUAL,
        known=await _known_names(services),
        more=MORE,
        chips=chips(request),
        states=[state.value for state in State],
        acts={act: verb for act, verb in _ACTS.items() if _may_follow(act, filters["state"])},
        now=jobs_page.at,
    )


def _may_follow(act: str, state: object) -> bool:
    """Tell whether jobs of a list may be acted on; only a list of runs offers their restart."""
    return state in ACTS[act].states or (state is None and act != "restart")


async def _known_names(services: PageServices) -> dict[str, list[str]]:
    """Return names to suggest for filters: those with jobs in the last hour, the busiest first."""
    try:
        hour = (await services.reads.shared(about_last_hour)).value
    except TxqueueError:
        # The list is of use without suggestions.
        return {}
    return {
        column: sorted(names, key=lambda name: -names[name]["done"])[:MOST_SUGGESTED]
        for column, names in hour.items()
    }


async def confirmation(services: PageServices, request: PageRequest) -> Reply:
    """Ask whether to act on all jobs that match, with their number in each state."""
    act = request.asked("act") or ""
    if act not in _ACTS:
        return redirect("/jobs")
    schema, find = services.reads.schema, services.reads.find
    filters: dict[str, object] = {**chosen_filters(request), "act": act}
    oldest = await find(about_bound(schema, filters))
    filters["from_job"] = oldest
    counts = await find(about_matching(schema, filters, COUNTED + 1))
    count = sum(counts.values())
    is_of_all = filters["state"] is None and filters["waiting_for"] is None
    others = set(ACTS[act].states) - set(ACTS[act].of_all) if is_of_all else ()
    return services.show(
        "confirm",
        request,
        act=act,
        verb=_ACTS[act],
        count=min(count, COUNTED),
        counts=counts,
        others=sorted(others),
        is_capped=count > COUNTED,
        searched=LOOKED_AT if oldest is not None else None,
        filters=given_filters(request),
    )

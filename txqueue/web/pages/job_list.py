"""The list of jobs, and the question before an act on all that match."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from itertools import chain
from typing import Any
from urllib.parse import urlencode

from txqueue.model.humanize import meant
from txqueue.model.job import State
from txqueue.model.operator_acts import ACTS
from txqueue.policy.findings.status import unknown_name
from txqueue.store.reads import job_search
from txqueue.store.reads.dashboard import about_last_hour
from txqueue.web.acts import COUNTED
from txqueue.web.filters import FILTERS, MORE, USUAL, SortOrder, chips, chosen_filters, filter_pairs
from txqueue.web.messages import Reply, redirect
from txqueue.web.page_services import PageVisit, found_or

_ON_A_PAGE = 50
MOST_SUGGESTED = 100
# Of a search, the words that are looked up, and what they may name.
_MOST_WORDS, _SEARCHED_NAMES = 5, ("queue", "work_type", "tenant")
# An index serves this order of very many jobs, and no other.
_HEADS = {"job_id": "Job"}
_ACTS = {name: act for name, act in ACTS.items() if act.face and act.face.button}


async def jobs(visit: PageVisit) -> Reply:
    """Show the jobs that match the filters in the address, the newest or the oldest first."""
    number = visit.request.asked("id")
    if number is not None and number.isdecimal():
        return redirect(f"/jobs/{number}")
    last_id = visit.request.number("after")
    filters = chosen_filters(visit.request)
    order = SortOrder.asked(visit.request, _HEADS, "-job_id")
    bounded = {**filters, "after" if order.is_falling else "beyond": last_id}
    is_bounded = filters["batch"] is None
    jobs_page = await visit.find(job_search.about_found, bounded, _ON_A_PAGE, is_bounded=is_bounded)
    known = await _known_names(visit)
    is_empty = not jobs_page.jobs and last_id is None
    return visit.show(
        "jobs",
        found=jobs_page,
        is_first=last_id is None,
        order=order,
        filters=filters,
        usual=USUAL,
        known=known,
        notes=[note async for note in _notes(visit, filters, known)] if is_empty else [],
        more=MORE,
        chips=chips(visit.request),
        states=[state.value for state in State],
        acts={name: act for name, act in _ACTS.items() if _may_follow(name, filters["state"])},
        now=jobs_page.at,
    )


async def search(visit: PageVisit) -> Reply:
    """Lead to the job, or to the list of jobs, that the words of the search box mean."""
    words = (visit.request.asked("q") or "").split()
    if len(words) == 1 and words[0].isdecimal():
        return redirect(f"/jobs/{words[0]}")
    fields: dict[str, list[str]] = {}
    for place, word in enumerate(words):
        name, value = await _meaning(visit, word) if place < _MOST_WORDS else ("error", word)
        name = "error" if name in fields and name != "tag" else name
        fields.setdefault(name, []).append(value if name != "error" else word)
    if "error" in fields:
        fields["error"] = [" ".join(fields["error"])]
    return redirect(f"/jobs?{urlencode(fields, doseq=True)}")


async def _meaning(visit: PageVisit, word: str) -> tuple[str, str]:
    """Return the filter that a word means, and its value: else text of an error."""
    name, equals, value = word.partition("=")
    if equals:
        return (name, value) if name in FILTERS else ("tag", word)
    state = "assigned" if word == "running" else word
    if state in set(State):
        return "state", state
    for kind in _SEARCHED_NAMES:
        if word in await _names(visit, kind, word):
            return kind, word
    return "error", word


async def _names(visit: PageVisit, kind: str, word: str) -> list[str]:
    """Return names that exist; none if the database does not find them in time."""
    return await found_or([], visit.find(job_search.about_known_names, kind, word))


async def _notes(
    visit: PageVisit, filters: Mapping[str, Any], known: Mapping[str, list[str]]
) -> AsyncIterator[str]:
    """Yield which names of filters do not exist, with the nearest ones."""
    for kind in (*USUAL, "node"):
        if (name := filters[kind]) is None:
            continue
        names = await _names(visit, kind, name)
        is_all = len(names) < job_search.MOST_KNOWN
        if names and (text := unknown_name(kind, name, names, is_all=is_all)):
            yield text
    if (error := filters["error"]) and (text := meant(error, {*chain(*known.values())})):
        yield text.capitalize()


def _may_follow(act: str, state: object) -> bool:
    """Tell whether jobs of a list may be acted on; only a list of runs offers their restart."""
    return state in ACTS[act].states or (state is None and act != "restart")


async def _known_names(visit: PageVisit) -> dict[str, list[str]]:
    """Return names to suggest for filters: those with jobs in the last hour, the busiest first."""
    figures = await found_or(None, visit.reads.shared(about_last_hour))
    return {
        column: sorted(names, key=lambda name: -names[name]["done"])[:MOST_SUGGESTED]
        for column, names in (figures.value.items() if figures else ())
    }


async def confirmation(visit: PageVisit) -> Reply:
    """Ask whether to act on all jobs that match, with their number in each state."""
    name = visit.request.asked("act") or ""
    if (act := _ACTS.get(name)) is None:
        return redirect("/jobs")
    filters: dict[str, object] = {**chosen_filters(visit.request), "act": name}
    filters["from_job"] = oldest = await visit.find(job_search.about_bound, filters)
    counts = await visit.find(job_search.about_matching, filters, COUNTED + 1)
    count = sum(counts.values())
    is_of_all = filters["state"] is None and filters["waiting_for"] is None
    others = set(act.states) - set(act.of_all) if is_of_all else ()
    return visit.show(
        "confirm",
        act_name=name,
        act=act,
        count=min(count, COUNTED),
        counts=counts,
        others=sorted(others),
        is_capped=count > COUNTED,
        searched=job_search.LOOKED_AT if oldest is not None else None,
        filters=filter_pairs(visit.request),
    )

"""Pages of the list of jobs, each of which looks at a limited number of jobs."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from attrs import frozen

from txqueue.store.inquiries.inquiry import Inquiry, Rows
from txqueue.store.reads.job_filters import is_search
from txqueue.store.reads.queue_state import about_depth, about_jobs

__all__ = ["LOOKED_AT", "FoundJobs", "about_bound", "about_found"]

LOOKED_AT = 20_000
"""How many jobs one page looks at, the newest first: a rare filter would else read all history."""


@frozen
class FoundJobs:
    """A page of jobs, the newest first.

    Attributes:
        jobs: The jobs.
        at: The time by the database's clock.
        next: The number after which the next page begins; None if there are no more jobs.
        searched: How many jobs were looked at, if the page ends because of that; None otherwise.
    """

    jobs: Rows
    at: datetime
    next: int | None
    searched: int | None


def about_found(
    schema: str, filters: Mapping[str, object], limit: int, *, is_bounded: bool
) -> Inquiry[FoundJobs]:
    """Query a page of jobs.

    Args:
        schema: The name of the schema.
        filters: As for `about_jobs`.
        limit: The largest number of jobs.
        is_bounded: Whether the page looks at `LOOKED_AT` jobs at most, whatever the filters; with a
            filter that no index serves it always does.
    """
    is_by_time = filters.get("running_for") is not None
    is_cut = (is_bounded or is_search(filters)) and not is_by_time
    depth = (yield from _depth(schema, filters)) if is_cut else 0
    bounded = {**filters, "from_job": depth or None}
    rows, now = yield from about_jobs(schema, bounded, limit + 1, is_shown=True)
    if len(rows) > limit:
        # With `running_for` the list is not ordered by number, so that there is no next page.
        return FoundJobs(rows[:limit], now, None if is_by_time else rows[limit - 1]["job_id"], None)
    return FoundJobs(rows, now, depth or None, LOOKED_AT if depth else None)


def about_bound(schema: str, filters: Mapping[str, object]) -> Inquiry[int | None]:
    """Query which jobs an act on all that match looks at.

    Returns:
        The number of the oldest of the newest `LOOKED_AT` jobs, if no index serves a filter and
        there are older ones; None to look at all jobs.
    """
    return ((yield from _depth(schema, filters)) or None) if is_search(filters) else None


def _depth(schema: str, filters: Mapping[str, object]) -> Inquiry[int]:
    bounds = {name: filters.get(name) for name in ("state", "states", "after")}
    if filters.get("waiting_for") is not None:
        bounds["state"] = "waiting"
    return (yield from about_depth(schema, bounds, LOOKED_AT))

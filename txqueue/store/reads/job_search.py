"""Read-only queries of the list of jobs: those that match filters, page by page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows
from txqueue.store.inquiries.together import rows_of, together
from txqueue.store.reads.job_filters import damage_read_by, is_search, job_conditions, state_in
from txqueue.store.reads.queue_state import about_clock
from txqueue.store.reads.steps import WAIT, with_wait

__all__ = [
    "LISTED",
    "LOOKED_AT",
    "FoundJobs",
    "about_bound",
    "about_found",
    "about_jobs",
    "about_matching",
]

LISTED = """
    job.job_id, job.state::text as state, job.waiting_for, job.work_type, job.queue, job.priority,
    job.weight, job."group", job.tenant, job.attempt, job.deaths, job.node_id, node.name as node,
    job.not_before, job.not_after, job.rank, job.enqueued_at, job.assigned_at, job.started_at,
    job.finished_at, {schema}.readable_json(job.options) -> 'tags' as tags
"""
"""The columns of a job in a list."""

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


def about_jobs(
    schema: str, filters: Mapping[str, object], limit: int, *, is_shown: bool = False
) -> Inquiry[tuple[list[dict[str, Any]], datetime]]:
    """Query jobs without payloads, the newest first, and the database's time.

    Args:
        schema: The name of the schema.
        filters: ``state, queue, work_type, group, tenant, node``; ``tag, payload, error, since,
            until, waiting_for`` as people type them; ``after``, the last job number of the previous
            page; ``act``, for those jobs that this act on all that match changes; and
            ``running_for``, the least run time in seconds, with which the longest-running jobs come
            first. A filter that is None is ignored.
        limit: The largest number of rows.
        is_shown: Whether jobs are listed, too, whose damage keeps a filter from being applied.
    """
    where, values = job_conditions(schema, filters, is_shown=is_shown)
    is_by_time = filters.get("running_for") is not None
    order = "job.started_at, job.job_id" if is_by_time else "job.job_id desc"
    page = Question(
        f"select {LISTED.format(schema=schema)}, {damage_read_by(schema, filters)} as damage,"
        f" {WAIT.format(schema=schema)}"
        f" from {schema}.job as job"
        f" left join {schema}.node_info as node on node.node_id = job.node_id"
        f" {where} order by {order} limit %s",
        (*values, limit),
    )
    rows, now = yield from together(rows_of(page), about_clock())
    return [with_wait(row) for row in rows], now


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


def about_matching(
    schema: str, filters: Mapping[str, object], most: int
) -> Inquiry[dict[str, int]]:
    """Query how many jobs of each state match filters, as `about_jobs` takes them.

    Args:
        schema: The name of the schema.
        filters: The filters.
        most: The number at which the count stops.
    """
    where, values = job_conditions(schema, filters)
    rows = yield Question(
        "select state::text as state, count(*) as jobs from ("
        f"select job.state from {schema}.job as job {where} limit %s) as found"
        " group by state order by state",
        (*values, most),
    )
    return {row["state"]: row["jobs"] for row in rows}


def about_bound(schema: str, filters: Mapping[str, object]) -> Inquiry[int | None]:
    """Query which jobs an act on all that match looks at.

    Returns:
        The number of the oldest of the newest `LOOKED_AT` jobs, if no index serves a filter and
        there are older ones; None to look at all jobs.
    """
    return ((yield from _depth(schema, filters)) or None) if is_search(filters) else None


def _depth(schema: str, filters: Mapping[str, object]) -> Inquiry[int]:
    """Query the number of the oldest of the newest `LOOKED_AT` jobs; 0 if there are no more."""
    bounds = {"state": state_in(filters), **{name: filters.get(name) for name in ("act", "after")}}
    where, values = job_conditions(schema, bounds)
    rows = yield Question(
        "select count(*) as jobs, min(job_id) as first from ("
        f"select job.job_id from {schema}.job as job {where} order by job.job_id desc limit %s)"
        " as looked",
        (*values, LOOKED_AT),
    )
    return int(rows[0]["first"]) if rows[0]["jobs"] == LOOKED_AT else 0

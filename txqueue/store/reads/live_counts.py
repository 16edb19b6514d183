"""Read-only queries about live jobs by name, with a bound on the names.

A client that only enqueues can make any number of names of queues and work types. See
`txqueue.store.inquiries.inquiry`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from txqueue.policy.facts.live_jobs import MOST_SERVED, SERVING, LiveJobs, Rest
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows

__all__ = ["LARGEST", "about_live", "about_named_queues", "about_recent"]

LARGEST: Final = 100
"""How many queues, and work types, are listed: those with the most jobs, and what nodes serve."""

# No join: of very many names the planner has no statistics here, and would loop over all pairs.
_LIVE: Final = """
    with live as materialized (select * from {schema}.live_jobs),
    queues as materialized (
        select queue as name, sum(jobs) as jobs from live group by queue),
    types as materialized (
        select work_type as name, sum(jobs) as jobs from live group by work_type),
    kept_queues as materialized (
        (select name from queues where name = any(%s::text[])) union all
        (select name from queues where name <> all(%s::text[])
          order by jobs desc, name collate "C" limit %s)),
    kept_types as materialized (
        (select name from types where name = any(%s::text[])) union all
        (select name from types where name <> all(%s::text[])
          order by jobs desc, name collate "C" limit %s))
    select 'queue' as kind,
           case when queue in (select name from kept_queues) then queue end as name,
           state::text as state, waiting_for, null as queue, sum(jobs)::bigint as jobs,
           min(oldest) as oldest, (select count(*) from queues) as names
      from live group by 2, 3, 4
     union all
    select 'work_type', case when work_type in (select name from kept_types) then work_type end,
           state::text, waiting_for, min(queue collate "C"), sum(jobs)::bigint, min(oldest),
           (select count(*) from types)
      from live group by 2, 3, 4
"""
_RECENT: Final = """
    select case when place <= %s then queue end as queue, sum(jobs)::bigint as jobs,
           min(since) as since
      from (select *, row_number() over (order by jobs desc, queue) as place
              from {schema}.recent_done) as placed
     group by 1
"""
# No join here either: `is true` keeps the planner from making one of the condition.
_NAMED: Final = """
    with figures as materialized (
        select queue as name, state::text as state, waiting_for, jobs, oldest,
               null::bigint as done, null::timestamptz as since from {schema}.live_jobs
         union all
        select queue, null, null, null, null, jobs, since from {schema}.recent_done
         union all
        select served, null, null, null, null, null, null from unnest(%s::text[]) as served),
    page as materialized (
        select name from figures where %s::text is null or name collate "C" > %s
         group by name order by name collate "C" limit %s)
    select name, state, waiting_for, sum(jobs)::bigint as jobs, min(oldest) as oldest,
           sum(done)::bigint as done, min(since) as since
      from figures where (name in (select name from page)) is true
     group by 1, 2, 3 order by name collate "C"
"""


def about_live(schema: str, nodes: Iterable[Mapping[str, Any]], most: int) -> Inquiry[LiveJobs]:
    """Query the numbers of live jobs, of the largest queues and work types and all others together.

    Args:
        schema: The name of the schema.
        nodes: The nodes; what they serve is kept, whatever jobs it has.
        most: How many other names of each kind are kept.
    """
    serving = [node for node in nodes if node["state"] in SERVING]
    name_lists = [_names(serving, column) for column in ("queues", "work_types")]
    parameters = [part for names in name_lists for part in (names, names, most)]
    rows = yield Question(_LIVE.format(schema=schema), parameters)
    queues = [row for row in rows if row["kind"] == "queue"]
    types = [row for row in rows if row["kind"] == "work_type"]
    return LiveJobs(
        queues=[{**row, "queue": row["name"]} for row in queues if row["name"] is not None],
        work_types=[{**row, "work_type": row["name"]} for row in types if row["name"] is not None],
        other_queues=_rest(queues),
        other_types=_rest(types),
    )


def about_recent(schema: str, most: int) -> Inquiry[Rows]:
    """Query how many jobs the queues did recently; of all but the busiest together, as None."""
    return (yield Question(_RECENT.format(schema=schema), (most,)))


def about_named_queues(
    schema: str, served: Sequence[str], after: str | None, most: int
) -> Inquiry[tuple[Rows, Rows, list[str]]]:
    """Query queues in the order of their names.

    Args:
        schema: The name of the schema.
        served: The queues that nodes serve.
        after: The last name of the previous page; None for the first page.
        most: How many.

    Returns:
        The numbers of their live jobs, what they did recently, and their names.
    """
    rows = yield Question(_NAMED.format(schema=schema), (list(served), after, after, most))
    named = [{**row, "queue": row["name"]} for row in rows]
    live = [row for row in named if row["state"] is not None]
    done = [{**row, "jobs": row["done"]} for row in named if row["done"] is not None]
    return live, done, list(dict.fromkeys(row["name"] for row in named))


def _names(nodes: Iterable[Mapping[str, Any]], column: str) -> list[str]:
    """Return what the nodes serve, without what more than `MOST_SERVED` would be."""
    return sorted({name for node in nodes for name in node[column]})[:MOST_SERVED]


def _rest(rows: Rows) -> Rest:
    """Return what the rows without a name count together."""
    kept = {row["name"] for row in rows if row["name"] is not None}
    names = max((row["names"] for row in rows), default=0) - len(kept)
    jobs: dict[str, int] = {}
    for row in rows:
        if row["name"] is None:
            jobs[row["state"]] = jobs.get(row["state"], 0) + row["jobs"]
    return Rest(names, jobs)

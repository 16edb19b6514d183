"""Read-only queries for the dashboard: changes, charts, one queue, one work type.

See `txqueue.store.reads.queue_state`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal

from txqueue.policy.findings.status import depth
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask, together
from txqueue.store.reads.queue_state import about_clock

LOOKED_AT = 50_000
"""How many jobs of each state are looked at to count those of a queue or work type: not all tables
have an index by these."""

Column = Literal["queue", "work_type"]
"""What a name is of."""

_OTHER: Mapping[Column, Column] = {"queue": "work_type", "work_type": "queue"}
_LOOKED = "state, queue, work_type, incarnation, not_before"
# Ready jobs, which may be many, are found by the index of their queue.
_READY: Mapping[Column, str] = {
    "queue": """
        (select {looked} from {schema}.job_ready
          where queue = %s and tenant is null limit {most})
         union all
        (select {looked} from {schema}.job_ready
          where queue = %s and tenant is not null limit {most})
    """,
    "work_type": "(select {looked} from {schema}.job_ready limit {most})",
}
_LIVE = """
    select state::text as state, case when state = 'assigned' then incarnation end as incarnation,
           count(*) as looked, count(*) filter (where {column} = %s) as jobs,
           min(not_before) filter (where {column} = %s) as oldest,
           (array_agg(distinct {other}) filter (where {column} = %s))[:20] as others
      from ((select {looked} from {schema}.job_waiting limit {most})
             union all
            (select {looked} from {schema}.job_assigned limit {most})
             union all
            (select {looked} from {schema}.job_failed limit {most})
             union all {ready}) as found
     group by 1, 2
"""
# Percentiles of minutes cannot be merged exactly: these are their means, weighted by the jobs done.
_SUMS = """
    sum(done)::bigint as done, sum(failed)::bigint as failed,
    sum(wait_p50 * done) / nullif(sum(done) filter (where wait_p50 is not null), 0) as wait_p50,
    sum(wait_p95 * done) / nullif(sum(done) filter (where wait_p95 is not null), 0) as wait_p95,
    sum(run_p50 * done) / nullif(sum(done) filter (where run_p50 is not null), 0) as run_p50,
    sum(run_p95 * done) / nullif(sum(done) filter (where run_p95 is not null), 0) as run_p95,
    sum(run_p50 * done) as busy
"""
_ENDED = """
    select * from (
    select span.name as span, its.{other} as part, {sums},
           row_number() over (partition by span.name, its.{other} is null
                              order by sum(done) desc) as place
      from unnest(%s::text[], %s::float8[]) as span (name, seconds)
      join {schema}.minute_counts as its on its.at > now() - make_interval(secs => span.seconds)
     where its.{column} = %s
     group by grouping sets ((span.name), (span.name, its.{other}))) as found
     where place <= {most}
     order by done desc, part
"""
_COVERED = """
    select span.name as span, sum(mark.seconds)::float8 as seconds
      from unnest(%s::text[], %s::float8[]) as span (name, seconds)
      join {schema}.minute_mark as mark on mark.at > now() - make_interval(secs => span.seconds)
     group by span.name
"""
_HOUR = """
    select queue, work_type, {sums} from {schema}.minute_counts
     where at > now() - interval '1 hour'
     group by grouping sets ((queue), (work_type))
     order by sum(done) desc limit {most}
"""
_DAY_BEFORE = """
    select interval '1 day'
               + date_bin(make_interval(secs => %s), mark.at, '2000-01-01 00:00Z') as at,
           max(mark.seconds)::float8 as seconds, avg(its.done / mark.seconds)::float8 as done,
           avg(its.ready)::float8 as ready, max(its.wait_p95) as wait_p95,
           max(its.run_p95) as run_p95
      from {schema}.minute_mark as mark cross join lateral (
           select coalesce(sum(done), 0) as done, coalesce(sum(ready), 0) as ready,
                  max(wait_p95) as wait_p95, max(run_p95) as run_p95
             from {schema}.minute_counts as each
            where each.at = mark.at and (%s::text is null or queue = %s)
              and (%s::text is null or work_type = %s)) as its
     where mark.at > now() - interval '1 day' - make_interval(secs => %s)
       and mark.at <= now() - interval '1 day'
     group by 1 order by 1
"""
# How many queues and work types the last hour has, and how many parts each of them.
_HOUR_TOLD, _PARTS_TOLD = 500, 50


def about_changes(schema: str) -> Inquiry[tuple[object, ...]]:
    """Query a value that changes soon after a job is enqueued, changes its state, or is acted on.

    It costs one read of statistics that the server keeps anyway.
    """
    rows = yield Question(
        "select coalesce(sum(n_tup_ins + n_tup_del), 0)::bigint as moves,"
        f" (select max(action_id) from {schema}.action) as act,"
        f" (select max(started_at) from {schema}.node_info) as node"
        " from pg_stat_all_tables where schemaname = %s and relname like %s",
        (schema, "job%"),
    )
    return tuple(rows[0].values())


def about_chart(
    schema: str,
    span: timedelta,
    step: timedelta,
    queue: str | None = None,
    work_type: str | None = None,
) -> Inquiry[tuple[Rows, Rows]]:
    """Query what jobs did in equal steps of time, the oldest first, and what they did a day before.

    That of a day before has the times of today, and is empty for a span of more than a day.

    Args:
        schema: The name of the schema.
        span: How far back.
        step: How long a step is.
        queue: Only jobs of this queue.
        work_type: Only jobs of this work type.
    """
    length, its_step = span.total_seconds(), step.total_seconds()
    length_before = length if span <= timedelta(days=1) else 0.0
    names = (queue, queue, work_type, work_type)
    return together(
        ask(f"select * from {schema}.chart(%s, %s, %s, %s)", (length, its_step, queue, work_type)),
        ask(_DAY_BEFORE.format(schema=schema), (its_step, *names, length_before)),
    )


def about_live_jobs(schema: str, column: Column, name: str) -> Inquiry[dict[str, Any]]:
    """Query how many jobs of a queue or work type have not ended, or have failed.

    Args:
        schema: The name of the schema.
        column: What the name is of.
        name: The queue or work type.

    Returns:
        See `txqueue.policy.findings.status.depth`.
    """
    terms = {"schema": schema, "looked": _LOOKED, "most": LOOKED_AT}
    sql = _LIVE.format(
        column=column, other=_OTHER[column], ready=_READY[column].format(**terms), **terms
    )
    live = ask(sql, [name] * sql.count("%s"))
    rows, now = yield from together(live, about_clock())
    return depth(rows, LOOKED_AT, now)


def about_node_jobs(schema: str, incarnation: int, limit: int) -> Inquiry[Rows]:
    """Query the jobs of a run of a node, those that have run longest first."""
    return ask(
        'select job_id, work_type, queue, "group", tenant, attempt, assigned_at, started_at'
        f" from {schema}.job_assigned where incarnation = %s"
        " order by started_at, assigned_at, job_id limit %s",
        (incarnation, limit),
    )


def about_ended(
    schema: str, column: Column, name: str, spans: Mapping[str, timedelta]
) -> Inquiry[tuple[Rows, dict[str, float]]]:
    """Query what jobs of a queue or work type have done, as the minutes noted it.

    Args:
        schema: The name of the schema.
        column: What the name is of.
        name: The queue or work type.
        spans: How far back, by name.

    Returns:
        For each span a row of all jobs, whose ``part`` is None, and one for each work type of the
        queue, or queue of the work type; and how many seconds of each span the minutes cover.
    """
    parameters = (list(spans), [span.total_seconds() for span in spans.values()])
    sql = _ENDED.format(
        schema=schema, column=column, other=_OTHER[column], sums=_SUMS, most=_PARTS_TOLD
    )
    rows, covered = yield from together(
        ask(sql, (*parameters, name)),
        ask(_COVERED.format(schema=schema), parameters),
    )
    return rows, {row["span"]: row["seconds"] for row in covered}


def about_last_hour(schema: str) -> Inquiry[dict[Column, dict[str, dict[str, Any]]]]:
    """Query what jobs have done in the last hour, by queue and by work type."""
    rows = yield Question(_HOUR.format(schema=schema, sums=_SUMS, most=_HOUR_TOLD))
    return {
        "queue": {row["queue"]: row for row in rows if row["queue"] is not None},
        "work_type": {row["work_type"]: row for row in rows if row["work_type"] is not None},
    }


def about_policy(schema: str, work_type: str) -> Inquiry[dict[str, Any] | None]:
    """Query what nodes have published about a work type; None if none ever did."""
    rows = yield Question(f"select * from {schema}.work_type where work_type = %s", (work_type,))
    return next(iter(rows), None)

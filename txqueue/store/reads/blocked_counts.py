"""The read-only query of why jobs do not run, for all live jobs together.

Jobs that the same things can keep from running make a class: one job of each is explained,
and its reason counts for all. Jobs behind others are alike if these are. See
`txqueue.store.inquiries.inquiry`.
"""

from __future__ import annotations

import json
from typing import Any, Final

from attrs import frozen

from txqueue.policy.blockers.blocked_jobs import blocked_jobs, jobs_left_out
from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["Blocked", "about_blocked"]

MOST_JOBS: Final = 100_000
"""How many ready jobs, waiting ones, and unstarted ones are looked at, each."""

MOST_TIES: Final = 2_000
"""Of how many jobs that wait for others the kinds of those are distinguished."""

MOST_CLASSES: Final = 50
"""How many classes of jobs are explained: those with the most jobs."""

# Jobs that have been assigned for this long and have not started wait in their node.
_UNSTARTED: Final = "5 seconds"
# To read options safely takes long; a job that lacks its key has the error that says so.
_NO_KEY: Final = "case when error is not null then {schema}.readable_json(options) -> 'no_key' end"
# Only payloads of encrypted types are read: one in clear has another reason than the others.
_IS_CLEAR: Final = """case when work_type in (select work_type from sealed)
                    then not {schema}.readable_json(payload) ? 'encrypted' end"""
# Only rows of tables of which some session has locked rows are looked at.
_LOCKER: Final = """case when xmax <> '0' and tableoid in (select relation from row_locks)
                    then {schema}.row_locker(xmax, tableoid) end"""
_CLASSES: Final = """
    with tenants as materialized (select key from {schema}.control where kind = 'tenant'),
    sealed as materialized (
        select work_type from {schema}.work_type
         where policy ? 'encrypted' and not {schema}.is_read_in_clear(work_type)),
    groups as materialized (select key from {schema}.control where kind = 'group'),
    held as materialized (
        select distinct "group" as name from {schema}.job_assigned where "group" is not null),
    silent as materialized (
        select distinct "group" as name from {schema}.job_assigned
         where "group" is not null and job_id = any ({schema}.silent_jobs())),
    row_locks as materialized (
        select relation from pg_locks where mode = 'RowShareLock' and pid <> pg_backend_pid()),
    looked as materialized (
        (select 'ready' as state, null::text as waiting_for, queue, work_type, tenant, "group",
                job_id, rank, weight, priority >= 7 as is_high, deaths > 1 as is_suspect,
                {no_key} as no_key, {is_clear} as is_clear, null::integer as incarnation,
                {locker} as locker
           from {schema}.job_ready where job_id > 0 limit {most})
        union all
        (select 'waiting', case when waiting_for not in ('time', 'rate') then waiting_for
                                when not_before <= clock_timestamp() then 'nothing'
                                when not_before = 'infinity' then 'never'
                                when options ? 'steps' then 'step'
                                when attempt > 0 then 'backoff'
                                else waiting_for end,
                queue, work_type, tenant, "group",
                job_id, rank, weight, priority >= 7, deaths > 1,
                {no_key}, {is_clear}, null::integer, {locker}
           from {schema}.job_waiting where job_id > 0 limit {most})
        union all
        (select 'assigned', null, queue, work_type, null, null,
                job_id, rank, weight, null::boolean, deaths > 1, null::jsonb, null::boolean,
                incarnation, {locker}
           from {schema}.job_assigned
          where (started_at is null or {locker} is not null)
            and assigned_at < clock_timestamp() - interval '{unstarted}' limit {most})),
    ties as (
        (select next_id as job_id, job_id as other from {schema}.unique_job
          where next_id is not null limit {ties})
        union all
        (select child, parent from {schema}.job_parent where ended is null limit {ties})),
    behind as materialized (
        select ties.job_id, string_agg(distinct concat_ws(
                   ' ', state, waiting_for, queue, work_type, deaths > 1,
                   other = any ((select {schema}.silent_jobs())::bigint[])), ',') as what
          from ties cross join lateral (
               select * from {schema}.job as its
                where its.job_id = other and state in ('waiting', 'ready', 'assigned')) as its
         group by ties.job_id
        union all
        select job_id, concat_ws(
                   ' ', row_number() over before > 1, min(kind) over before, max(kind) over before)
          from (select *, concat_ws(' ', queue, work_type, is_suspect, weight) as kind
                  from looked
                 where "group" is not null
                   and (state = 'ready' or waiting_for in ('group', 'rate'))) as each
        window before as (partition by "group" order by rank, job_id))
    select state, waiting_for, queue, work_type, count(*) as jobs, min(job_id) as example,
           (sum(count(*)) over (partition by state))::bigint as jobs_of_state,
           (sum(count(*)) over ())::bigint as all_jobs, count(*) over () as classes
      from looked left join behind using (job_id)
     group by state, waiting_for, queue, work_type, is_high, is_suspect, no_key, is_clear,
           incarnation, what, locker, case when state = 'ready' then weight end,
           case when tenant in (select key from tenants) then tenant end,
           case when "group" in (select key from groups) then "group" end,
           case when "group" in (select name from silent) then "group" end,
           "group" in (select name from held)
     order by 5 desc, 6 limit {classes}
"""


@frozen
class Blocked:
    """Why jobs do not run.

    Attributes:
        reasons: How many jobs do not run for which reason; see `blocked_jobs`.
        left_out: Sentences about the jobs that do not count, as there are too many.
    """

    reasons: list[dict[str, Any]]
    left_out: list[str]


def about_blocked(schema: str) -> Inquiry[Blocked]:
    """Query why jobs do not run: how many for which reason, and an example of each.

    Args:
        schema: The name of the schema.
    """
    sql = _CLASSES.format(
        schema=schema,
        no_key=_NO_KEY.format(schema=schema),
        is_clear=_IS_CLEAR.format(schema=schema),
        locker=_LOCKER.format(schema=schema),
        most=MOST_JOBS,
        ties=MOST_TIES,
        classes=MOST_CLASSES,
        unstarted=_UNSTARTED,
    )
    classes = yield Question(sql)
    rows = yield Question(
        f"select job_id, facts::text from {schema}.explain_each(%s::bigint[])",
        ([row["example"] for row in classes],),
    )
    facts = {row["job_id"]: json.loads(row["facts"]) for row in rows}
    return Blocked(blocked_jobs(classes, facts), jobs_left_out(classes, MOST_JOBS))

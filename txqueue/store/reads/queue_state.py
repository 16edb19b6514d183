"""Read-only queries about the queue: live jobs by name, why they do not run, limits, nodes.

A client that only enqueues can make any number of names of queues and work types. See
`txqueue.store.inquiries.inquiry`.

Jobs that the same things can keep from running make a class: one job of each is explained,
and its reason counts for all.

Each is written as a generator, an `Inquiry`, that yields statements, receives their rows, and
returns the result; the caller runs the statements.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from attrs import frozen

from txqueue.policy.findings import status
from txqueue.policy.findings.blocked_jobs import blocked_jobs, jobs_left_out
from txqueue.policy.findings.catalogue import warnings
from txqueue.policy.findings.status import SERVING, LiveJobs, Rest
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask, together
from txqueue.store.reads.examination.statements import PLAIN
from txqueue.store.reads.schedule_list import about_worksets
from txqueue.store.schema.files import IDENTITY, QueueIdentity

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
           min(oldest) as oldest, (select count(*) from queues) as names,
           null::boolean as is_published
      from live group by 2, 3, 4
     union all
    select 'work_type', case when work_type in (select name from kept_types) then work_type end,
           state::text, waiting_for, min(queue collate "C"), sum(jobs)::bigint, min(oldest),
           (select count(*) from types),
           bool_or(work_type in (select known.work_type from {schema}.work_type as known))
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
    of_queues = [row for row in rows if row["kind"] == "queue"]
    types = [row for row in rows if row["kind"] == "work_type"]
    return LiveJobs(
        queues=[{**row, "queue": row["name"]} for row in of_queues if row["name"] is not None],
        work_types=[{**row, "work_type": row["name"]} for row in types if row["name"] is not None],
        other_queues=_rest(of_queues),
        other_types=_rest(types),
    )


def about_recent(schema: str, most: int) -> Inquiry[Rows]:
    """Query how many jobs the queues did recently; of all but the busiest together, as None."""
    return ask(_RECENT.format(schema=schema), (most,))


def _names(nodes: Iterable[Mapping[str, Any]], column: str) -> list[str]:
    """Return what the nodes serve, without what more than `MOST_SERVED` would be."""
    return sorted({name for node in nodes for name in node[column]})[: status.MOST_SERVED]


def _rest(rows: Rows) -> Rest:
    """Return what the rows without a name count together."""
    kept = {row["name"] for row in rows if row["name"] is not None}
    names = max((row["names"] for row in rows), default=0) - len(kept)
    jobs: dict[str, int] = {}
    for row in rows:
        if row["name"] is None:
            jobs[row["state"]] = jobs.get(row["state"], 0) + row["jobs"]
    return Rest(names, jobs)


MOST_JOBS: Final = 100_000
"""How many ready jobs, waiting ones, and unstarted ones are looked at, each."""

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
    row_locks as materialized (
        select relation from pg_locks where mode = 'RowShareLock' and pid <> pg_backend_pid()),
    looked as materialized (
        (select 'ready' as state, null::text as waiting_for, queue, work_type, tenant, "group",
                job_id, rank, weight, priority >= 7 as is_high, deaths > 1 as is_suspect,
                {no_key} as no_key, {is_clear} as is_clear, null::integer as incarnation,
                {locker} as locker
           from {schema}.job_ready limit {most})
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
           from {schema}.job_waiting limit {most})
        union all
        (select 'assigned', null, queue, work_type, null, null,
                job_id, rank, weight, null::boolean, deaths > 1, null::jsonb, null::boolean,
                incarnation, {locker}
           from {schema}.job_assigned
          where (started_at is null or {locker} is not null)
            and assigned_at < clock_timestamp() - interval '{unstarted}' limit {most})),
    placed as (
        select job_id, row_number() over (partition by "group" order by rank, job_id) as place
          from looked
         where "group" is not null and (state = 'ready' or waiting_for in ('group', 'rate')))
    select state, waiting_for, queue, work_type, count(*) as jobs, min(job_id) as example,
           (sum(count(*)) over (partition by state))::bigint as jobs_of_state,
           (sum(count(*)) over ())::bigint as all_jobs, count(*) over () as classes
      from looked left join placed using (job_id)
     group by state, waiting_for, queue, work_type, is_high, is_suspect, no_key, is_clear,
           incarnation, place > 1, locker, case when state = 'ready' then weight end,
           case when tenant in (select key from tenants) then tenant end,
           case when "group" in (select key from groups) then "group" end,
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


_TENANTS_TOLD = 100
# How many nodes, pauses and limits, and published work types are read: the nodes that live, and the
# first of others by name.
_NODES_TOLD, _CONTROLS_TOLD, _TYPES_TOLD = 1000, 1000, 500
# Those that run have been up until now; others until their last heartbeat.
_LIVING_FIRST = """
    select *, round(extract(epoch from clock_timestamp() - heartbeat_at), 3)::float8
                  as heartbeat_seconds,
           round(extract(epoch from case when state in ('alive', 'draining') then clock_timestamp()
                                         else heartbeat_at end - started_at), 3)::float8
                  as up_seconds
      from (select * from {schema}.node_status
             where %s::text is null or name = %s
             order by state in ('alive', 'draining') desc, heartbeat_at desc, name
             limit %s) as each
     where %s::text is null or name collate "C" > %s
     order by name collate "C" limit %s
"""
_SNAPSHOTS = """
    select *, extract(epoch from clock_timestamp() - since)::float8 as seconds
      from {schema}.old_snapshots order by since nulls last, name
"""


def about_all(schema: str) -> Inquiry[dict[str, Any]]:
    """Query the state of all queues and nodes, with warnings.

    Returns:
        A dictionary with ``queues, other_queues, nodes, history, at, warnings, blocked,
        blocked_left_out, tenants, worksets, schedules``.
    """
    plain = {name: PLAIN[name] for name in ("pauses", "held_types", "due_schedules", "schedules")}
    named = {**plain, "old_snapshots": _SNAPSHOTS}
    nodes, recent, history, controls, worksets, now, *others = yield from together(
        about_nodes(schema),
        about_recent(schema, LARGEST),
        ask(f"select * from {schema}.history_size order by state"),
        about_controls(schema),
        about_worksets(schema),
        about_clock(),
        *(ask(sql.format(schema=schema)) for sql in named.values()),
    )
    # Alone, as these take long where there are many jobs.
    live = yield from about_live(schema, nodes, LARGEST)
    tenants = yield from about_tenants(schema, _TENANTS_TOLD)
    blocked = yield from about_blocked(schema)
    facts = dict(zip(named, others, strict=True))
    facts |= {"nodes": nodes, "controls": controls, "worksets": worksets, "live": live}
    facts |= {"blocked_jobs": blocked.reasons, "unended": [{"jobs": live.total(*status.UNENDED)}]}
    listed = [row for row in recent if row["queue"]]
    rest = sum(status.done_rate(row, now) for row in recent if not row["queue"])
    return {
        "queues": status.queues(live.queues, listed, nodes, now),
        "other_queues": {**live.other_queues.as_dict(), "done_per_second": rest},
        "nodes": nodes,
        "history": {row["state"]: row["jobs"] for row in history},
        "at": now,
        "warnings": warnings(facts),
        "blocked": blocked.reasons,
        "blocked_left_out": blocked.left_out,
        "tenants": tenants,
        "worksets": worksets,
        "schedules": facts["schedules"][0],
    }


def about_tenants(schema: str, limit: int) -> Inquiry[list[dict[str, Any]]]:
    """Query the tenants that have jobs, those with the most ready ones first.

    Args:
        schema: The name of the schema.
        limit: The largest number of rows.
    """
    return ask(
        f"select tenant, waiting, ready, assigned, failed, share, concurrency, is_paused,"
        " extract(epoch from clock_timestamp() - oldest_ready)::float8 as oldest_ready_seconds"
        f" from {schema}.live_tenants order by ready desc, waiting desc, tenant limit %s",
        (limit,),
    )


def about_queues(
    schema: str, after: str | None = None, limit: int = LARGEST
) -> Inquiry[list[dict[str, Any]]]:
    """Query the first queues by name that have jobs, had some recently, or that a node serves.

    Args:
        schema: The name of the schema.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
    """
    nodes = yield from about_nodes(schema)
    served = sorted(status.served_queues(nodes))[: status.MOST_SERVED]
    rows = yield Question(_NAMED.format(schema=schema), (served, after, after, limit))
    live = [{**row, "queue": row["name"]} for row in rows if row["state"] is not None]
    recent = [
        {**row, "queue": row["name"], "jobs": row["done"]}
        for row in rows
        if row["done"] is not None
    ]
    states = status.queues(live, recent, nodes, (yield from about_clock()))
    shown = {row["name"] for row in rows}
    return [row for row in states if row["queue"] in shown]


def about_nodes(
    schema: str, after: str | None = None, limit: int = _NODES_TOLD, name: str | None = None
) -> Inquiry[list[dict[str, Any]]]:
    """Query the nodes by name; of more than a thousand, those that live or did so last.

    Args:
        schema: The name of the schema.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
        name: Only the node of this name; None for all.
    """
    sql = _LIVING_FIRST.format(schema=schema)
    return ask(sql, (name, name, _NODES_TOLD, after, after, limit))


# Without their schemas, which are long.
_PUBLISHED: Final = """select work_type, queue, priority, weight, policy, published_at
    from {}.work_type order by work_type limit %s"""


def about_work_types(schema: str) -> Inquiry[tuple[list[dict[str, Any]], Rest]]:
    """Query work types that nodes have published or jobs have, with their numbers of jobs.

    Returns:
        The first published ones, and those with the most jobs; and the others together.
    """
    published, nodes = yield from together(
        ask(_PUBLISHED.format(schema), (_TYPES_TOLD,)),
        about_nodes(schema),
    )
    live = yield from about_live(schema, nodes, LARGEST)
    return status.work_types(published, live.work_types, nodes), live.other_types


def about_identity(schema: str) -> Inquiry[QueueIdentity]:
    """Query which queue this is."""
    [row] = yield Question(IDENTITY.format(schema=schema))
    return QueueIdentity.of_row(row, schema)


def about_controls(
    schema: str, after: str | None = None, limit: int = _CONTROLS_TOLD, queue: str | None = None
) -> Inquiry[list[dict[str, Any]]]:
    """Query the first pauses and limits by kind and key.

    Args:
        schema: The name of the schema.
        after: Kind and key of the last one of the previous page; None for the first page.
        limit: The largest number of rows.
        queue: Only those of this queue; None for all.
    """
    columns = (
        "kind, key, is_paused, concurrency, rate, burst, share, reserve, backlog, is_full, held_by,"
        " case when held_until > clock_timestamp() then held_until end as held_until"
    )
    return ask(
        f"select {columns} from {schema}.control"
        " where (%s::text is null or (kind || ' ' || key) collate \"C\" > %s)"
        " and (%s::text is null or kind = 'queue' and key = %s)"
        " order by (kind || ' ' || key) collate \"C\" limit %s",
        (after, after, queue, queue, limit),
    )


def about_clock(schema: str = "") -> Inquiry[datetime]:  # noqa: ARG001 - as the others
    """Query the database's time, from which all ages are computed."""
    rows = yield Question("select clock_timestamp() as now")
    now: datetime = rows[0]["now"]
    return now

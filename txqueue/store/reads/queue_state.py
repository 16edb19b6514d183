"""Read-only queries about the queue, for blocking and asynchronous callers.

Each is written as a generator, an `Inquiry`, that yields statements, receives their rows, and
returns the result; the caller runs the statements.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from attrs import evolve

from txqueue.errors import JobNotFound
from txqueue.model.stored_json import read_json
from txqueue.model.tags import tags_of
from txqueue.policy.blockers import Explanation, explain
from txqueue.policy.blockers.blocked_jobs import blocked_warnings
from txqueue.policy.facts.live_jobs import Rest, served_queues
from txqueue.policy.facts.status import hidden_values, node_document, queues, summary, work_types
from txqueue.policy.facts.warnings import idle, recurring
from txqueue.policy.stages import with_stages, without_stages
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows
from txqueue.store.inquiries.together import rows_of, together
from txqueue.store.reads.blocked_counts import about_blocked
from txqueue.store.reads.live_counts import (
    LARGEST,
    MOST_SERVED,
    about_live,
    about_named_queues,
    about_recent,
)
from txqueue.store.reads.steps import WAIT, with_wait
from txqueue.store.reads.workset_list import about_workset_failures, about_worksets, workset_of
from txqueue.store.schema.version import IDENTITY, QueueIdentity

__all__ = [
    "about_actions",
    "about_all",
    "about_archived_job",
    "about_blocked",
    "about_clock",
    "about_controls",
    "about_depth",
    "about_identity",
    "about_job",
    "about_jobs",
    "about_matching",
    "about_node_page",
    "about_nodes",
    "about_obstacles",
    "about_queues",
    "about_tenants",
    "about_work_types",
    "about_workset_failures",
    "about_worksets",
]

_LISTED = """
    job.job_id, job.state::text as state, job.waiting_for, job.work_type, job.queue, job.priority,
    job.weight, job."group", job.tenant, job.attempt, job.deaths, job.node_id, node.name as node,
    job.not_before, job.not_after, job.rank, job.enqueued_at, job.assigned_at, job.started_at,
    job.finished_at, {schema}.readable_json(job.options) -> 'tags' as tags
"""
_WHOLE = """
    {schema}.readable_json(job.options)::text as options,
    {schema}.readable_json(job.payload)::text as payload,
    {schema}.readable_json(job.result)::text as result,
    {schema}.readable_json(job.progress)::text as progress,
    {schema}.readable_text(job.error) as error,
    {schema}.find_damage(
        job.options, job.payload, job.result, job.progress, job.error) as damage
"""
_OF_A_JOB = tuple(column.split()[-1].rpartition(".")[2].strip('"') for column in _LISTED.split(","))
_TOLD = (
    *("options", "payload", "result", "progress", "error", "damage", "policy"),
    *("actions", "attempts", "stages", "workset", "wait", "at"),
)
_SCHEDULES = """
    select count(*) filter (where is_active) as active,
           count(*) filter (where not is_active) as paused,
           count(*) filter (where is_overdue) as overdue,
           count(*) filter (where error is not null) as refused,
           min(name) filter (where is_overdue or error is not null) as such_as
      from {schema}.schedule, lateral (
           select is_active and isfinite(next_due)
              and next_due < clock_timestamp() - interval '1 minute' as is_overdue) as each
"""
T = TypeVar("T")

# By its index: other ways read the details of acts on other jobs, of which one may be damaged.
_BY_INDEX = "set local enable_seqscan = off; "
_NAMING = """
    action_id = any(array(
        select action_id from {schema}.action where detail -> 'jobs' @> to_jsonb(%s::bigint)))
"""
# How many of the latest acts on a job are returned with it.
_ACTIONS_TOLD = 20
_ATTEMPTS_TOLD = 20
_TENANTS_TOLD = 100
# How many nodes, pauses and limits, and published work types are read: the nodes that live, and the
# first of others by name.
_NODES_TOLD, _CONTROLS_TOLD, _TYPES_TOLD = 1000, 1000, 500
_LIVING_FIRST = "state in ('alive', 'draining') desc, heartbeat_at desc, name"


def about_all(schema: str) -> Inquiry[dict[str, Any]]:
    """Query the state of all queues and nodes, with warnings; see `summary`."""
    nodes, recent, snapshots, history, controls, worksets, [schedules], now = yield from together(
        _living_first(schema),
        about_recent(schema, LARGEST),
        _view(schema, "old_snapshots", "since nulls last, name"),
        _view(schema, "history_size", "state"),
        about_controls(schema),
        about_worksets(schema),
        rows_of(Question(_SCHEDULES.format(schema=schema))),
        about_clock(),
    )
    # Alone, as these take long where there are many jobs.
    live = yield from about_live(schema, nodes, LARGEST)
    tenants = yield from about_tenants(schema, _TENANTS_TOLD)
    blocked = yield from about_blocked(schema)
    document = summary(
        live=live,
        recent=recent,
        nodes=nodes,
        snapshots=snapshots,
        history=history,
        controls=controls,
        now=now,
    )
    document["warnings"] += recurring(schedules)
    document["warnings"] += idle(worksets)
    document["warnings"] = blocked_warnings(blocked.reasons) + document["warnings"]
    counts = {"blocked": blocked.reasons, "blocked_left_out": blocked.left_out}
    lists = {**counts, "tenants": tenants, "worksets": worksets}
    return {**document, **lists, "schedules": schedules}


def about_tenants(schema: str, limit: int) -> Inquiry[list[dict[str, Any]]]:
    """Query the tenants that have jobs, those with the most ready ones first.

    Args:
        schema: The name of the schema.
        limit: The largest number of rows.
    """
    rows = yield Question(
        f"select tenant, waiting, ready, assigned, failed, share, concurrency, is_paused,"
        " extract(epoch from clock_timestamp() - oldest_ready)::float8 as oldest_ready_seconds"
        f" from {schema}.live_tenants order by ready desc, waiting desc, tenant limit %s",
        (limit,),
    )
    return rows


def about_queues(
    schema: str, after: str | None = None, limit: int = LARGEST
) -> Inquiry[list[dict[str, Any]]]:
    """Query the first queues by name that have jobs, had some recently, or that a node serves.

    Args:
        schema: The name of the schema.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
    """
    nodes = yield from _living_first(schema)
    served = sorted(served_queues(nodes))[:MOST_SERVED]
    live, recent, names = yield from about_named_queues(schema, served, after, limit)
    states = queues(live, recent, nodes, (yield from about_clock()))
    return [row for row in states if row["queue"] in set(names)]


def about_nodes(schema: str) -> Inquiry[list[dict[str, Any]]]:
    """Query the nodes by name; of more than a thousand, those that live or did so last."""
    nodes, now = yield from together(_living_first(schema), about_clock())
    return [node_document(node, now) for node in nodes]


def about_node_page(schema: str, after: str | None, limit: int) -> Inquiry[list[dict[str, Any]]]:
    """Query nodes in the order of their names.

    Args:
        schema: The name of the schema.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
    """
    page = Question(
        f'select * from {schema}.node_status where %s::text is null or name collate "C" > %s'
        ' order by name collate "C" limit %s',
        (after, after, limit),
    )
    nodes, now = yield from together(rows_of(page), about_clock())
    return [node_document(node, now) for node in nodes]


def _living_first(schema: str) -> Inquiry[Rows]:
    rows = yield Question(
        f"select * from {schema}.node_status order by {_LIVING_FIRST} limit %s", (_NODES_TOLD,)
    )
    return sorted(rows, key=lambda node: node["name"])


def about_work_types(schema: str) -> Inquiry[tuple[list[dict[str, Any]], Rest]]:
    """Query work types that nodes have published or jobs have, with their numbers of jobs.

    Returns:
        The first published ones, and those with the most jobs; and the others together.
    """
    published, nodes = yield from together(
        rows_of(
            Question(
                f"select * from {schema}.work_type order by work_type limit %s", (_TYPES_TOLD,)
            )
        ),
        _living_first(schema),
    )
    live = yield from about_live(schema, nodes, LARGEST)
    return work_types(published, live.work_types, nodes), live.other_types


def about_matching(schema: str, filters: Mapping[str, object], most: int) -> Inquiry[int]:
    """Query how many jobs match filters, as `about_jobs` takes them.

    Args:
        schema: The name of the schema.
        filters: The filters.
        most: The number at which the count stops.
    """
    # Imported late: most of these queries have no filters.
    from txqueue.store.reads.job_filters import job_conditions

    where, values = job_conditions(schema, filters)
    rows = yield Question(
        f"select count(*) as jobs from (select from {schema}.job as job {where} limit %s) as found",
        (*values, most),
    )
    return int(rows[0]["jobs"])


def about_jobs(
    schema: str, filters: Mapping[str, object], limit: int, *, is_shown: bool = False
) -> Inquiry[tuple[list[dict[str, Any]], datetime]]:
    """Query jobs without payloads, the newest first, and the database's time.

    Args:
        schema: The name of the schema.
        filters: ``state, queue, work_type, group, tenant, node``; ``tag, payload, error, since,
            until, waiting_for`` as people type them; ``after``, the last job number of the previous
            page; and ``running_for``, the least run time in seconds, with which the
            longest-running jobs come first. A filter that is None is ignored.
        limit: The largest number of rows.
        is_shown: Whether jobs are listed, too, whose damage keeps a filter from being applied.
    """
    from txqueue.store.reads.job_filters import damage_read_by, job_conditions

    where, values = job_conditions(schema, filters, is_shown=is_shown)
    is_by_time = filters.get("running_for") is not None
    order = "job.started_at, job.job_id" if is_by_time else "job.job_id desc"
    page = Question(
        f"select {_LISTED.format(schema=schema)}, {damage_read_by(schema, filters)} as damage,"
        f" {WAIT.format(schema=schema)}"
        f" from {schema}.job as job"
        f" left join {schema}.node_info as node on node.node_id = job.node_id"
        f" {where} order by {order} limit %s",
        (*values, limit),
    )
    rows, now = yield from together(rows_of(page), about_clock())
    return [with_wait(row) for row in rows], now


def about_depth(schema: str, bounds: Mapping[str, object], most: int) -> Inquiry[int]:
    """Query how far back the newest jobs reach.

    Args:
        schema: The name of the schema.
        bounds: Which jobs to look at: the filters ``state``, ``states`` and ``after``.
        most: How many jobs to look at.

    Returns:
        The number of the oldest of them; 0 if there are no more.
    """
    from txqueue.store.reads.job_filters import job_conditions

    where, values = job_conditions(schema, bounds)
    rows = yield Question(
        "select count(*) as jobs, min(job_id) as first from ("
        f"select job.job_id from {schema}.job as job {where} order by job.job_id desc limit %s)"
        " as looked",
        (*values, most),
    )
    return int(rows[0]["first"]) if rows[0]["jobs"] == most else 0


def about_job(schema: str, job_id: int) -> Inquiry[dict[str, Any]]:
    """Query all columns of a job, its node's name, its work type's policy, and acts on it.

    Raises:
        JobNotFound: When no job has that number.
    """
    rows = yield Question(
        f"select {_LISTED.format(schema=schema)}, {_WHOLE.format(schema=schema)}, kind.policy,"
        f" {WAIT.format(schema=schema)}"
        f" from {schema}.find_job(%s) as job"
        f" left join {schema}.node_info as node on node.node_id = job.node_id"
        f" left join {schema}.work_type as kind on kind.work_type = job.work_type",
        (job_id,),
    )
    if not rows:
        raise _no_job(job_id)
    return (yield from _told(schema, with_wait(rows[0])))


def about_archived_job(schema: str, job: Mapping[str, Any]) -> Inquiry[dict[str, Any]]:
    """Query for an archived job what `about_job` queries for another one.

    Args:
        schema: The name of the schema.
        job: The job's columns in the archive.
    """
    [extra] = yield Question(
        f"select (select name from {schema}.node_info where node_id = %s) as node,"
        f" (select policy from {schema}.work_type where work_type = %s) as policy",
        (job["node_id"], job["work_type"]),
    )
    document = yield from _told(schema, {**dict.fromkeys((*_OF_A_JOB, *_TOLD)), **job, **extra})
    return {**{name: document[name] for name in (*_OF_A_JOB, *_TOLD)}, "archived": True}


def _told(schema: str, row: Mapping[str, Any]) -> Inquiry[dict[str, Any]]:
    """Add to a job's row its data from other tables."""
    job_id = row["job_id"]
    values = {name: read_json(row[name]) for name in ("options", "payload", "result", "progress")}
    values |= hidden_values(row["policy"], values["options"], values["progress"])
    acts_on_it = _actions(schema, _NAMING.format(schema=schema), job_id, _ACTIONS_TOLD)
    failed = Question(
        "select attempt, began, at, failed.node_id, name as node,"
        f" left({schema}.readable_text(error), 1000) as error, error_class,"
        f" {schema}.readable_text(log) as log, {schema}.readable_text(restarted_by) as restarted_by"
        f" from {schema}.failed_attempt as failed left join {schema}.node_info using (node_id)"
        " where job_id = %s order by at desc limit %s",
        (job_id, _ATTEMPTS_TOLD),
    )
    acts, attempts, workset, now = yield from _by_index(
        together(
            rows_of(acts_on_it),
            rows_of(failed),
            workset_of(schema, row["work_type"]),
            about_clock(),
        )
    )
    options, stages = without_stages(values["options"])
    details = {
        "options": options,
        "tags": dict(tags_of(values["options"])) or None,
        "actions": acts,
        "attempts": with_stages(attempts[::-1], stages, row["work_type"]),
        "stages": stages,
        "workset": workset,
        "archived": False,
    }
    return {**row, **values, **details, "at": now}


def _by_index(inquiry: Inquiry[T]) -> Inquiry[T]:
    """Run an inquiry whose questions scan no whole table."""
    rows: Any = None
    while True:
        try:
            question = inquiry.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result
        rows = yield evolve(question, sql=f"{_BY_INDEX}{question.sql}")


def about_obstacles(schema: str, job_id: int) -> Inquiry[Explanation]:
    """Query why a job does not run, and what would make it run.

    Raises:
        JobNotFound: When no job has that number.
    """
    rows = yield Question(f"select {schema}.explain_facts(%s)::text as facts", (job_id,))
    if rows[0]["facts"] is None:
        raise _no_job(job_id)
    facts = json.loads(rows[0]["facts"])
    return explain({**facts, "workset": (yield from workset_of(schema, facts["job"]["work_type"]))})


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
    columns = "kind, key, is_paused, concurrency, rate, burst, share, reserve, backlog, is_full"
    return (
        yield Question(
            f"select {columns} from {schema}.control"
            " where (%s::text is null or (kind || ' ' || key) collate \"C\" > %s)"
            " and (%s::text is null or kind = 'queue' and key = %s)"
            " order by (kind || ' ' || key) collate \"C\" limit %s",
            (after, after, queue, queue, limit),
        )
    )


def about_actions(
    schema: str, before: int | None, limit: int, subject: str | None = None
) -> Inquiry[list[dict[str, Any]]]:
    """Query the acts of operators, the latest first.

    Args:
        schema: The name of the schema.
        before: Only acts with a smaller number.
        limit: The largest number of rows.
        subject: Only acts on this subject.
    """
    conditions = {"action_id < %s": before, "subject = %s": subject}
    values = {condition: value for condition, value in conditions.items() if value is not None}
    return (yield _actions(schema, " and ".join(values) or "true", *values.values(), limit))


def _no_job(job_id: int) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")


def _actions(schema: str, condition: str, *parameters: object) -> Question:
    return Question(
        f"select action_id, at, who, what, subject, {schema}.readable_json(detail) as detail"
        f" from {schema}.action"
        f" where {condition} order by action_id desc limit %s",
        parameters,
    )


def about_clock(schema: str = "") -> Inquiry[datetime]:  # noqa: ARG001 - as the others
    """Query the database's time, from which all ages are computed."""
    rows = yield Question("select clock_timestamp() as now")
    now: datetime = rows[0]["now"]
    return now


def _view(schema: str, name: str, order: str) -> Inquiry[Rows]:
    return (yield Question(f"select * from {schema}.{name} order by {order}"))

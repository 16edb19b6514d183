"""Read-only queries about one job: all that is stored about it, why it does not run, its batch, the
acts on it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from txqueue.errors import JobNotFound, Refused
from txqueue.model.job_filters import tags_of
from txqueue.model.storable import read_json
from txqueue.policy.findings.explanation import Explanation, explain
from txqueue.policy.findings.status import hidden_values
from txqueue.policy.stages import with_stages, without_stages
from txqueue.store.inquiries.inquiry import Inquiry, Question, ask
from txqueue.store.inquiries.jobs import read_row
from txqueue.store.reads.job_search import LISTED
from txqueue.store.reads.schedule_list import workset_of
from txqueue.store.reads.steps import WAIT, with_wait

_ACTS = """
    select action_id, at, who, what, subject, {schema}.readable_json(detail) as detail,
           former is not null and at > clock_timestamp() - interval '1 hour' as may_undo
"""


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
    where = " and ".join(values) or "true"
    return ask(
        f"{_ACTS.format(schema=schema)} from {schema}.action where {where}"
        " order by action_id desc limit %s",
        (*values.values(), limit),
    )


ENDS = ("done", "failed", "cancelled")


def about_batch(schema: str, job_id: int) -> Inquiry[dict[str, Any]]:
    """Query the progress of a batch, counted from its jobs.

    Args:
        schema: The name of the schema.
        job_id: The callback's job number.

    Raises:
        JobNotFound: When there is no such job, or it is not a batch's callback.
    """
    rows = yield Question(
        "select job_id, work_type, state::text as state, waiting_for, "
        f" {schema}.readable_json(options) -> 'parents' as ends,"
        f" {schema}.readable_json(options) -> 'after' as after"
        f" from {schema}.job where job_id = %s",
        (job_id,),
    )
    counted = yield Question(
        f"select coalesce(ended, 'left') as ended, count(*) as jobs from {schema}.job_parent"
        " where child = %s group by 1",
        (job_id,),
    )
    ends = {row["ended"]: row["jobs"] for row in counted} or (rows and rows[0]["ends"])
    if ends and not counted and isinstance(rows[0]["after"], list):
        # The callback has run, but operators may have retried some of the jobs since; an empty
        # batch has none, and those of an old one may be gone from history.
        ends = (yield from _ends_now(schema, rows[0]["after"])) or ends
    if not rows or not ends:
        raise _no_batch(job_id)
    return _document(rows[0], ends)


def archived_batch(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `about_batch` does from the columns of an archived callback.

    Raises:
        JobNotFound: When the job is not a batch's callback.
    """
    options = read_json(job["options"])
    ends = options.get("parents") if isinstance(options, dict) else None
    if not ends:
        raise _no_batch(job["job_id"])
    return _document(job, ends)


def _no_batch(job_id: int) -> JobNotFound:
    return JobNotFound(
        f"job {job_id} is not the callback of a batch",
        "pass the callback's number: batch.callback_id",
    )


def _document(job: Mapping[str, Any], ends: Mapping[str, int]) -> dict[str, Any]:
    counts = {name: ends.get(name, 0) for name in (*ENDS, "left")}
    batch = {"batch": job["job_id"], "work_type": job["work_type"], "state": job["state"]}
    return {**batch, "jobs": sum(counts.values()), **counts}


def _ends_now(schema: str, ids: list[int]) -> Inquiry[dict[str, int]]:
    """Count the given jobs by final state; those that have not ended count as ``left``."""
    rows = yield Question(
        "select case when state in ('done', 'failed', 'cancelled') then state::text else 'left' end"
        f" as ended, count(*) as jobs from {schema}.job where job_id = any(%s::bigint[])"
        " group by 1",
        (ids,),
    )
    archived = yield Question(
        "select past.state::text as ended, count(*) as jobs from unnest(%s::bigint[]) as id,"
        f" lateral (select its.state from {schema}.find_archived(id) as its limit 1) as past"
        " group by 1",
        (ids,),
    )
    sums = Counter({row["ended"]: row["jobs"] for row in rows})
    sums.update({row["ended"]: row["jobs"] for row in archived})
    return dict(sums)


_WHOLE = """
    {schema}.readable_json(job.options)::text as options,
    {schema}.readable_json(job.payload)::text as payload,
    {schema}.readable_json(job.result)::text as result,
    {schema}.readable_json(job.progress)::text as progress,
    {schema}.readable_text(job.error) as error,
    {schema}.find_damage(
        job.options, job.payload, job.result, job.progress, job.error) as damage
"""
_OF_A_JOB = tuple(column.split()[-1].rpartition(".")[2].strip('"') for column in LISTED.split(","))
_TOLD = (
    *("options", "payload", "result", "progress", "error", "damage", "policy"),
    *("actions", "attempts", "stages", "workset", "wait", "at"),
)
# The latest acts on a job and its latest attempts, as JSON, so that one statement returns all.
_BESIDE = f"""
    array(select row_to_json(act)::text from (
        {_ACTS} from {{schema}}.find_actions({{job_id}}) order by action_id desc limit 20
    ) as act) as actions,
    array(select row_to_json(run)::text from (
        select attempt, began, at, run.node_id, name as node,
               left({{schema}}.readable_text(error), 1000) as error, error_class,
               {{schema}}.readable_text(log) as log,
               {{schema}}.readable_text(restarted_by) as restarted_by
          from {{schema}}.find_attempts({{job_id}}) as run
          left join {{schema}}.node_info using (node_id) order by at desc limit 20
    ) as run) as attempts,
    clock_timestamp() as at
"""


def about_job(schema: str, job_id: int) -> Inquiry[dict[str, Any]]:
    """Query all columns of a job, its node's name, its work type's policy, and acts on it.

    Raises:
        JobNotFound: When no job has that number.
    """
    rows = yield Question(
        f"select {LISTED.format(schema=schema)}, {_WHOLE.format(schema=schema)}, kind.policy,"
        f" {WAIT.format(schema=schema)}, {_BESIDE.format(schema=schema, job_id='job.job_id')}"
        f" from {schema}.find_job(%s) as job"
        f" left join {schema}.node_info as node on node.node_id = job.node_id"
        f" left join {schema}.work_type as kind on kind.work_type = job.work_type",
        (job_id,),
        is_frequent=True,
    )
    if not rows:
        raise _no_job(job_id)
    return (yield from _told(schema, with_wait(rows[0])))


def about_text(schema: str, job_id: int, column: str) -> Inquiry[str]:
    """Query the payload or the result of a job, as indented JSON with the numbers as stored.

    Raises:
        JobNotFound: When no job that is not archived has that number.
        Refused: When the job's type hides it.
    """
    rows = yield Question(
        f"select jsonb_pretty({schema}.readable_json(job.{column})) as value, kind.policy,"
        f" {schema}.readable_json(job.options)::text as options from {schema}.find_job(%s) as job"
        f" left join {schema}.work_type as kind on kind.work_type = job.work_type",
        (job_id,),
    )
    if not rows:
        raise _no_job(job_id)
    if hidden := hidden_values(rows[0]["policy"], read_json(rows[0]["options"]), None):
        reason = hidden[column]
        raise Refused(f"the {column} of job {job_id} is {reason}", "it is shown to no operator")
    return str(rows[0]["value"] or "null")


def about_archived_job(schema: str, job: Mapping[str, Any]) -> Inquiry[dict[str, Any]]:
    """Query for an archived job what `about_job` queries for another one.

    Args:
        schema: The name of the schema.
        job: The job's columns in the archive.
    """
    [extra] = yield Question(
        f"select (select name from {schema}.node_info where node_id = %s) as node,"
        f" (select policy from {schema}.work_type where work_type = %s) as policy,"
        f" {_BESIDE.format(schema=schema, job_id='%s')}",
        (job["node_id"], job["work_type"], job["job_id"], job["job_id"]),
    )
    document = yield from _told(schema, {**dict.fromkeys((*_OF_A_JOB, *_TOLD)), **job, **extra})
    return {**{name: document[name] for name in (*_OF_A_JOB, *_TOLD)}, "archived": True}


def _told(schema: str, row: Mapping[str, Any]) -> Inquiry[dict[str, Any]]:
    """Read the JSON of a job's row, and add what is derived from it."""
    values = {name: read_json(row[name]) for name in ("options", "payload", "result", "progress")}
    values |= hidden_values(row["policy"], values["options"], values["progress"])
    options, stages = without_stages(values["options"])
    attempts = [read_row(text, "began", "at") for text in reversed(row["attempts"])]
    details = {
        "options": options,
        "tags": dict(tags_of(values["options"])) or None,
        "actions": [read_row(text, "at") for text in row["actions"]],
        "attempts": with_stages(attempts, stages, row["work_type"]),
        "stages": stages,
        "workset": (yield from workset_of(schema, row["work_type"])),
        "archived": False,
    }
    return {**row, **values, **details}


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


def _no_job(job_id: int) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")

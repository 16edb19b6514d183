"""Read-only queries about one job: all that is stored about it, and why it does not run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import evolve

from txqueue.errors import JobNotFound
from txqueue.model.stored_json import read_json
from txqueue.model.tags import tags_of
from txqueue.policy.blockers import Explanation, explain
from txqueue.policy.facts.status import hidden_values
from txqueue.policy.stages import with_stages, without_stages
from txqueue.store.inquiries.inquiry import Inquiry, Question
from txqueue.store.inquiries.together import rows_of, together
from txqueue.store.reads.action_log import actions_on
from txqueue.store.reads.job_search import LISTED
from txqueue.store.reads.queue_state import about_clock
from txqueue.store.reads.steps import WAIT, with_wait
from txqueue.store.reads.workset_list import workset_of

__all__ = ["about_archived_job", "about_job", "about_obstacles"]

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
# How many of the latest acts on a job are returned with it.
_ACTIONS_TOLD = 20
_ATTEMPTS_TOLD = 20
# By its index: other ways read the details of acts on other jobs, of which one may be damaged.
_BY_INDEX = "set local enable_seqscan = off; "
T = TypeVar("T")


def about_job(schema: str, job_id: int) -> Inquiry[dict[str, Any]]:
    """Query all columns of a job, its node's name, its work type's policy, and acts on it.

    Raises:
        JobNotFound: When no job has that number.
    """
    rows = yield Question(
        f"select {LISTED.format(schema=schema)}, {_WHOLE.format(schema=schema)}, kind.policy,"
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
            rows_of(actions_on(schema, job_id, _ACTIONS_TOLD)),
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


def _no_job(job_id: int) -> JobNotFound:
    return JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")

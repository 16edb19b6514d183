"""A read-only query about the steps of a job. See `txqueue.store.inquiries.inquiry`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from txqueue.errors import JobNotFound
from txqueue.model.job import read_json
from txqueue.policy.facts.status import hidden_values
from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["about_archived_steps", "about_steps"]

_HIDES: Final = """{schema}.readable_json(job.options)::text as options, kind.policy
      from {schema}.job as job
      left join {schema}.work_type as kind on kind.work_type = job.work_type"""
_STEPS: Final = """
    select name, kind, result, error, signal, child, until, began_at, ended_at
      from {schema}.job_step where job_id = %s order by number"""
_KEPT: Final = """
    select its.* from jsonb_array_elements({schema}.readable_json(%s::jsonb))
      with ordinality as each (step, place),
      jsonb_to_record(step) as its (
        name text, kind text, result jsonb, error text, signal text, child bigint,
        until timestamptz, began_at timestamptz, ended_at timestamptz)
     order by place"""


def about_steps(schema: str, job_id: int) -> Inquiry[dict[str, Any]]:
    """Query the steps of a job, in the order in which they began.

    Args:
        schema: The name of the schema.
        job_id: The number of the job.

    Raises:
        JobNotFound: When there is no such job.
    """
    found = yield Question(
        f"select job.state::text as state, job.steps::text as kept, {_HIDES.format(schema=schema)}"
        " where job.job_id = %s",
        (job_id,),
    )
    if not found:
        raise JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")
    steps = yield Question(_STEPS.format(schema=schema), (job_id,))
    if not steps and found[0]["kept"]:
        steps = yield Question(_KEPT.format(schema=schema), (found[0]["kept"],))
    steps = yield from _shown(schema, steps, _hidden(found[0]))
    return {"job_id": job_id, "state": found[0]["state"], "steps": steps}


def about_archived_steps(schema: str, job: Mapping[str, Any]) -> Inquiry[dict[str, Any]]:
    """Query for an archived job what `about_steps` queries for another one.

    Args:
        schema: The name of the schema.
        job: The job's columns in the archive.
    """
    [kind] = yield Question(
        f"select (select policy from {schema}.work_type where work_type = %s) as policy",
        (job.get("work_type"),),
    )
    hidden = _hidden({**kind, "options": job.get("options")})
    steps = yield from _shown(schema, read_json(job.get("steps")) or [], hidden)
    return {"job_id": job["job_id"], "state": job["state"], "steps": steps}


def _shown(
    schema: str, steps: Sequence[Mapping[str, Any]], hidden: str | None
) -> Inquiry[list[dict[str, Any]]]:
    """Replace the values of steps that are not to be shown."""
    children = [step["child"] for step in steps if step.get("child")]
    found: Sequence[Mapping[str, Any]] = ()
    if children and hidden is None:
        found = yield Question(
            f"select job.job_id, {_HIDES.format(schema=schema)} where job.job_id = any (%s)",
            (children,),
        )
    # The type of a child that is gone is unknown, so its result is not shown.
    of_children = dict.fromkeys(children, hidden or "redacted")
    of_children |= {row["job_id"]: _hidden(row) for row in found}
    return [_without_values(step, of_children.get(step.get("child"), hidden)) for step in steps]


def _without_values(step: Mapping[str, Any], hidden: str | None) -> dict[str, Any]:
    names = ("result", "error") if hidden else ()
    return {**step, **{name: hidden for name in names if step.get(name) is not None}}


def _hidden(row: Mapping[str, Any]) -> str | None:
    """Return why the values of a job are not to be shown, if so."""
    reason: str | None = hidden_values(row["policy"], read_json(row["options"]), None).get("result")
    return reason

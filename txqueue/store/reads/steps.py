"""A read-only query about the steps of a job. See `txqueue.store.inquiries.inquiry`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from txqueue.errors import JobNotFound
from txqueue.model.job import read_json
from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["about_steps", "archived_steps"]

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
        "select job_id, state::text as state, steps::text as kept"
        f" from {schema}.job where job_id = %s",
        (job_id,),
    )
    if not found:
        raise JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")
    steps = yield Question(_STEPS.format(schema=schema), (job_id,))
    if not steps and found[0]["kept"]:
        steps = yield Question(_KEPT.format(schema=schema), (found[0]["kept"],))
    return {"job_id": job_id, "state": found[0]["state"], "steps": steps}


def archived_steps(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `about_steps` does from the columns of an archived job."""
    steps = read_json(job.get("steps")) or []
    return {"job_id": job["job_id"], "state": job["state"], "steps": steps}

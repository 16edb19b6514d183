"""Read-only queries about the progress of a batch. See `txqueue.store.inquiries.inquiry`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from txqueue.errors import JobNotFound
from txqueue.model.stored_json import read_json
from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["ENDS", "about_batch", "archived_batch"]

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

"""Queries of jobs by their numbers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Final

from attrs import evolve

from txqueue.model.job import COLUMNS, JSON_COLUMNS, Attempt, Job, State
from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["FINAL", "about_jobs", "about_one_job", "with_attempts"]

FINAL: Final = [state for state in State if state.is_final]
# JSON as text, because Python cannot parse all JSON that PostgreSQL accepts.
_TEXTS: Final = JSON_COLUMNS | {"state"}
_COLUMNS: Final = ", ".join(
    f'"{name}"::text as "{name}"' if name in _TEXTS else f'"{name}"' for name in COLUMNS
)
_ATTEMPTS: Final = """
    select attempt as number, began, at as ended, node_id, error, error_class, log
      from {schema}.failed_attempt as its
     where its.job_id = {job_id} and restarted_by is null
     order by at, attempt"""


def about_jobs(
    schema: str, ids: Sequence[int], states: Iterable[State] = State
) -> Inquiry[list[Job]]:
    """Query the jobs with the given numbers that exist, in no particular order.

    Args:
        schema: The name of the schema.
        ids: The jobs' numbers.
        states: Only jobs in one of these states.
    """
    rows = yield Question(
        f"select {_COLUMNS} from {schema}.job"
        f" where job_id = any(%s::bigint[]) and state = any(%s::{schema}.job_state[])",
        (list(ids), [state.value for state in states]),
    )
    return [Job.from_row(row) for row in rows]


def about_one_job(schema: str, job_id: int) -> Inquiry[Job | None]:
    """Query a job with its failed attempts, the oldest first; None if it does not exist."""
    # As JSON, so that one statement returns the job and its attempts.
    failed = _ATTEMPTS.format(schema=schema, job_id="job.job_id")
    rows = yield Question(
        f"select {_COLUMNS}, case when job.attempt > 0 then array("
        f"select row_to_json(failed)::text from ({failed}) as failed) end as attempts"
        # A statement with the number alone is planned anew each time, for every day of history.
        f" from {schema}.find_job(%s) as job",
        (job_id,),
    )
    for row in rows:
        attempts = tuple(map(_attempt, row.pop("attempts") or ()))
        return evolve(Job.from_row(row), attempts=attempts)
    return None


def _attempt(text: str) -> Attempt:
    values = json.loads(text)
    moments = {name: _moment(values[name]) for name in ("began", "ended")}
    return Attempt(**{**values, **moments})


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def with_attempts(schema: str, job: Job) -> Inquiry[Job]:
    """Query the failed attempts of an archived job, and return the job with them."""
    if not job.attempt:
        return job
    rows = yield Question(_ATTEMPTS.format(schema=schema, job_id="%s"), (job.id,))
    return evolve(job, attempts=tuple(Attempt(**row) for row in rows))

"""Queries of jobs by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from attrs import evolve

from txqueue.model.job import COLUMNS, JSON_COLUMNS, Attempt, Job, State
from txqueue.store.inquiries.inquiry import Inquiry, Question

__all__ = ["FINAL", "about_jobs", "with_attempts"]

FINAL: Final = [state for state in State if state.is_final]
# JSON as text, because Python cannot parse all JSON that PostgreSQL accepts.
_TEXTS: Final = JSON_COLUMNS | {"state"}
_COLUMNS: Final = ", ".join(
    f'"{name}"::text as "{name}"' if name in _TEXTS else f'"{name}"' for name in COLUMNS
)


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


def with_attempts(schema: str, job: Job) -> Inquiry[Job]:
    """Query the failed attempts of a job, the oldest first, and return the job with them."""
    if not job.attempt:
        return job
    rows = yield Question(
        "select attempt as number, began, at as ended, node_id, error, error_class, log"
        f" from {schema}.failed_attempt where job_id = %s and restarted_by is null"
        " order by at, attempt",
        (job.id,),
    )
    return evolve(job, attempts=tuple(Attempt(**row) for row in rows))

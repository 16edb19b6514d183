"""Reads jobs by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txqueue.model.job import COLUMNS, JSON_COLUMNS, Attempt, Job, State
from txqueue.store.connection_pool import ConnectionPool

__all__ = ["read_attempts", "read_jobs"]

# JSON as text, because not all that PostgreSQL takes can be read by Python.
_COLUMNS = ", ".join(f'"{name}"{"::text" * (name in JSON_COLUMNS)}' for name in COLUMNS)


async def read_jobs(
    pool: ConnectionPool, schema: str, ids: Sequence[int], states: Iterable[State] = State
) -> list[Job]:
    """Return the jobs of some numbers, in no particular order; those there are.

    Args:
        pool: Where to ask.
        schema: The name of the schema.
        ids: Their numbers.
        states: Only those in one of these states.
    """
    rows = await pool.query_dicts(
        f"select {_COLUMNS} from {schema}.job"
        f" where job_id = any(%s::bigint[]) and state = any(%s::{schema}.job_state[])",
        (list(ids), [state.value for state in states]),
    )
    return [Job.from_row(row) for row in rows]


async def read_attempts(pool: ConnectionPool, schema: str, job_id: int) -> tuple[Attempt, ...]:
    """Return the failed attempts of a job, the first one first."""
    rows = await pool.query(
        f"select attempt, began, at, node_id, error from {schema}.failed_attempt"
        " where job_id = %s order by at",
        (job_id,),
    )
    return tuple(Attempt(*row) for row in rows)

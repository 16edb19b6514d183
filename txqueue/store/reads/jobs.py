"""Reads jobs by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from txqueue.model.job import COLUMNS, JSON_COLUMNS, Attempt, Job, State
from txqueue.store.driver.connection_pool import ConnectionPool

__all__ = ["read_attempts", "read_jobs"]

# JSON as text, because Python cannot parse all JSON that PostgreSQL accepts.
_COLUMNS = ", ".join(f'"{name}"{"::text" * (name in JSON_COLUMNS)}' for name in COLUMNS)


async def read_jobs(
    pool: ConnectionPool, schema: str, ids: Sequence[int], states: Iterable[State] = State
) -> list[Job]:
    """Return the jobs with the given numbers that exist, in no particular order.

    Args:
        pool: The connections to the database.
        schema: The name of the schema.
        ids: The jobs' numbers.
        states: Only jobs in one of these states.
    """
    rows = await pool.query_dicts(
        f"select {_COLUMNS} from {schema}.job"
        f" where job_id = any(%s::bigint[]) and state = any(%s::{schema}.job_state[])",
        (list(ids), [state.value for state in states]),
    )
    return [Job.from_row(row) for row in rows]


async def read_attempts(pool: ConnectionPool, schema: str, job_id: int) -> tuple[Attempt, ...]:
    """Return the failed attempts of a job, the oldest first."""
    rows = await pool.query(
        "select attempt, began, at, node_id, error, error_class, log"
        f" from {schema}.failed_attempt where job_id = %s and restarted_by is null order by at",
        (job_id,),
    )
    return tuple(Attempt(*row) for row in rows)

"""Read-only queries for the dashboard: changes, charts, and the relations of a job.

See `txqueue.store.queries`.
"""

from __future__ import annotations

from datetime import timedelta

from txqueue.store.queries import Inquiry, Question, Rows

__all__ = ["about_changes", "about_chart", "about_family"]

_FAMILY_TOLD = 20


def about_changes(schema: str) -> Inquiry[tuple[object, ...]]:
    """Query a value that changes soon after a job is enqueued, changes its state, or is acted on.

    It costs one read of statistics that the server keeps anyway.
    """
    rows = yield Question(
        "select coalesce(sum(n_tup_ins + n_tup_del), 0)::bigint as moves,"
        f" (select max(action_id) from {schema}.action) as act,"
        f" (select max(incarnation) from {schema}.node_info) as node"
        " from pg_stat_all_tables where schemaname = %s and relname like %s",
        (schema, "job%"),
    )
    return tuple(rows[0].values())


def about_chart(
    schema: str,
    span: timedelta,
    step: timedelta,
    queue: str | None = None,
    work_type: str | None = None,
) -> Inquiry[Rows]:
    """Query what jobs did in equal steps of time, the oldest first.

    Args:
        schema: The name of the schema.
        span: How far back.
        step: How long a step is.
        queue: Only jobs of this queue.
        work_type: Only jobs of this work type.
    """
    return (
        yield Question(
            f"select * from {schema}.chart(%s, %s, %s, %s)",
            (span.total_seconds(), step.total_seconds(), queue, work_type),
        )
    )


def about_family(schema: str, job_id: int) -> Inquiry[dict[str, Rows]]:
    """Query the jobs that a job waits for, and those that wait for it.

    Returns:
        ``parents`` and ``children``: number, state and work type of each, at most twenty.
    """
    found = {}
    for name, own, other in (("parents", "child", "parent"), ("children", "parent", "child")):
        found[name] = yield Question(
            f"select link.{other} as job_id, its.state::text as state, its.work_type, link.any_end"
            f" from {schema}.job_parent as link, lateral {schema}.find_job(link.{other}) as its"
            f" where link.{own} = %s order by link.{other} limit %s",
            (job_id, _FAMILY_TOLD),
        )
    return found

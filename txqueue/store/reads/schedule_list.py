"""Read-only queries about schedules and their runs, and about worksets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from txqueue.errors import JobNotFound
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask

_FILTERS = {
    "name": "name = %s",
    "work_type": "work_type = %s",
    "group": 'keys."group" = %s',
    "tenant": "keys.tenant = %s",
    "after": "name > %s",
}
_LISTED = """
    name, kind, expression, zone, seconds, jitter, catch_up, until, times,
    schedule.runs as enqueued, coalesce(next_due = 'infinity', false) as has_ended,
    work_type, {schema}.readable_json(job) ->> 'queue' as queue,
    keys."group", keys.tenant, condition_table, condition_column, condition_value, is_declared,
    is_active,
    overlap, counts_from as since,
    not is_declared or work_type = any (array(
        select unnest(work_types) from {schema}.node_info where state in ('alive', 'draining')
    )) as has_class,
    case when isfinite(next_due) then next_due end as next_due, last_due, last_job,
    {schema}.readable_text(error) as error
"""
# The last run of each schedule, and the worst of its last twenty.
_SUMS = """
    (array_agg(outcome order by due desc))[1] as outcome,
    (array_agg(late order by due desc))[1] as late, (array_agg(took order by due desc))[1] as took,
    max(late) as latest, max(took) as slowest,
    count(*) filter (where outcome = 'failed') as failed, count(*) as runs
"""


def about_schedules(schema: str, filters: Mapping[str, object], limit: int) -> Inquiry[Rows]:
    """Query schedules by name: when each is due next, its last run, and sums of its last twenty.

    Args:
        schema: The name of the schema.
        filters: ``name, work_type, group, tenant``, and ``after``, the last name of the
            previous page; a filter that is None is ignored.
        limit: The largest number of schedules.
    """
    values = {key: value for key, value in filters.items() if value is not None}
    where = " and ".join(_FILTERS[key] for key in values) or "true"
    columns = _LISTED.format(schema=schema)
    return ask(
        f"with page as materialized (select {columns} from {schema}.schedule,"
        f" lateral {schema}.scheduled_keys(job) as keys"
        f" where {where} order by name limit %s), sums as (select name, {_SUMS}"
        f" from {schema}.schedule_runs(array(select name from page)) group by name)"
        " select * from page left join sums using (name) order by name",
        (*values.values(), limit),
    )


def about_scheduled_runs(
    schema: str,
    *,
    names: Sequence[str] = (),
    group: str | None = None,
    late: float | None = None,
    took: float | None = None,
    limit: int = 20,
) -> Inquiry[Rows]:
    """Query runs of schedules, the latest first.

    Args:
        schema: The name of the schema.
        names: Only runs of these schedules; all if empty.
        group: Only runs of schedules of this group, of any work type.
        late: Only runs that started at least this many seconds after they were due.
        took: Only runs that took at least this many seconds.
        limit: The largest number of rows.
    """
    return ask(
        f'select run.*, this.work_type, keys."group" from {schema}.schedule_runs(array('
        f"select name from {schema}.schedule where (%s or name = any(%s::text[]))"
        f' and (%s::text is null or ({schema}.scheduled_keys(job))."group" = %s))) as run'
        f" join {schema}.schedule as this using (name),"
        f" lateral {schema}.scheduled_keys(this.job) as keys"
        " where coalesce(late, 0) >= %s and coalesce(took, 0) >= %s"
        " order by due desc, name limit %s",
        (not names, list(names), group, group, late or 0.0, took or 0.0, limit),
    )


# How many worksets are listed at once.
_TOLD = 100


def about_worksets(
    schema: str, work_type: str | None = None, after: str | None = None, limit: int = _TOLD
) -> Inquiry[list[dict[str, Any]]]:
    """Query the progress of the first worksets by name, or of the one of a work type.

    Args:
        schema: The name of the schema.
        work_type: The work type; None for all.
        after: The last name of the previous page; None for the first page.
        limit: The largest number of rows.
    """
    return ask(
        "select name, work_type, source, size, batch, bound, is_started, jobs, running,"
        " done, failed, remaining, done + failed + remaining as total, is_exact"
        f" from {schema}.workset_status"
        " where (%s::text is null or work_type || ':workset' = %s)"
        " and (%s::text is null or name > %s) order by name limit %s",
        (work_type, work_type, after, after, limit),
    )


def workset_of(schema: str, work_type: str) -> Inquiry[dict[str, Any] | None]:
    """Query the progress of a work type's workset; None if it has none."""
    worksets = (
        (yield from about_worksets(schema, work_type)) if work_type.endswith(":workset") else []
    )
    return next(iter(worksets), None)


def about_workset_failures(schema: str, name: str, limit: int) -> Inquiry[list[dict[str, Any]]]:
    """Query the failed items of a workset, the latest first.

    Args:
        schema: The name of the schema.
        name: The workset's name.
        limit: The largest number of rows.

    Raises:
        JobNotFound: When there is no such workset.
    """
    if not (yield Question(f"select from {schema}.workset where name = %s", (name,))):
        raise JobNotFound(f"there is no workset {name}", "see: txqueue worksets")
    return (
        yield Question(
            f"select key, origin as part, attempt, {schema}.readable_text(error) as error, at"
            f" from {schema}.workset_failed join {schema}.workset using (workset_id)"
            " where name = %s order by at desc, key limit %s",
            (name, limit),
        )
    )

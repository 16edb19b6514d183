"""Read-only queries about schedules and their runs; see `txqueue.store.reads.queue_state`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows

__all__ = ["about_scheduled_runs", "about_schedules"]

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
    return (
        yield Question(
            f"with page as materialized (select {columns} from {schema}.schedule,"
            f" lateral {schema}.scheduled_keys(job) as keys"
            f" where {where} order by name limit %s), sums as (select name, {_SUMS}"
            f" from {schema}.schedule_runs(array(select name from page)) group by name)"
            " select * from page left join sums using (name) order by name",
            (*values.values(), limit),
        )
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
    return (
        yield Question(
            f'select run.*, this.work_type, keys."group" from {schema}.schedule_runs(array('
            f"select name from {schema}.schedule where (%s or name = any(%s::text[]))"
            f' and (%s::text is null or ({schema}.scheduled_keys(job))."group" = %s))) as run'
            f" join {schema}.schedule as this using (name),"
            f" lateral {schema}.scheduled_keys(this.job) as keys"
            " where coalesce(late, 0) >= %s and coalesce(took, 0) >= %s"
            " order by due desc, name limit %s",
            (not names, list(names), group, group, late or 0.0, took or 0.0, limit),
        )
    )

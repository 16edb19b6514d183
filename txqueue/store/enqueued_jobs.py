"""Finds jobs by their payloads over a connection of the application, for tests."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from attrs import Factory, frozen

from txqueue.model.job import COLUMNS, JSON_COLUMNS, Job, State
from txqueue.store.enqueueing.portable_calls import ParamStyle, Statement, text_statement

__all__ = ["LIVE", "TIMES", "JobSearch", "find_jobs", "found_jobs", "last_number"]

LIVE: Final = (State.WAITING, State.READY, State.ASSIGNED)
"""The states of jobs that have not ended."""

TIMES: Final = frozenset(
    {
        "rank",
        "not_before",
        "not_after",
        "enqueued_at",
        "assigned_at",
        "started_at",
        "finished_at",
    }
)
"""The columns of a job that are moments."""

_COLUMNS: Final = ", ".join(f'job."{name}"{"::text" * (name in JSON_COLUMNS)}' for name in COLUMNS)
# What the payload leaves out is the field's default, for a class that omits those.
_FIND: Final = f"""
    select coalesce(json_agg(found order by found.job_id), '[]')::text
      from (select {_COLUMNS}, (job.options -> 'tags')::text as tags
              from {{schema}}.job as job, (select %s::jsonb as wanted) as search
             where job.state in (STATES) and job.job_id > (wanted ->> 'since')::bigint
               and (wanted -> 'work_type' in ('null', to_jsonb(job.work_type)))
               and (wanted -> 'is_own' = 'false' or job.enqueued_at = now())
               and (job.options -> 'tags' @> (wanted -> 'tags') or wanted -> 'tags' = '{{}}')
               and not exists (
                     select from jsonb_each(wanted -> 'columns') as column_ (name, value)
                      where to_jsonb(job) -> name is distinct from value)
               and not exists (
                     select from jsonb_each_text(wanted -> 'times') as time_ (name, value)
                      where (to_jsonb(job) ->> name)::timestamptz
                            is distinct from value::timestamptz)
               and not exists (
                     select from jsonb_each(wanted -> 'fields') as field_ (name, value)
                      where (wanted -> 'defaults' || job.payload) -> name is distinct from value)
           ) as found"""
_LAST: Final = "select coalesce(pg_sequence_last_value('{schema}.job_id'), 0)::text"


@frozen
class JobSearch:
    """Which jobs to find: those that have all of this.

    Attributes:
        work_type: The work type; None for any.
        states: The states.
        since: Only jobs with larger numbers.
        columns: Values of columns that are texts or numbers.
        times: Moments in columns, as ISO texts.
        tags: Tags among others.
        fields: Values of the payload, as JSON has them.
        defaults: The values of fields that a payload may leave out.
        is_own: Whether only jobs that the connection's transaction has enqueued.
    """

    work_type: str | None = None
    states: Iterable[State] = LIVE
    since: int = 0
    columns: Mapping[str, Any] = Factory(dict)
    times: Mapping[str, str | None] = Factory(dict)
    tags: Mapping[str, str] = Factory(dict)
    fields: Mapping[str, Any] = Factory(dict)
    defaults: Mapping[str, Any] = Factory(dict)
    is_own: bool = False

    def as_json(self) -> str:
        """Return the search as the statement takes it."""
        names = ("work_type", "since", "columns", "times", "tags", "fields", "defaults", "is_own")
        return json.dumps({name: getattr(self, name) for name in names})


def find_jobs(search: JobSearch, schema: str, style: ParamStyle) -> Statement:
    """Return the statement that finds jobs; its value is a text for `found_jobs`."""
    # As text: the planner reads only the partitions of these states.
    states = ", ".join(f"'{State(state).value}'" for state in search.states)
    return text_statement(_FIND.replace("STATES", states), schema, style, search.as_json())


def last_number(schema: str, style: ParamStyle) -> Statement:
    """Return the statement for the largest number that a job has."""
    return text_statement(_LAST, schema, style)


def found_jobs(text: str) -> list[tuple[Job, Mapping[str, str]]]:
    """Return the jobs that the statement of `find_jobs` has found, with their tags."""
    return [(Job.from_row(_row(row)), json.loads(row["tags"] or "{}")) for row in json.loads(text)]


def _row(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, **{name: _moment(row[name]) for name in TIMES}}


def _moment(text: str | None) -> datetime | None:
    if text is None:
        return None
    if text in ("infinity", "-infinity"):
        limit = datetime.min if text.startswith("-") else datetime.max
        return limit.replace(tzinfo=UTC)
    return datetime.fromisoformat(text)

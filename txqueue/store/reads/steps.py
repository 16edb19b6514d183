"""Read-only queries about the steps of a job and its signals, and about its relations: the jobs
that it waits for, by state, and those that wait for it.

See `txqueue.store.inquiries.inquiry`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Final

from txqueue.errors import JobNotFound
from txqueue.model.storable import read_json
from txqueue.policy.findings.status import hidden_values
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask, together

_MOST_SIGNALS: Final = 100
_MOST_NAMES: Final = 3

IS_AT_STEP: Final = """(job.state = 'waiting' and job.waiting_for in ('signal', 'time', 'parents')
    and job.fingerprint is null)"""
"""Whether a job may wait at one of its steps: with a fingerprint it waits for a retry."""

WAITS: Final = """{schema}.job_step as step
     where step.job_id = job.job_id and step.ended_at is null
       and (step.until > clock_timestamp()) is not false"""
"""The steps at which such a job waits."""

WAIT: Final = f"""
    case when {IS_AT_STEP} then (
        select jsonb_build_object(
                   'step', step.name, 'kind', step.kind, 'signal', step.signal,
                   'child', step.child, 'since', step.began_at, 'until', step.until)
          from {WAITS} order by step.number limit 1) end as wait"""
"""The column that says at which step a job waits, and for what."""

_MOMENTS: Final = ("since", "until")
_NO_CHILD: Final = {"child_type": None, "child_state": None}
_HIDES: Final = """{schema}.readable_json(job.options)::text as options, kind.policy
      from {schema}.job as job
      left join {schema}.work_type as kind on kind.work_type = job.work_type"""
_STEPS: Final = """
    select name, kind, result, error, signal, annotation, child, until, began_at, ended_at
      from (select * from {schema}.job_step where job_id = %s
             order by ended_at is null desc, number desc limit %s) as latest
     order by number"""
_SIGNALS: Final = """
    select name, key, {schema}.readable_json(value) as value, sent_at
      from {schema}.job_signal where job_id = %s and taken_at is null order by number limit %s"""
_KEPT: Final = """
    select its.* from jsonb_array_elements({schema}.readable_json(%s::jsonb))
      with ordinality as each (step, place),
      jsonb_to_record(step) as its (
        name text, kind text, result jsonb, error text, signal text, child bigint,
        until timestamptz, began_at timestamptz, ended_at timestamptz)
     order by place"""


def with_wait(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a job with the moments of its column `WAIT` read."""
    wait = row["wait"]
    if wait is None:
        return dict(row)
    moments = {name: wait[name] and datetime.fromisoformat(wait[name]) for name in _MOMENTS}
    return {**row, "wait": {**wait, **moments}}


def about_steps(schema: str, job_id: int, most: int | None = None) -> Inquiry[dict[str, Any]]:
    """Query the steps of a job, in the order in which they began, and signals not taken yet.

    Args:
        schema: The name of the schema.
        job_id: The number of the job.
        most: The most steps: those at which the job waits, and the latest; None for all.

    Raises:
        JobNotFound: When there is no such job.
    """
    found = yield Question(
        f"select job.state::text as state, job.steps::text as kept, {_HIDES.format(schema=schema)}"
        " where job.job_id = %s",
        (job_id,),
    )
    if not found:
        raise JobNotFound(f"there is no job {job_id}", "check the number; old history is dropped")
    steps = yield Question(_STEPS.format(schema=schema), (job_id, most))
    if not steps and found[0]["kept"]:
        steps = yield Question(_KEPT.format(schema=schema), (found[0]["kept"],))
        steps = steps if most is None else steps[-most:]
    hidden = _hidden(found[0])
    steps = yield from _shown(schema, steps, hidden)
    signals = yield Question(_SIGNALS.format(schema=schema), (job_id, _MOST_SIGNALS))
    return {
        "job_id": job_id,
        "state": found[0]["state"],
        "steps": steps,
        "signals": [_without(signal, hidden, "value") for signal in signals],
    }


def about_awaited(schema: str, job_id: int) -> Inquiry[dict[str, str | None]]:
    """Query the signals that a job awaits at its steps, and the annotation of the first wait."""
    rows = yield Question(
        f"select step.signal, step.annotation from {schema}.job, {WAITS.format(schema=schema)}"
        f" and {IS_AT_STEP} and job.job_id = %s and step.signal is not null order by step.number"
        f" limit {_MOST_SIGNALS}",
        (job_id,),
    )
    return {row["signal"]: row["annotation"] for row in reversed(rows)}


def unawaited(name: str, awaited: Collection[str]) -> str:
    """Return a warning about a signal that a job which waits for others keeps; empty for none."""
    if not awaited or name in awaited:
        return ""
    names = ", ".join(map(repr, islice(awaited, _MOST_NAMES)))
    return f"It does not wait for that, but for {names}: check the name; the signal is kept."


def about_archived_steps(schema: str, job: Mapping[str, Any]) -> Inquiry[dict[str, Any]]:
    """Query for an archived job what `about_steps` queries for another one.

    Args:
        schema: The name of the schema.
        job: The job's columns in the archive.
    """
    [kind] = yield Question(
        f"select (select policy from {schema}.work_type where work_type = %s) as policy",
        (job.get("work_type"),),
    )
    hidden = _hidden({**kind, "options": job.get("options")})
    steps = yield from _shown(schema, read_json(job.get("steps")) or [], hidden)
    return {"job_id": job["job_id"], "state": job["state"], "steps": steps, "signals": []}


def about_holder(schema: str, work_type: str, key: str) -> Inquiry[int]:
    """Query for the job that holds a unique key.

    Raises:
        JobNotFound: When none does.
    """
    rows = yield Question(
        f"select job_id from {schema}.unique_job where work_type = %s and key = %s",
        (work_type, key),
    )
    if not rows:
        raise JobNotFound(
            f"no job of {work_type} that has not ended holds the unique key {key}",
            "check both, or name the job by its number",
        )
    return int(rows[0]["job_id"])


def _shown(
    schema: str, steps: Sequence[Mapping[str, Any]], hidden: str | None
) -> Inquiry[list[dict[str, Any]]]:
    """Add the types and states of called jobs, and replace values that are not to be shown."""
    children = [step["child"] for step in steps if step.get("child")]
    found: Sequence[Mapping[str, Any]] = ()
    if children:
        found = yield Question(
            "select job.job_id, job.work_type, job.state::text as state,"
            f" {_HIDES.format(schema=schema)} where job.job_id = any (%s)",
            (children,),
        )
    # The type of a child that is gone is unknown, so its result is not shown.
    of_children = dict.fromkeys(children, hidden or "redacted")
    of_children |= {row["job_id"]: hidden or _hidden(row) for row in found}
    known = {
        row["job_id"]: {"child_type": row["work_type"], "child_state": row["state"]}
        for row in found
    }
    return [
        _without(
            {**step, **known.get(step.get("child"), _NO_CHILD)},
            of_children.get(step.get("child"), hidden),
            "result",
            "error",
        )
        for step in steps
    ]


def _without(row: Mapping[str, Any], hidden: str | None, *names: str) -> dict[str, Any]:
    """Return a row with the reason in place of each value, if there is a reason to hide it."""
    its = [name for name in names if hidden and row.get(name) is not None]
    return {**row, **dict.fromkeys(its, hidden)}


def _hidden(row: Mapping[str, Any]) -> str | None:
    """Return why the values of a job are not to be shown, if so."""
    reason: str | None = hidden_values(row["policy"], read_json(row["options"]), None).get("result")
    return reason


STATES: Final = ("failed", "cancelled", "assigned", "ready", "waiting", "done")
"""The states of jobs, those that an operator looks at first."""

# How many parents are returned if there are no more; else some of each state. How many children.
_ALL_SHOWN, _OF_A_STATE, _CHILDREN_SHOWN = 10, 2, 6
_COUNTS: Final = f"count(*) as jobs, (array_agg({{id}} order by {{id}}))[:{_ALL_SHOWN}] as ids"
# The ends of parents are kept with the link; those without are in few partitions.
_ENDED: Final = f"""
    select ended as state, {_COUNTS.format(id="parent")} from {{schema}}.job_parent
     where child = %s and ended is not null group by 1"""
_LIVE: Final = f"""
    select state::text as state, {_COUNTS.format(id="job_id")} from {{schema}}.job
     where job_id = any (array(
               select parent from {{schema}}.job_parent where child = %s and ended is null))
       and state in ('waiting', 'ready', 'assigned') group by 1"""
_NAMED: Final = f"""
    select state::text as state, {_COUNTS.format(id="job_id")} from {{schema}}.job
     where job_id = any (%s::bigint[]) group by 1"""
_LIFE: Final = """its.job_id, its.state::text as state, its.work_type, its.enqueued_at,
    its.assigned_at, its.started_at, its.finished_at"""
_FOUND: Final = f"""
    select {_LIFE} from unnest(%s::bigint[]) with ordinality as each (id, place),
           lateral {{schema}}.find_job(id) as its order by place"""
_CHILDREN: Final = f"""
    select {_LIFE}, link.jobs
      from (select child, count(*) over () as jobs from {{schema}}.job_parent
             where parent = %s order by child limit {_CHILDREN_SHOWN}) as link,
           lateral {{schema}}.find_job(link.child) as its"""


def about_relatives(schema: str, job_id: int, after: object = None) -> Inquiry[dict[str, Any]]:
    """Query the jobs that a job waits for or waited for, and those that wait for it.

    Args:
        schema: The name of the schema.
        job_id: The job's number.
        after: The numbers of its parents as its options name them, by which they are found once it
            has ended.

    Returns:
        ``counts``, how many parents each state has; ``parents`` and ``children``, the first of
        them: all parents if they are few, else the first of each state; ``child_count``.
    """
    ended, live, children = yield from together(
        *(ask(sql.format(schema=schema), (job_id,)) for sql in (_ENDED, _LIVE, _CHILDREN))
    )
    by_state = [*ended, *live]
    if not by_state and isinstance(after, list):
        by_state = yield Question(_NAMED.format(schema=schema), (after,))
    parents: Rows = []
    if by_state:
        parents = yield Question(_FOUND.format(schema=schema), (list(_first(by_state)),))
    return {
        "counts": {row["state"]: row["jobs"] for row in sorted(by_state, key=_place)},
        "parents": parents,
        "children": children,
        "child_count": children[0]["jobs"] if children else 0,
    }


def _first(by_state: Sequence[Mapping[str, Any]]) -> Iterator[int]:
    """Yield the numbers of the jobs that are returned."""
    is_few = sum(row["jobs"] for row in by_state) <= _ALL_SHOWN
    for row in sorted(by_state, key=_place):
        yield from row["ids"][: _ALL_SHOWN if is_few else _OF_A_STATE]


def _place(row: Mapping[str, Any]) -> int:
    return STATES.index(row["state"])

"""Read-only queries about the relations of a job: the jobs that it waits for, by state, and those
that wait for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask, together

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

"""Read-only queries of the list of jobs: the conditions of filters, pages, and the names that a
filter may have meant.

Filters are a mapping by name. Those of columns, and the texts ``error``, ``waiting_for``,
``since``, ``until``, ``updated_since`` and ``batch``, have one value each; ``tag`` and ``payload``
have lists of texts, of which all must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Final

from attrs import evolve, frozen

from txqueue.errors import ConfigurationError
from txqueue.model.job_filters import (
    check_storable,
    read_payload_filter,
    read_tag_filter,
    read_time,
    read_wait_filter,
)
from txqueue.model.operator_acts import ACTS, Act
from txqueue.store.inquiries.inquiry import Inquiry, Question, Rows, ask, together
from txqueue.store.reads.queue_state import about_clock
from txqueue.store.reads.steps import IS_AT_STEP, WAIT, WAITS, with_wait

SEARCHED = ("tag", "payload", "error", "since", "until", "updated_since", "waiting_for")
"""The filters that no index serves: each page looks at a limited number of jobs."""

_COLUMNS = {
    "state": "job.state = %s::{schema}.job_state",
    "queue": "job.queue = %s",
    "work_type": "job.work_type = %s",
    "group": 'job."group" = %s',
    "tenant": "job.tenant = %s",
    "node": "job.node_id = (select node_id from {schema}.node_info where name = %s)",
    "fingerprint": "job.fingerprint = %s",
    "failed_by": "job.failed_at <= %s",
    "after": "job.job_id < %s",
    "beyond": "job.job_id > %s",
    "from_job": "job.job_id >= %s",
    "to_job": "job.job_id <= %s",
    "running_for": (
        "job.state = 'assigned' and job.started_at <= clock_timestamp() - make_interval(secs => %s)"
    ),
}
# The jobs that a callback waits for, or that its options name once it does not.
_MEMBERS = """job.job_id = any (array(
    select member.id from (select %s::bigint) as given (callback), lateral (
        select parent from {schema}.job_parent where child = callback
         union all
        select named::bigint from {schema}.find_job(callback) as its,
               lateral (select {schema}.readable_json(its.options) -> 'after') as kept (ids),
               jsonb_array_elements_text(
                   case jsonb_typeof(ids) when 'array' then ids else '[]' end) as named
    ) as member (id)))"""
_NO_ACT = Act("", (), ())
# Types and jobs whose payload no operator may see, or learn of by a filter.
_VISIBLE = (
    "job.work_type <> all(array(select work_type from {schema}.work_type"
    """ where policy @> '{{"redacted": true}}' or policy @> '{{"encrypted": true}}'))"""
    """ and coalesce(not {schema}.readable_json(job.options) @> '{{"redacted": true}}', true)"""
    " and coalesce(not {schema}.readable_json(job.options) ? 'txqueue cannot read this', true)"
)


@frozen
class _Condition:
    """A condition: of `value` if it is about a column whose value may be damaged."""

    sql: str
    parameters: Sequence[object]
    column: str | None = None


def is_search(filters: Mapping[str, object]) -> bool:
    """Tell whether a filter is given that no index serves."""
    return any(_texts(filters, name) for name in SEARCHED)


def job_conditions(schema: str, filters: Mapping[str, object]) -> tuple[str, tuple[object, ...]]:
    """Return the ``where`` of filters of jobs, and its parameters.

    Args:
        schema: The name of the schema.
        filters: The filters by name; one that is None, or an empty list, is ignored.

    Raises:
        ConfigurationError: When a filter is not valid.
        KeyError: When there is no filter of that name.
    """
    # The cheap ones come first: the server evaluates them in this order.
    conditions = [*_of_columns(filters), *_of_contents(filters)]
    where = " and ".join(["where true", *(condition.sql for condition in conditions)])
    return where.format(schema=schema), tuple(
        parameter for condition in conditions for parameter in condition.parameters
    )


def state_in(filters: Mapping[str, object]) -> object:
    """Return the state that filters ask for; None if they ask for none."""
    state = filters.get("state")
    return "waiting" if state is None and filters.get("waiting_for") is not None else state


def _of_act(name: object, state: object) -> Iterator[_Condition]:
    """Yield the conditions of the jobs that an act on all that match changes."""
    act = ACTS.get(str(name), _NO_ACT)
    if state is None:
        yield _Condition("job.state = any(%s::{schema}.job_state[])", (list(act.of_all),))
    elif state not in act.states:
        raise ConfigurationError(
            f"{name} changes no {state} jobs", f"choose one of: {', '.join(act.states)}"
        )
    if act.only:
        yield _Condition(act.only, ())


def _of_columns(filters: Mapping[str, object]) -> Iterator[_Condition]:
    for name, value in filters.items():
        if value is not None and name == "act":
            yield from _of_act(value, state_in(filters))
        elif value is not None and name not in _MAKERS:
            parameter = check_storable(value) if isinstance(value, str) else value
            yield _Condition(_COLUMNS[name], (parameter,))


def _of_contents(filters: Mapping[str, object]) -> Iterator[_Condition]:
    for name, make in _MAKERS.items():
        for text in _texts(filters, name):
            condition = make(text)
            yield evolve(condition, sql=_guarded(condition))


def _guarded(condition: _Condition) -> str:
    """Return a condition that a damaged value does not fulfil."""
    if condition.column is None:
        return condition.sql
    kind = "text" if condition.column == "error" else "json"
    # The function is called once for each job.
    value = f"select {{schema}}.readable_{kind}(job.{condition.column}) as value offset 0"
    matching = f"(select {condition.sql} from ({value}) as its)"
    return f"({_VISIBLE} and {matching})" if condition.column == "payload" else matching


def _texts(filters: Mapping[str, Any], name: str) -> Sequence[str]:
    """Return the texts of a filter. An empty one counts: an act must not change more for it."""
    texts = filters.get(name)
    return [texts] if isinstance(texts, str) else texts or ()


def _tagged(text: str) -> _Condition:
    tag = read_tag_filter(text)
    if tag.value is None:
        return _Condition("value -> 'tags' ? %s::text", (tag.name,), "options")
    return _Condition("value -> 'tags' ->> %s::text = %s", (tag.name, tag.value), "options")


def _of_batch(text: str) -> _Condition:
    if not text.isdecimal() or len(text) > 18:
        raise ConfigurationError("a batch is named by a number", "write that of its callback")
    return _Condition(_MEMBERS, (text,))


def _with_payload(text: str) -> _Condition:
    payload = read_payload_filter(text)
    condition = "(value ->> %s::text = %s or value -> %s::text = %s::jsonb)"
    parameters = (payload.key, payload.text, payload.key, payload.json)
    return _Condition(condition, parameters, "payload")


def _with_error(text: str) -> _Condition:
    return _Condition("strpos(lower(value), lower(%s)) > 0", (check_storable(text),), "error")


def _waiting_for(text: str) -> _Condition:
    wait = read_wait_filter(text)
    if not wait.is_step:
        is_other = f"not ({IS_AT_STEP} and exists (select from {WAITS}))"
        sql = f"job.state = 'waiting' and job.waiting_for = %s and {is_other}"
        return _Condition(sql, (wait.reason,))
    is_it = "step.kind = %s and (step.signal = %s) is not false"
    return _Condition(
        f"{IS_AT_STEP} and exists (select from {WAITS} and {is_it})", (wait.reason, wait.signal)
    )


def _at_moment(compared: str, text: str) -> _Condition:
    moment = read_time(text)
    bound = "%s" if isinstance(moment, datetime) else "now() - %s"
    return _Condition(f"{compared} {bound}", (moment,))


_MAKERS: Mapping[str, Callable[[str], _Condition]] = {
    "batch": _of_batch,
    "waiting_for": _waiting_for,
    "since": partial(_at_moment, "job.enqueued_at >="),
    "until": partial(_at_moment, "job.enqueued_at <"),
    "updated_since": partial(_at_moment, "{schema}.updated_at(job) >="),
    "tag": _tagged,
    "payload": _with_payload,
    "error": _with_error,
}


LISTED = """
    job.job_id, job.state::text as state, job.waiting_for, job.work_type, job.queue, job.priority,
    job.weight, job."group", job.tenant, job.attempt, job.deaths, job.node_id, node.name as node,
    job.not_before, job.not_after, job.rank, job.enqueued_at, job.assigned_at, job.started_at,
    job.finished_at, {schema}.readable_json(job.options) -> 'tags' as tags
"""
"""The columns of a job in a list."""

LOOKED_AT = 20_000
"""How many jobs one page looks at, the newest first: a rare filter would else read all history."""


@frozen
class FoundJobs:
    """A page of jobs, the newest first.

    Attributes:
        jobs: The jobs.
        at: The time by the database's clock.
        next: The number after which the next page begins; None if there are no more jobs.
        searched: How many jobs were looked at, if the page ends because of that; None otherwise.
    """

    jobs: Rows
    at: datetime
    next: int | None
    searched: int | None


def about_jobs(
    schema: str, filters: Mapping[str, object], limit: int
) -> Inquiry[tuple[list[dict[str, Any]], datetime]]:
    """Query jobs without payloads, the newest first, and the database's time.

    Args:
        schema: The name of the schema.
        filters: ``state, queue, work_type, group, tenant, node``; ``tag, payload, error, since,
            until, waiting_for`` as people type them; ``after``, the last job number of the previous
            page, or in its place ``beyond``, for the oldest jobs first; ``act``, for those jobs
            that this act on all that match changes; and
            ``running_for``, the least run time in seconds, with which the longest-running jobs come
            first. A filter that is None is ignored.
        limit: The largest number of rows.
    """
    where, values = job_conditions(schema, filters)
    is_by_time = filters.get("running_for") is not None
    order = "job.started_at, job.job_id" if is_by_time else _order(filters)
    page = ask(
        f"select {LISTED.format(schema=schema)}, {schema}.find_damage(job.options) as damage,"
        f" {WAIT.format(schema=schema)}"
        f" from {schema}.job as job"
        f" left join {schema}.node_info as node on node.node_id = job.node_id"
        f" {where} order by {order} limit %s",
        (*values, limit),
    )
    rows, now = yield from together(page, about_clock())
    return [with_wait(row) for row in rows], now


def about_found(
    schema: str, filters: Mapping[str, object], limit: int, *, is_bounded: bool
) -> Inquiry[FoundJobs]:
    """Query a page of jobs.

    Args:
        schema: The name of the schema.
        filters: As for `about_jobs`.
        limit: The largest number of jobs.
        is_bounded: Whether the page looks at `LOOKED_AT` jobs at most, whatever the filters; with a
            filter that no index serves it always does.
    """
    is_by_time = filters.get("running_for") is not None
    is_cut = (is_bounded or is_search(filters)) and not is_by_time
    depth = (yield from _depth(schema, filters)) if is_cut else 0
    # The jobs after the last one that is looked at are left out.
    bounded = {**filters, "to_job" if "beyond" in filters else "from_job": depth or None}
    rows, now = yield from about_jobs(schema, bounded, limit + 1)
    if len(rows) > limit:
        # With `running_for` the list is not ordered by number, so that there is no next page.
        return FoundJobs(rows[:limit], now, None if is_by_time else rows[limit - 1]["job_id"], None)
    return FoundJobs(rows, now, depth or None, LOOKED_AT if depth else None)


def about_matching(
    schema: str, filters: Mapping[str, object], most: int
) -> Inquiry[dict[str, int]]:
    """Query how many jobs of each state match filters, as `about_jobs` takes them.

    Args:
        schema: The name of the schema.
        filters: The filters.
        most: The number at which the count stops.
    """
    where, values = job_conditions(schema, filters)
    rows = yield Question(
        "select state::text as state, count(*) as jobs from ("
        f"select job.state from {schema}.job as job {where} limit %s) as found"
        " group by state order by state",
        (*values, most),
    )
    return {row["state"]: row["jobs"] for row in rows}


def about_bound(schema: str, filters: Mapping[str, object]) -> Inquiry[int | None]:
    """Query which jobs an act on all that match looks at.

    Returns:
        The number of the oldest of the newest `LOOKED_AT` jobs, if no index serves a filter and
        there are older ones; None to look at all jobs.
    """
    return ((yield from _depth(schema, filters)) or None) if is_search(filters) else None


def _depth(schema: str, filters: Mapping[str, object]) -> Inquiry[int]:
    """Query the number of the last of the first `LOOKED_AT` jobs; 0 if there are no more."""
    names, order = ("act", "after", "beyond"), _order(filters)
    bounds = {"state": state_in(filters), **{name: filters.get(name) for name in names}}
    where, values = job_conditions(schema, bounds)
    rows = yield Question(
        "select job_id as last from ("
        f"select job.job_id from {schema}.job as job {where} order by {order} limit %s)"
        f" as job order by {order} offset %s",
        (*values, LOOKED_AT, LOOKED_AT - 1),
    )
    return int(rows[0]["last"]) if rows else 0


def _order(filters: Mapping[str, object]) -> str:
    return "job.job_id" if "beyond" in filters else "job.job_id desc"


MOST_KNOWN: Final = 1000
"""How many names of a kind are read."""

_STATES: Final = ("ready", "waiting", "assigned", "failed")
# The first of each, and whether the given name is among the rest.
_OF_JOBS: Final = " union ".join(
    part.replace("{state}", state)
    for state in _STATES
    for part in (
        '(select "{column}" from {schema}.job_{state} limit 20000)',
        '(select "{column}" from {schema}.job_{state}'
        ' where "{column}" = (select name from given) limit 1)',
    )
)
_CONTROLLED: Final = "select key from {schema}.control where kind = '{column}'"
_TYPES: Final = "select {column} from {schema}.work_type"
_SOURCES: Final[Mapping[str, Sequence[str]]] = {
    "queue": (_OF_JOBS, "select unnest(queues) from {schema}.node_info", _TYPES, _CONTROLLED),
    "work_type": (_OF_JOBS, _TYPES),
    "group": (_OF_JOBS, _CONTROLLED),
    "tenant": (_OF_JOBS, _CONTROLLED),
    "node": ("select name from {schema}.node_info",),
}
# Those that begin as the given name does come before others, where there are too many.
_KNOWN: Final = """
    with given as (select %s::text as name), known (name) as ({sources})
    select known.name from known, given where known.name is not null
     order by known.name = given.name desc, starts_with(known.name, left(given.name, 3)) desc, 1
     limit {most}
"""
_BOUND: Final = "set local statement_timeout = 2000; "


def about_known_names(schema: str, kind: str, given: str) -> Inquiry[list[str]]:
    """Query the names that live jobs, nodes and limits have: the given one first, if it is one.

    Args:
        schema: The name of the schema.
        kind: ``queue, work_type, group, tenant`` or ``node``.
        given: The name that a filter has.
    """
    sources = " union ".join(_SOURCES[kind]).format(schema=schema, column=kind)
    rows = yield Question(_BOUND + _KNOWN.format(sources=sources, most=MOST_KNOWN), (given,))
    return [row["name"] for row in rows]

"""The conditions of filters of jobs: one place for the command line, nodes and the dashboard.

Filters are a mapping by name. Those of columns, and the texts ``error``, ``waiting_for``,
``since``, ``until`` and ``updated_since``, have one value each; ``tag`` and ``payload`` have lists
of texts, of which all must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

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
from txqueue.store.reads.steps import IS_AT_STEP, WAITS

__all__ = ["SEARCHED", "damage_read_by", "is_search", "job_conditions", "state_in"]

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
    "from_job": "job.job_id >= %s",
    "running_for": (
        "job.state = 'assigned' and job.started_at <= clock_timestamp() - make_interval(secs => %s)"
    ),
}
_NO_ACT = Act((), ())
# Of those that wait, a retry of all that match starts none before its time but for a retry.
_IS_RETRIED = "(job.state <> 'waiting' or job.waiting_for = 'time' and job.attempt > 0)"
# Types and jobs whose payload no operator may see, or learn of by a filter.
_VISIBLE = (
    "job.work_type <> all(array(select work_type from {schema}.work_type"
    """ where policy @> '{{"redacted": true}}' or policy @> '{{"encrypted": true}}'))"""
    """ and coalesce(not {schema}.readable_json(job.options) @> '{{"redacted": true}}', true)"""
    " and coalesce(not {schema}.readable_json(job.options) ? 'txqueue cannot read this', true)"
)
# Of which columns the filters of contents read a value, and how that is seen to be damaged.
_READ = {"tag": ("options",), "payload": ("payload", "options"), "error": ("error",)}
_IS_DAMAGED = {
    "json": "value ? 'txqueue cannot read this'",
    "text": "value like 'txqueue cannot read this: %%'",
}
_HAS_LOST_OPTIONS = (
    "coalesce({schema}.readable_json(job.options) ? 'txqueue cannot read this', false)"
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


def job_conditions(
    schema: str, filters: Mapping[str, object], *, is_shown: bool = False
) -> tuple[str, tuple[object, ...]]:
    """Return the ``where`` of filters of jobs, and its parameters.

    Args:
        schema: The name of the schema.
        filters: The filters by name; one that is None, or an empty list, is ignored.
        is_shown: Whether a job matches, too, of which a filter cannot read what it looks at because
            the row is damaged: a list shows it, an act leaves it alone.

    Raises:
        ConfigurationError: When a filter is not valid.
        KeyError: When there is no filter of that name.
    """
    # The cheap ones come first: the server evaluates them in this order.
    conditions = [*_of_columns(filters), *_of_contents(filters, is_shown=is_shown)]
    # A negative number is that of a remnant of a damaged row.
    where = " and ".join(["where job.job_id > 0", *(condition.sql for condition in conditions)])
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
    if name == "retry":
        yield _Condition(_IS_RETRIED, ())


def _of_columns(filters: Mapping[str, object]) -> Iterator[_Condition]:
    for name, value in filters.items():
        if value is not None and name == "act":
            yield from _of_act(value, state_in(filters))
        elif value is not None and name not in _MAKERS:
            parameter = check_storable(value) if isinstance(value, str) else value
            yield _Condition(_COLUMNS[name], (parameter,))


def _of_contents(filters: Mapping[str, object], *, is_shown: bool) -> Iterator[_Condition]:
    for name, make in _MAKERS.items():
        for text in _texts(filters, name):
            condition = make(text)
            yield evolve(condition, sql=_guarded(condition, is_shown=is_shown))


def _guarded(condition: _Condition, *, is_shown: bool) -> str:
    """Return a condition that a damaged value does not fulfil, or does if it is to be shown."""
    if condition.column is None:
        return condition.sql
    kind = "text" if condition.column == "error" else "json"
    sql = f"{condition.sql} or {_IS_DAMAGED[kind]}" if is_shown else condition.sql
    # The function is called once for each job.
    value = f"select {{schema}}.readable_{kind}(job.{condition.column}) as value offset 0"
    matching = f"(select {sql} from ({value}) as its)"
    if condition.column != "payload":
        return matching
    return f"({_VISIBLE} and {matching}{f' or {_HAS_LOST_OPTIONS}' * is_shown})"


def damage_read_by(schema: str, filters: Mapping[str, object]) -> str:
    """Return the expression for the damage that a list shows: of its columns and its filters."""
    columns = {
        "options",
        *(column for name in _READ if _texts(filters, name) for column in _READ[name]),
    }
    arguments = ", ".join(f"{column} => job.{column}" for column in sorted(columns))
    return f"{schema}.find_damage({arguments})"


def _texts(filters: Mapping[str, Any], name: str) -> Sequence[str]:
    """Return the texts of a filter. An empty one counts: an act must not change more for it."""
    texts = filters.get(name)
    return [texts] if isinstance(texts, str) else texts or ()


def _tagged(text: str) -> _Condition:
    tag = read_tag_filter(text)
    if tag.value is None:
        return _Condition("value -> 'tags' ? %s::text", (tag.name,), "options")
    return _Condition("value -> 'tags' ->> %s::text = %s", (tag.name, tag.value), "options")


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


def _since(text: str) -> _Condition:
    return _at_moment("job.enqueued_at >=", text)


def _until(text: str) -> _Condition:
    return _at_moment("job.enqueued_at <", text)


def _updated_since(text: str) -> _Condition:
    return _at_moment("{schema}.updated_at(job) >=", text)


def _at_moment(compared: str, text: str) -> _Condition:
    moment = read_time(text)
    bound = "%s" if isinstance(moment, datetime) else "now() - %s"
    return _Condition(f"{compared} {bound}", (moment,))


_MAKERS: Mapping[str, Callable[[str], _Condition]] = {
    "waiting_for": _waiting_for,
    "since": _since,
    "until": _until,
    "updated_since": _updated_since,
    "tag": _tagged,
    "payload": _with_payload,
    "error": _with_error,
}

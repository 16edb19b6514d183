"""The conditions of filters of jobs: one place for the command line, nodes and the dashboard.

Filters are a mapping by name. Those of columns, and the texts ``error``, ``since``, ``until`` and
``updated_since``, have one value each; ``tag`` and ``payload`` have lists of texts, of which all
must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from attrs import evolve, frozen

from txqueue.model.job_filters import (
    check_storable,
    read_payload_filter,
    read_tag_filter,
    read_time,
)

__all__ = ["SEARCHED", "damage_read_by", "is_search", "job_conditions"]

SEARCHED = ("tag", "payload", "error", "since", "until", "updated_since")
"""The filters that no index serves: each page looks at a limited number of jobs."""

_COLUMNS = {
    "state": "job.state = %s::{schema}.job_state",
    "queue": "job.queue = %s",
    "work_type": "job.work_type = %s",
    "group": 'job."group" = %s',
    "tenant": "job.tenant = %s",
    "after": "job.job_id < %s",
    "states": "job.state = any(%s::{schema}.job_state[])",
    "from_job": "job.job_id >= %s",
    "running_for": (
        "job.state = 'assigned' and job.started_at <= clock_timestamp() - make_interval(secs => %s)"
    ),
}
# What the filters of contents read of a job.
_READ = {"tag": ("options",), "payload": ("payload", "options"), "error": ("error",)}
# Types and jobs whose payload no operator may see, or learn of by a filter.
_VISIBLE = (
    "job.work_type <> all(array(select work_type from {schema}.work_type"
    """ where policy @> '{{"redacted": true}}' or policy @> '{{"encrypted": true}}'))"""
    """ and coalesce(not {schema}.readable_json(job.options) @> '{{"redacted": true}}', true)"""
    " and coalesce(not {schema}.readable_json(job.options) ? 'txqueue cannot read this', true)"
)
# A damaged value matches nothing.
_OPTIONS, _PAYLOAD = "{schema}.readable_json(job.options)", "{schema}.readable_json(job.payload)"
_IS_DAMAGED = {
    "options": f"{_OPTIONS} ? 'txqueue cannot read this'",
    "payload": f"{_PAYLOAD} ? 'txqueue cannot read this'",
    "error": "{schema}.readable_text(job.error) like 'txqueue cannot read this: %%'",
}


@frozen
class _Condition:
    sql: str
    parameters: Sequence[object]


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
    found = [*_of_columns(filters), *_of_contents(filters, is_shown=is_shown)]
    where = "where " + " and ".join(each.sql for each in found) if found else ""
    return where.format(schema=schema), tuple(each for one in found for each in one.parameters)


def _of_columns(filters: Mapping[str, object]) -> Iterator[_Condition]:
    for name, value in filters.items():
        if value is not None and name not in _MAKERS:
            given = check_storable(value) if isinstance(value, str) else value
            yield _Condition(_COLUMNS[name], (given,))


def _of_contents(filters: Mapping[str, object], *, is_shown: bool) -> Iterator[_Condition]:
    for name, make in _MAKERS.items():
        for text in _texts(filters, name):
            condition = make(text)
            either = [f"({condition.sql})", *(_IS_DAMAGED[each] for each in _READ.get(name, ()))]
            yield evolve(condition, sql=f"({' or '.join(either)})") if is_shown else condition


def damage_read_by(schema: str, filters: Mapping[str, object]) -> str:
    """Return the expression for the damage that a list shows: of its columns and its filters."""
    read = {"options", *(each for name in _READ if _texts(filters, name) for each in _READ[name])}
    given = ", ".join(f"{each} => job.{each}" for each in sorted(read))
    return f"{schema}.find_damage({given})"


def _texts(filters: Mapping[str, Any], name: str) -> Sequence[str]:
    """Return the texts of a filter. An empty one counts: an act must not change more for it."""
    given = filters.get(name)
    return [given] if isinstance(given, str) else given or ()


def _tagged(text: str) -> _Condition:
    tag = read_tag_filter(text)
    if tag.value is None:
        return _Condition(f"{_OPTIONS} -> 'tags' ? %s::text", (tag.name,))
    return _Condition(f"{_OPTIONS} -> 'tags' ->> %s::text = %s", (tag.name, tag.value))


def _with_payload(text: str) -> _Condition:
    wanted = read_payload_filter(text)
    condition = f"({_PAYLOAD} ->> %s::text = %s or {_PAYLOAD} -> %s::text = %s::jsonb)"
    parameters = (wanted.key, wanted.text, wanted.key, wanted.json)
    return _Condition(f"{_VISIBLE} and {condition}", parameters)


def _with_error(text: str) -> _Condition:
    found = "strpos(lower({schema}.readable_text(job.error)), lower(%s)) > 0"
    return _Condition(found, (check_storable(text),))


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
    "since": _since,
    "until": _until,
    "updated_since": _updated_since,
    "tag": _tagged,
    "payload": _with_payload,
    "error": _with_error,
}

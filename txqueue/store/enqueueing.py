"""Turns work items into calls of the stored functions that enqueue."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import lru_cache
from itertools import islice
from typing import Any

from txqueue.errors import InvalidWork
from txqueue.model.assignment import chunk_of_one
from txqueue.model.humanize import brief
from txqueue.model.keys import KEYS
from txqueue.model.payload import encode, find_unstorable, is_storable, option_json
from txqueue.model.retry import MOST_ATTEMPTS
from txqueue.model.tags import checked_tags
from txqueue.model.work_item import MOST_WEIGHT, UniqueMode, WorkItem, explicit_policy, is_timeout
from txqueue.store.encryption import encrypted
from txqueue.tracing.carried import TRACE_OPTIONS, is_traceparent

__all__ = [
    "assigned_call",
    "batches",
    "call_of",
    "chunk_of_call",
    "enqueue_call",
    "is_plain",
    "job_object",
    "json_text",
]

BATCH = 1000
_RELATIONS = frozenset({"unique", "unique_mode", "after", "after_any_end"})
_OF_A_KEY = frozenset({"as_of", "once_for"})
# Jobs with one of these options need a decision by the database.
_DECIDED = _RELATIONS | {"group", "tenant", "not_before", "not_after"}
_SQL_TYPES = {
    "work_type": "text",
    "payload": "jsonb",
    "queue": "text",
    "priority": "integer",
    "weight": "integer",
    "not_before": "timestamptz",
    "not_after": "timestamptz",
    "group": "text",
    "tenant": "text",
    "options": "jsonb",
    "unique": "text",
    "unique_mode": "text",
    "after": "bigint[]",
    "after_any_end": "boolean",
}
_KEYS = frozenset(KEYS)
_COLUMNS = _SQL_TYPES.keys() - {"work_type", "payload", "options"}
_RUNTIME = frozenset(
    {"timeout", "attempts", "expires", "as_of", "once_for", "created_by", "tags", *TRACE_OPTIONS}
)
_to_json = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode
_NO_OPTIONS: Mapping[str, Any] = {}


_Rule = tuple[Callable[[Any], bool], str]


def _is_flag(value: Any) -> bool:
    return type(value) is bool


def _is_whole(least: int, most: int) -> Callable[[Any], bool]:
    def holds(value: Any) -> bool:
        return isinstance(value, int) and type(value) is not bool and least <= value <= most

    return holds


def _is_attempts(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST_ATTEMPTS


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(
        type(each) is int and 0 <= each < 2**63 for each in value
    )


def _is_mode(value: Any) -> bool:
    return isinstance(value, str) and value in list(UniqueMode)


def _is_moment(value: Any) -> bool:
    return isinstance(value, datetime)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and is_storable(value)


def _name(most: int, example: str = "", hint: str = "") -> _Rule:
    def holds(value: Any) -> bool:
        return isinstance(value, str) and 1 <= len(value) <= most and is_storable(value)

    return holds, f"give a string{example} of 1 to {most} characters without NUL{hint}"


_METHOD = "; in a class, write @property above the method"
_MOMENT = (_is_moment, "give an aware datetime, such as datetime.now(UTC) + timedelta(hours=1)")
_TEXT = (_is_text, "give a string without NUL")

# Checked here, so that nothing is sent, and by the database, which has other clients.
_RULES: Mapping[str, _Rule] = {
    "timeout": (
        is_timeout,
        "give seconds above 0, at most ten years, or None for the work type's own",
    ),
    "not_before": _MOMENT,
    "not_after": _MOMENT,
    "priority": (
        _is_whole(0, 9),
        "use Priority.LOW, NORMAL or HIGH, or a whole number from 0 to 9",
    ),
    "weight": (_is_whole(1, MOST_WEIGHT), f"give a whole number from 1 to {MOST_WEIGHT}"),
    "queue": _name(200),
    "group": _name(1000, ", such as f'account:{number}',", _METHOD),
    "tenant": _name(200, hint=_METHOD),
    "unique": _name(1000, hint=_METHOD),
    "attempts": (_is_attempts, f"give a whole number from 1 to {MOST_ATTEMPTS}"),
    "expires": (
        _is_flag,
        "give True to cancel the job at its not_after, False to only raise its rank",
    ),
    "unique_mode": (_is_mode, "use UniqueMode.KEEP, REPLACE, AGAIN, REJECT or ONCE"),
    "as_of": _MOMENT,
    "once_for": (is_timeout, "give seconds above 0, at most ten years, or a timedelta"),
    "created_by": _TEXT,
    "traceparent": (is_traceparent, "give a header of W3C Trace Context, 00-…-…-01"),
    "tracestate": _TEXT,
    "after": (_are_numbers, "give a list of the numbers of jobs"),
    "after_any_end": (
        _is_flag,
        "give True to wait for any end, False for jobs that are done",
    ),
}


def job_object(work: WorkItem, options: Mapping[str, Any] = _NO_OPTIONS) -> dict[str, Any]:
    """Return a job as ``enqueue_many()`` takes it: an object with the work item and its options.

    Raises:
        InvalidWork: When the work item or an option is not valid.
    """
    payload = encode(work)
    if work.encrypted:
        payload = encrypted(work.work_type, "payload", payload)
    job: dict[str, Any] = {"work_type": work.work_type, "payload": payload}
    if (group := work.group) is not None:
        job["group"] = _checked("group", group, work)
    if (tenant := work.tenant) is not None:
        job["tenant"] = _checked("tenant", tenant, work)
    # For options left out, the database uses the published policy.
    explicit = explicit_policy(type(work))
    if "queue" in explicit:
        job["queue"] = work.queue
    if "priority" in explicit:
        job["priority"] = int(work.priority)
    if "weight" in explicit:
        job["weight"] = work.weight
    if (key := work.unique) is not None:
        job["unique"] = _checked("unique", key, work)
    if (tags := work.tags) is not None and options.get("tags") is None:
        options = {**options, "tags": tags}
    if options:
        job |= _chosen(options)
    if "unique" in job:
        job.setdefault("unique_mode", work.unique_mode.value)
    elif given := _OF_A_KEY & job.get("options", _NO_OPTIONS).keys():
        raise InvalidWork(f"{', '.join(sorted(given))} without a key", "pass the key as unique")
    if work.redacted or not _KEYS.isdisjoint(explicit):
        _mark(job, work, explicit & _KEYS)
    return job


def _mark(job: dict[str, Any], work: WorkItem, keys: AbstractSet[str]) -> None:
    """Add the options by which the database treats the job as the class of the work item does."""
    marks = {}
    if work.redacted:
        # Serves queries until a node has published the type.
        marks["redacted"] = True
    if not keys <= job.keys():
        # The class has none for this work item: the database need not compute it.
        marks["keys"] = False
    if marks:
        job["options"] = {**job.get("options", {}), **marks}


def enqueue_call(
    schema: str, work: WorkItem, options: Mapping[str, Any]
) -> tuple[str, list[object]]:
    """Return the statement that enqueues one work item, and its parameters.

    Raises:
        InvalidWork: When the work item or an option is not valid.
    """
    return call_of(schema, job_object(work, options))


def call_of(schema: str, job: Mapping[str, Any]) -> tuple[str, list[object]]:
    """Return the statement that enqueues one job as `job_object` made it, and its parameters."""
    return _call(schema, tuple(job)), _parameters(job)


def assigned_call(
    schema: str, job: Mapping[str, Any], node_id: int, incarnation: int
) -> tuple[str, list[object]]:
    """Return the statement that enqueues one job assigned to a node; the job's parameters last."""
    return _assigned_call(schema, tuple(job)), [node_id, incarnation, *_parameters(job)]


def is_plain(job: Mapping[str, Any]) -> bool:
    """Tell whether direct dispatch is possible for a job: it has no group, time or relation."""
    return not _DECIDED & job.keys()


def chunk_of_call(job_id: int, weight: int, given: Mapping[str, object]) -> str:
    """Return the chunk of one job that ``enqueue_assigned()`` has just enqueued.

    Args:
        job_id: The job's number.
        weight: The job's weight.
        given: The parameters of the call, by name.
    """
    work_type, payload, terms = given["work_type"], given["payload"], given.get("options", "null")
    return chunk_of_one(job_id, str(work_type), weight, str(payload), str(terms))


# An application uses few different sets of options, so the statements are cached.
@lru_cache
def _call(schema: str, names: tuple[str, ...]) -> str:
    return f"select {schema}.enqueue({_arguments(names)})"


@lru_cache
def _assigned_call(schema: str, names: tuple[str, ...]) -> str:
    return (
        f"select job_id, assignment, lane, its_weight from {schema}.enqueue_assigned"
        f"(its_node => %s, its_incarnation => %s, {_arguments(names)})"
    )


def _arguments(names: tuple[str, ...]) -> str:
    return ", ".join([f'"{name}" => %s::{_SQL_TYPES[name]}' for name in names])


def _parameters(job: Mapping[str, Any]) -> list[object]:
    return [_parameter(name, value) for name, value in job.items()]


def _parameter(name: str, value: Any) -> object:
    if _SQL_TYPES[name] == "jsonb":
        return json_text(value)
    return value


def batches(works: Iterable[WorkItem], options: Mapping[str, Any]) -> Iterator[str]:
    """Yield work items as JSON for ``enqueue_many()``: arrays of up to a thousand jobs.

    Raises:
        InvalidWork: When a work item or an option is not valid.
    """
    remaining = iter(works)
    while batch := [job_object(work, options) for work in islice(remaining, BATCH)]:
        yield json_text(batch)


def json_text(value: object) -> str:
    """Return the JSON of an object of data or options, a job, or a list of either.

    Raises:
        InvalidWork: When JSON or the database cannot carry a part of it; the error has its path.
    """
    try:
        text = _to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_storable(_unstorable(value) or type(error).__name__) from None
    # JSON spells NUL like the first, and half a surrogate pair like the second.
    if ("\\u0000" in text or "\\ud" in text) and (what := _unstorable(value)):
        raise _not_storable(what)
    return text


def _not_storable(what: str) -> InvalidWork:
    return InvalidWork(
        f"the data cannot be stored: {what}",
        "use plain data, dates or attrs classes; leave NUL characters and half pairs out",
    )


def _unstorable(value: Any) -> str | None:
    found: Iterator[str | None]
    if isinstance(value, list):
        found = map(_unstorable, value)
    elif {"work_type", "payload"} <= value.keys():
        found = map(_unstorable, (value["payload"], value.get("options", _NO_OPTIONS)))
    else:
        found = (find_unstorable(each, f"$.{name}") for name, each in value.items())
    return next(filter(None, found), None)


def _checked(option: str, value: Any, work: WorkItem | None = None) -> Any:
    """Return the value of an option after a check; an error shows none of a redacted work item."""
    holds, remedy = _RULES[option]
    if holds(value):
        return value
    shown = f"of {work!r}" if work is not None and work.redacted else brief(value)
    raise InvalidWork(f"{option} {shown} is not valid", remedy)


def _chosen(options: Mapping[str, Any]) -> dict[str, Any]:
    for option in options:
        if option not in _COLUMNS and option not in _RUNTIME:
            raise _unknown_option(option)
    given = {
        option: _given(option, value.total_seconds() if isinstance(value, timedelta) else value)
        for option, value in options.items()
        if value is not None
    }
    _check_moments(options)
    job = {key: given[key] for key in given.keys() & _COLUMNS}
    if runtime := {key: given[key] for key in given.keys() & _RUNTIME}:
        job["options"] = runtime
    return job


def _given(option: str, value: Any) -> object:
    if option == "tags":
        return checked_tags(value)
    if option == "after":
        # The driver sends a tuple as a row.
        return list(_checked(option, value))
    return option_json(_checked(option, value) if option in _RULES else value)


def _check_moments(options: Mapping[str, Any]) -> None:
    first, last = options.get("not_before"), options.get("not_after")
    if first is not None and last is not None and last <= first:
        raise InvalidWork(
            f"not_after {last.isoformat()} is not later than not_before {first.isoformat()}",
            "give a not_after that lies after not_before, or none",
        )


def _unknown_option(option: str) -> InvalidWork:
    known = sorted(_COLUMNS | _RUNTIME - {"traced_at"})
    near = get_close_matches(option, known, 1)
    remedy = f"did you mean {near[0]}? " if near else ""
    return InvalidWork(f"enqueue has no option {option}", f"{remedy}use {', '.join(known)}")

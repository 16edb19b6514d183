"""The calls that enqueue work, and its direct dispatch to nodes that have granted credit."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from functools import lru_cache
from itertools import islice
from typing import Any, Final, Literal, Protocol, TypeAlias, get_args

from attrs import define, evolve

from txqueue.errors import ConfigurationError, InvalidWork
from txqueue.model.assignment import Assignment, chunk_of_one
from txqueue.model.enqueue_options import OPTIONS
from txqueue.model.keys import KEYS, check_text
from txqueue.model.names_elsewhere import remedy_for
from txqueue.model.payload import encode
from txqueue.model.record_types import field_names
from txqueue.model.storable import find_unstorable, to_json
from txqueue.model.work_item import WorkItem, explicit_policy
from txqueue.store.enqueueing.encryption import encrypted
from txqueue.store.schema.files import checked_name
from txqueue.tracing.choice import TRACED_AT

ParamStyle: TypeAlias = Literal["format", "pyformat", "named", "numeric_dollar"]
"""How a driver's statements spell parameters: ``%s``, ``%(name)s``, ``:name`` or ``$1``."""

Statement: TypeAlias = tuple[str, Any]
"""A statement and its parameters: a tuple, or a dictionary for a style with names."""

# Not name::type: a driver may read the colons as those of another parameter.
_PLACES: Final = {
    "format": "cast(%s as text)",
    "pyformat": "cast(%({name})s as text)",
    "named": "cast(:{name} as text)",
    "numeric_dollar": "cast(${number} as text)",
}
_BY_NAME: Final = ("pyformat", "named")
BATCH = 1000
_RELATIONS = frozenset({"unique", "unique_mode", "after", "after_any_end"})
_OF_A_KEY = frozenset({"as_of", "once_for"})
# Jobs with one of these options need a decision by the database.
_DECIDED = _RELATIONS | {"group", "tenant", "not_before", "not_after"}
SQL_TYPES = {
    "work_type": "text",
    "payload": "jsonb",
    "options": "jsonb",
    **{name: option.sql for name, option in OPTIONS.items() if option.sql is not None},
}
_TYPES: Final = {**SQL_TYPES, "job_id": "bigint", "name": "text", "value": "jsonb", "key": "text"}
_KEYS = frozenset(KEYS)
_NO_OPTIONS: Mapping[str, Any] = {}


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
        job["group"] = _of_class("group", group, work)
    if (tenant := work.tenant) is not None:
        job["tenant"] = _of_class("tenant", tenant, work)
    # For options left out, the database uses the published policy.
    explicit = explicit_policy(type(work))
    if "queue" in explicit:
        job["queue"] = work.queue
    if "priority" in explicit:
        job["priority"] = int(work.priority)
    if "weight" in explicit:
        job["weight"] = work.weight
    if (key := work.unique) is not None:
        job["unique"] = _of_class("unique", key, work)
    if (tags := work.tags) is not None and options.get("tags") is None:
        options = {**options, "tags": tags}
    if options:
        job |= _chosen(options, type(work))
    if "unique" in job:
        job.setdefault("unique_mode", work.unique_mode.value)
    elif orphaned := _OF_A_KEY & job.get("options", _NO_OPTIONS).keys():
        raise InvalidWork(f"{', '.join(sorted(orphaned))} without a key", "pass the key as unique")
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
    schema: str, work: WorkItem, options: Mapping[str, Any], style: ParamStyle = "format"
) -> Statement:
    """Return the statement that enqueues one work item, and its parameters.

    Raises:
        InvalidWork: When the work item or an option is not valid.
        ConfigurationError: When the schema's name or the style is not valid.
    """
    return call_of(schema, job_object(work, options), style)


def call_of(schema: str, job: Mapping[str, Any], style: ParamStyle = "format") -> Statement:
    """Return the statement that enqueues one job as `job_object` made it, and its parameters."""
    return call_statement(schema, "enqueue", _texts(job), style)


def call_statement(
    schema: str, function: str, arguments: Mapping[str, str], style: ParamStyle
) -> Statement:
    """Return the statement that calls a stored function, and its parameters.

    Args:
        schema: The name of the schema.
        function: The name of the function.
        arguments: The texts of its arguments, by their names.
        style: How the driver spells parameters.

    Raises:
        ConfigurationError: When the schema's name or the style is not valid.
    """
    names = tuple(arguments)
    try:
        sql = _call(schema, function, names, style)
    except TypeError:
        # An argument cannot be hashed: not cached, it is refused.
        sql = _call.__wrapped__(schema, function, names, style)
    return sql, arranged(arguments, style)


def assigned_call(
    schema: str, arguments: Mapping[str, str], node_id: int, incarnation: int
) -> tuple[str, list[object]]:
    """Return the statement that enqueues one job assigned to a node; the job's parameters last.

    It returns an array: the numbers of the job, of its assignment and of the lane, and the weight.
    """
    sql = _assigned_call(schema, tuple(arguments))
    return sql, [node_id, incarnation, *arguments.values()]


def is_plain(job: Mapping[str, Any]) -> bool:
    """Tell whether direct dispatch is possible for a job: it has no group, time or relation."""
    return not _DECIDED & job.keys()


def chunk_of_call(job_id: int, weight: int, job: Mapping[str, str]) -> str:
    """Return the chunk of one job that ``enqueue_assigned()`` has just enqueued.

    Args:
        job_id: The job's number.
        weight: The job's weight.
        job: The parameters of the call, by name.
    """
    work_type, payload, terms = job["work_type"], job["payload"], job.get("options", "null")
    return chunk_of_one(job_id, work_type, weight, payload, terms)


# An application uses few different sets of options, so the statements are cached.
@lru_cache
def _call(schema: str, function: str, names: tuple[str, ...], style: ParamStyle) -> str:
    return f"select {checked_name(schema)}.{function}({_arguments(names, style)})"


@lru_cache
def _assigned_call(schema: str, names: tuple[str, ...]) -> str:
    return (
        # One column: psycopg2 decodes the name of each by a call of Python's codec.
        f"select array[job_id, assignment, lane, its_weight] from {schema}.enqueue_assigned"
        f"(its_node => %s, its_incarnation => %s, {_arguments(names, 'format')})"
    )


def _arguments(names: tuple[str, ...], style: ParamStyle) -> str:
    numbered = enumerate(names, 1)
    return ", ".join(
        [f'"{name}" => {place(style, name, number)}::{_TYPES[name]}' for number, name in numbered]
    )


def place(style: ParamStyle, name: str, number: int) -> str:
    """Return how a statement spells a parameter.

    Raises:
        ConfigurationError: When the style is not valid.
    """
    if str(style) not in _PLACES:
        raise ConfigurationError(
            f"there is no paramstyle {style!r}", f"use one of {', '.join(get_args(ParamStyle))}"
        )
    return _PLACES[style].format(name=name, number=number)


def arranged(texts: Mapping[str, str], style: ParamStyle) -> Any:
    """Return parameters, given by name, as the driver takes them."""
    return dict(texts) if style in _BY_NAME else tuple(texts.values())


def _texts(job: Mapping[str, Any]) -> dict[str, str]:
    return {name: _text(name, value) for name, value in job.items()}


def _text(name: str, value: Any) -> str:
    """Return a value of a job as PostgreSQL reads it."""
    if type(value) is str:
        return value
    if SQL_TYPES[name] == "jsonb":
        return json_text(value)
    if isinstance(value, list):
        return "{" + ",".join(map(str, value)) + "}"
    # Of str and int themselves: subclasses, such as enums, may write another text.
    return str.__str__(value) if isinstance(value, str) else int.__repr__(value)


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
        text = to_json(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _not_storable(_unstorable(value) or type(error).__name__) from None
    # JSON spells NUL like the first, and half a surrogate pair like the second.
    if ("\\u0000" in text or "\\ud" in text) and (what := _unstorable(value)):
        raise _not_storable(what)
    return text


def _not_storable(complaint: str) -> InvalidWork:
    return InvalidWork(
        f"the data cannot be stored: {complaint}",
        "use plain data, dates or attrs classes; leave NUL characters and half pairs out",
    )


def _unstorable(value: Any) -> str | None:
    complaints: Iterator[str | None]
    if isinstance(value, list):
        complaints = map(_unstorable, value)
    elif {"work_type", "payload"} <= value.keys():
        complaints = map(_unstorable, (value["payload"], value.get("options", _NO_OPTIONS)))
    else:
        complaints = (find_unstorable(member, f"$.{name}") for name, member in value.items())
    return next(filter(None, complaints), None)


def _of_class(option: str, value: Any, work: WorkItem) -> Any:
    """Return the value that a class has computed; an error shows none of a redacted work item."""
    return OPTIONS[option].read(option, value, f"of {work!r}" if work.redacted else "")


def _chosen(options: Mapping[str, Any], cls: type[Any]) -> dict[str, Any]:
    job: dict[str, Any] = {}
    members: dict[str, Any] = {}
    for name, value in options.items():
        if name not in OPTIONS and name != TRACED_AT:
            remedy = remedy_for([name], sorted(OPTIONS))
            raise InvalidWork(f"enqueue has no option {name}", remedy)
        if value is None:
            continue
        if name == TRACED_AT:
            members[name] = value
        else:
            option = OPTIONS[name]
            plain = value.total_seconds() if isinstance(value, timedelta) else value
            (members if option.sql is None else job)[name] = option.read(name, plain)
            if name in _KEYS and "{" in value:
                check_text(name, value, field_names(cls))
    _check_moments(options)
    if members:
        job["options"] = members
    return job


def _check_moments(options: Mapping[str, Any]) -> None:
    first, last = options.get("not_before"), options.get("not_after")
    if first is not None and last is not None and last <= first:
        raise InvalidWork(
            f"not_after {last.isoformat()} is not later than not_before {first.isoformat()}",
            "give a not_after that lies after not_before, or none",
        )


_MAY_UNDO = re.compile("savepoint|rollback|abort|prepare", re.IGNORECASE)

Query = Callable[[str, Sequence[object]], Awaitable[list[tuple[Any, ...]]]]


@define(eq=False)
class NodeCredit:
    """Credit for one run of a node.

    Attributes:
        node_id: The node.
        incarnation: The node's run.
        weight: The total weight of the jobs that this process may still assign to the node.
        is_own: Whether the node is the one that this process has joined.
    """

    node_id: int
    incarnation: int
    weight: int
    is_own: bool


class CreditHolder(Protocol):
    """Holds the credit of a process that has joined a node, and delivers the jobs enqueued."""

    def credit_for(self, weight: int) -> NodeCredit | None:
        """Return credit that covers a weight; None if there is none."""

    def deliver(self, jobs: Sequence[Assignment]) -> None:
        """Send committed jobs to the nodes that they are assigned to."""

    def wake(self) -> None:
        """Notify the joined node that jobs were committed which it may claim."""


class DirectDispatch:
    """Enqueues the work of one transaction of a process that has joined a node.

    Args:
        holder: Holds the credit.
        schema: The name of txqueue's schema.
    """

    def __init__(self, holder: CreditHolder, schema: str) -> None:
        self._holder = holder
        self._schema = schema
        self._spent: list[tuple[NodeCredit, int]] = []
        self._jobs: list[Assignment] = []
        self._wakes = False
        self._is_sure = True

    async def enqueue(self, query: Query, work: WorkItem, options: Mapping[str, Any]) -> int:
        """Enqueue work, already assigned if there is credit for it; return the job's number."""
        job = job_object(work, options)
        weight = job.get("weight", work.weight)
        # The database refuses an invalid weight, with and without direct dispatch.
        is_fit = type(weight) is int and weight > 0 and is_plain(job)
        credit = self._holder.credit_for(weight) if is_fit else None
        if credit is None:
            self._wakes = True
            return int((await query(*call_of(self._schema, job)))[0][0])
        return await self._assigned(query, job, credit, weight)

    async def _assigned(
        self, query: Query, job: dict[str, Any], credit: NodeCredit, weight: int
    ) -> int:
        credit.weight -= weight
        spent = (credit, weight)
        self._spent.append(spent)
        texts = _texts(job)
        sql, parameters = assigned_call(self._schema, texts, credit.node_id, credit.incarnation)
        ((job_id, assignment, lane, job_weight),) = (await query(sql, parameters))[0]
        if assignment is None:
            self._spent.remove(spent)
            credit.weight += weight
            self._wakes = True
        else:
            is_told = credit.is_own and self._is_sure
            chunk = chunk_of_call(job_id, job_weight, texts) if is_told else ""
            self._jobs.append(
                Assignment(credit.incarnation, assignment, lane, 1, job_weight, chunk)
            )
        return int(job_id)

    def note_statement(self, sql: object) -> None:
        """Check whether a statement of the application may undo a part of the transaction.

        If so, the node gets only the assignments of the transaction's jobs, and reads from the
        database the jobs that exist.
        """
        if self._is_sure and not (isinstance(sql, str) and _MAY_UNDO.search(sql) is None):
            self._is_sure = False
            self._jobs = [evolve(job, chunk="") for job in self._jobs]

    def note_others(self) -> None:
        """Note that the transaction also enqueued jobs that must be claimed."""
        self._wakes = True

    def committed(self) -> None:
        """Deliver the enqueued jobs, as their transaction has committed."""
        if self._jobs:
            self._holder.deliver(self._jobs)
        if self._wakes:
            self._holder.wake()

    def rolled_back(self) -> None:
        """Return the spent credit and deliver nothing, as the transaction was rolled back.

        If its outcome is unknown and it did commit, the reconciliation of nodes returns its jobs.
        """
        for credit, weight in self._spent:
            credit.weight += weight

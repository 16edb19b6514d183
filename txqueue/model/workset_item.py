"""Items of worksets: large sets of one kind of work that a few jobs work through."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any, ClassVar, get_args
from uuid import UUID

import attrs
from attrs import field, frozen

from txqueue.errors import InvalidWork
from txqueue.model.humanize import brief
from txqueue.model.job_policy import MOST_ATTEMPTS, Retry
from txqueue.model.record_types import fields_of
from txqueue.model.work_item import WorkItem, explicit_policy

_NAME = re.compile(r"[a-z][a-z0-9_]{0,49}")
_SQL_TYPES: dict[Any, str] = {
    int: "bigint",
    str: "text",
    bool: "boolean",
    float: "double precision",
    UUID: "uuid",
}


def _text(_: object, attribute: attrs.Attribute[str], value: object) -> None:
    if not isinstance(value, str) or not value:
        raise InvalidWork(
            f"{attribute.name} of an ExistingTable is {brief(value)}, not a text",
            "write ExistingTable('public.orders', key='id', where='not archived')",
        )


@frozen
class ExistingTable:
    """A table of the application to work through, in the order of its key.

    Attributes:
        name: The table, with its schema if need be.
        key: The unique column that orders the rows; it needs an index.
        where: A condition in SQL that selects rows; all rows by default.

    Raises:
        InvalidWork: When one of them is no text.
    """

    name: str = field(validator=_text)
    key: str = field(default="id", validator=_text)
    where: str = field(default="true", validator=_text)


@frozen
class WorksetStatus:
    """The progress of a workset.

    Attributes:
        total: How many items there are in all, done ones included; for an application's table, an
            estimate until all its rows are divided into parts.
        done: How many items are done.
        failed: How many items have spent their attempts; a list of failed items keeps them.
        remaining: How many items are still to be done.
        jobs: How many jobs work on the workset.
    """

    total: int
    done: int
    failed: int
    remaining: int
    jobs: int


class WorksetItem(WorkItem, is_abstract=True):
    """Base class of a workset's items. Subclass it with ``attrs.define`` and define ``perform``
    or ``perform_part``.

    The items are rows: of a table that txqueue makes from the fields, or of an application's table
    whose columns have the fields' names. At most ``size`` jobs work through the items. The other
    class attributes are those of `WorkItem`; ``retry`` applies to each item.

    Attributes:
        workset: The workset's name; the class's name in snake case unless given.
        size: The largest number of jobs that work on the workset.
        batch: How many items a job takes at a time: the size of a part.
        bound: How many items may remain in the workset before more are refused; None for no bound.
        source: The application's table; None for a table that txqueue makes.
        workset_tenant: The tenant that the workset's jobs belong to; None for no tenant.
    """

    __slots__ = ()

    workset: ClassVar[str]
    size: ClassVar[int] = 4
    batch: ClassVar[int] = 500
    bound: ClassVar[int | None] = None
    source: ClassVar[ExistingTable | None] = None
    workset_tenant: ClassVar[str | None] = None
    retry: ClassVar[Retry] = Retry(attempts=3)
    job_type: ClassVar[type[WorksetJob]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "workset" not in cls.__dict__:
            cls.workset = snake_case(cls.__name__)
        _check(cls)
        cls.job_type = _job_type(cls)

    @classmethod
    def perform_part(cls, items: Sequence[Any], part: Any) -> Any:
        """Process the items of a part at once; by default, call `perform` for each in turn.

        Args:
            items: Instances of the class.
            part: The `RunningPart`: its attempt, ``fail(item, error)`` and ``transaction()``.
        """
        raise NotImplementedError

    @classmethod
    def performs_parts(cls) -> bool:
        """Whether the class defines a ``perform_part`` of its own."""
        return getattr(cls.perform_part, "__func__", None) is not _INHERITED


_INHERITED = WorksetItem.__dict__["perform_part"].__func__


class WorksetJob(WorkItem, is_abstract=True):
    """A job that works through a workset; each workset has a class of its own.

    Attributes:
        items: The class of the workset's items.
    """

    __slots__ = ()

    items: ClassVar[type[WorksetItem]]
    retry: ClassVar[Retry] = Retry(attempts=MOST_ATTEMPTS, first=0.5, longest=60.0)

    def perform(self, job: Any) -> Any:
        """Fail: a worker runs this job as its workset needs."""
        raise NotImplementedError


def _job_type(items: type[WorksetItem]) -> type[WorksetJob]:
    """Make the class of a workset's jobs, with the policy of its items."""
    shared = explicit_policy(items) & {"queue", "priority", "weight", "heartbeat"}
    policy = {name: getattr(items, name) for name in shared}
    names = {"__module__": items.__module__, "__qualname__": f"{items.__qualname__}.job_type"}
    body = {**policy, **names, "items": items, "work_type": f"{items.work_type}:workset"}
    if items.workset_tenant is not None:
        body["tenant"] = items.workset_tenant
    cls: type[WorksetJob] = attrs.define(slots=False)(type("WorksetJobOf", (WorksetJob,), body))
    return cls


def _check(cls: type[WorksetItem]) -> None:
    bounds = {"size": (cls.size, 1000), "batch": (cls.batch, 100_000)}
    for name, (value, limit) in bounds.items():
        if type(value) is not int or not 1 <= value <= limit:
            _refuse(cls, f"{name} {value!r} is not within 1 to {limit}", "give a whole number")
    if cls.bound is not None and (type(cls.bound) is not int or cls.bound < 1):
        _refuse(cls, f"bound {cls.bound!r} is below 1 or not whole", "give a number, or None")
    if not _NAME.fullmatch(str(cls.workset)):
        _refuse(cls, f"workset {cls.workset!r} is not a name", "use at most 50 of a-z, 0-9 and _")
    if cls.encrypted or cls.redacted:
        _refuse(cls, "items of a workset cannot be hidden", "enqueue them as jobs of their own")
    if not isinstance(cls.source, ExistingTable | None):
        _refuse(cls, "source is not an ExistingTable", 'use ExistingTable("documents", key="id")')


def _refuse(cls: type, complaint: str, remedy: str) -> None:
    raise InvalidWork(f"{cls.__qualname__}: {complaint}", remedy)


def snake_case(name: str) -> str:
    """Return a class name such as ``ReindexDocument`` as ``reindex_document``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()[:50]


def columns_of(cls: type[WorksetItem]) -> list[tuple[str, str]]:
    """Return the column name and SQL type of each field."""
    return list(_columns(cls))


def decimals_of(cls: type[WorksetItem]) -> frozenset[str]:
    """Return the names of the fields that are Decimals."""
    return frozenset(
        each.name for each in fields_of(cls) if Decimal in (each.type, *get_args(each.type))
    )


def _columns(cls: Any) -> Iterator[tuple[str, str]]:
    for each in fields_of(cls):
        if each.name.startswith("_"):
            _refuse(cls, f"the field {each.name} begins with _", "rename the field")
        kinds = [kind for kind in get_args(each.type) if kind is not type(None)] or [each.type]
        yield each.name, _SQL_TYPES.get(kinds[0], "jsonb") if len(kinds) == 1 else "jsonb"

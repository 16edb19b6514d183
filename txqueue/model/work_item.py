"""Work items: the data of one kind of work, its policy and its handler; and the version of its
fields.
"""

from __future__ import annotations

import hashlib
import inspect
import json
from collections.abc import Mapping
from datetime import timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, get_args, get_origin

import attrs

from txqueue.errors import InvalidWork, TxqueueError, UnknownWorkType, UnreadablePayload
from txqueue.model.job_policy import (
    Priority,
    Rate,
    Retry,
    Runtime,
    UniqueMode,
    check_policy,
)
from txqueue.model.keys import KEYS, check_keys
from txqueue.model.record_types import fields_of, is_object_class, is_typed_dict
from txqueue.model.schedule import Schedule

MYPY = False
"""True for mypy, which knows the name."""

_registry: dict[str, type[WorkItem]] = {}
_explicit: dict[type[WorkItem], frozenset[str]] = {}


class WorkItem:
    """Base class of all work items. Subclass it with ``attrs.define``, as a dataclass, or
    together with ``BaseModel`` of pydantic.

    The fields are the payload. The class attributes are the policy of its jobs; an option of
    `enqueue` overrides an attribute for one job. For an attribute that the class does not define,
    the policy that nodes have published for the work type applies. A class sets ``group``,
    ``tenant`` and ``unique`` to a `Key`, which the database can compute, too, or defines a property
    that returns text.

    Attributes:
        work_type: The name stored with each job; the class's qualified name unless given.
        queue: The queue of its jobs.
        priority: 0 to 9; higher runs first.
        weight: The share of a worker's capacity that a job takes; at least 1.
        retry: Whether and when a job runs again after a failed attempt.
        timeout: The longest time of an attempt, in seconds; None for no limit.
        heartbeat: The longest time, in seconds, between two calls of ``job.beat()`` or
            ``job.progress()``; an attempt that exceeds it fails as hung. None for no limit.
        runtime: How ``perform`` is run.
        group_limit: How many jobs of a group may run at a time; an operator may override it.
        group_rate: How fast jobs of each group may start; None for no limit. A class that
            declares no group has its work type as group. An operator's rate takes its place.
        unique_mode: What to do with a new job whose unique key another job holds; by default drop
            the new one.
        expires: Whether a job that has not started by its ``not_after`` is cancelled. If not,
            ``not_after`` only raises the job's rank.
        redacted: Whether payload and result are hidden from operators, and the fields from
            ``repr()``.
        encrypted: Whether payload and result are encrypted in the database, with the keys in
            ``TXQUEUE_PAYLOAD_KEY``. Implies ``redacted``.
        omit_defaults: Whether the payload leaves out fields that equal their defaults, so that
            nodes without a new field read the jobs that do not use it.
        schedule: When nodes enqueue a job of this type by themselves: an `Every`, a `Cron` or a
            `Cooldown`; None for never. With a schedule, all fields need defaults.

    Raises:
        InvalidWork: When the class is defined, if its policy is not valid.
    """

    __slots__ = ()

    work_type: ClassVar[str]
    queue: ClassVar[str] = "default"
    priority: ClassVar[int] = Priority.NORMAL
    weight: ClassVar[int] = 1
    retry: ClassVar[Retry] = Retry()
    timeout: ClassVar[float | timedelta | None] = None
    heartbeat: ClassVar[float | timedelta | None] = None
    runtime: ClassVar[Runtime] = Runtime.TWISTED
    group_limit: ClassVar[int] = 1
    group_rate: ClassVar[Rate | None] = None
    unique_mode: ClassVar[UniqueMode] = UniqueMode.KEEP
    expires: ClassVar[bool] = False
    redacted: ClassVar[bool] = False
    encrypted: ClassVar[bool] = False
    omit_defaults: ClassVar[bool] = False
    schedule: ClassVar[Schedule | None] = None

    def __init_subclass__(cls, is_abstract: bool = False, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _explicit[cls] = _explicit_policy(cls)
        if is_abstract:
            return
        if "work_type" not in cls.__dict__:
            cls.work_type = f"{cls.__module__}.{cls.__qualname__}".replace("<locals>", "locals")
        check_policy(cls, _POLICY)
        _group_by_type(cls)
        _check_keys(cls)
        _keep_fields_out_of_sight(cls)
        _register(cls)

    # A subclass may define each as a property or as an attribute. mypy takes both for a property;
    # pyright takes both only for what has no type, and goes by the last definition that it sees.
    if MYPY or not TYPE_CHECKING:

        @property
        def group(self) -> str | None:
            """The key of which at most ``group_limit`` jobs run at a time; None for no group."""
            return None

        @property
        def tenant(self) -> str | None:
            """The job's tenant; tenants of a queue take turns; None for no tenant."""
            return None

        @property
        def tags(self) -> Mapping[str, str] | None:
            """The job's tags, at most 10 texts by name, for people; None for no tags."""
            return None

        @property
        def unique(self) -> str | None:
            """The key that at most one unended job of this work type holds; None for no key."""
            return None

    else:
        group: Any
        tenant: Any
        tags: Any
        unique: Any

    def perform(self, job: Any) -> Any:
        """Do the work. Subclasses define this method, in the form that the runtime needs.

        Args:
            job: The `RunningJob`, with its number, attempt and `transaction()`.

        Returns:
            The job's result, stored as JSON; None for no result.
        """
        raise NotImplementedError(f"{type(self).__qualname__} has no perform(self, job): define it")


_POLICY = frozenset(inspect.get_annotations(WorkItem))


def _explicit_policy(cls: type[WorkItem]) -> frozenset[str]:
    bases = [base for base in cls.__mro__ if base not in (WorkItem, object)]
    return _POLICY.union(KEYS).intersection(name for base in bases for name in vars(base))


def _group_by_type(cls: Any) -> None:
    """Make the type a group where its jobs have a rate and no group, which nothing would limit."""
    has_none = cls.group is WorkItem.group and "group" not in inspect.get_annotations(cls)
    if cls.group_rate is not None and has_none:
        cls.group = cls.work_type
        _explicit[cls] |= {"group"}


def _keep_fields_out_of_sight(cls: type[WorkItem]) -> None:
    """Give the class a ``__repr__`` without the fields, before attrs makes its own."""

    def shown(work: WorkItem) -> str:
        return f"{type(work).__qualname__}(redacted)"

    if cls.encrypted:
        cls.redacted = True
    if cls.redacted and "__repr__" not in cls.__dict__:
        vars_of: Any = cls
        vars_of.__repr__ = vars_of.__str__ = shown


def _check_keys(cls: type[WorkItem]) -> None:
    """Check the keys of a class that has its fields, as the one that attrs makes."""
    if "__attrs_attrs__" not in cls.__dict__:
        return
    try:
        check_keys(cls)
    except InvalidWork:
        # It was registered before it had its fields.
        _registry.pop(cls.work_type, None)
        raise


def _register(cls: type[WorkItem]) -> None:
    known = _registry.get(cls.work_type)
    # With slots, attrs makes a second class of the same name, which replaces the first.
    if known is not None and (known.__module__, known.__qualname__) != (
        cls.__module__,
        cls.__qualname__,
    ):
        raise InvalidWork(
            f"work_type {cls.work_type!r} is taken by {known.__module__}.{known.__qualname__}",
            f"give {cls.__module__}.{cls.__qualname__} a work_type of its own",
        )
    _registry[cls.work_type] = cls


def explicit_policy(cls: type[WorkItem]) -> frozenset[str]:
    """Return the names of the policy attributes, and of the keys, that a class, or a base below
    `WorkItem`, defines.

    A value that a class defines applies even if it equals the default of `WorkItem`; for all others
    the published policy of the work type applies.
    """
    return _explicit[cls]


def find_work_type(work_type: str) -> type[WorkItem]:
    """Return the class of a work type.

    Raises:
        UnknownWorkType: When this process has neither defined nor imported such a class.
    """
    try:
        return _registry[work_type]
    except KeyError:
        known = ", ".join(sorted(_registry)) or "none"
        raise UnknownWorkType(
            f"work type {work_type!r} is not known here (known: {known[:500]})",
            "import the module that defines it, for a node with --app",
        ) from None


def is_work_type(cls: type[WorkItem]) -> bool:
    """Tell whether the class is the one that is registered for its work type."""
    return _registry.get(cls.work_type) is cls


def known_work_types() -> list[type[WorkItem]]:
    """Return all registered classes, sorted by work type."""
    return [_registry[name] for name in sorted(_registry)]


UNKNOWN = "#unknown"
"""What stands after the name of a work type for a process that does not have its class."""


class NotRead(UnreadablePayload):
    """This process cannot read the payload of the job that it is to run.

    Args:
        error: What is wrong with the payload.
        version: The version of the work type that this process has.
    """

    def __init__(self, error: TxqueueError, version: str) -> None:
        super().__init__(error.what, error.remedy)
        self.version = version


def type_version(cls: type[WorkItem]) -> str:
    """Return the work type and a hash of its fields, joined by ``#``.

    Two processes have the same version of a type if its fields have the same names and types, and
    the same ones have defaults. The types include members of enums and the fields of nested
    classes, but not validators. Versions whose payloads are encrypted say so: they read no others.
    """
    shape = json.dumps(_shape(cls, ()), sort_keys=True)
    mark = "encrypted-" if cls.encrypted else ""
    return f"{cls.work_type}#{mark}{hashlib.sha256(shape.encode()).hexdigest()[:12]}"


def _shape(kind: Any, within: tuple[Any, ...]) -> Any:
    """Return plain data that is the same for equal types in each process."""
    if kind in within:
        return _name(kind)
    if is_object_class(kind) or is_typed_dict(kind):
        return _fields(kind, (*within, kind))
    if isinstance(kind, type) and issubclass(kind, Enum):
        return sorted(repr(member.value) for member in kind)
    if parts := get_args(kind):
        return [_name(get_origin(kind)), *(_shape(part, within) for part in parts)]
    return _name(kind)


def _fields(cls: Any, within: tuple[Any, ...]) -> dict[str, Any]:
    try:
        fields = fields_of(cls)
    except Exception:
        # An annotation that cannot be resolved stays text; to enqueue such an item is refused.
        return {name: str(kind) for name, kind in inspect.get_annotations(cls).items()}
    return {
        field.name: [field.default is attrs.NOTHING, _shape(field.type, within)] for field in fields
    }


def _name(kind: Any) -> str:
    if isinstance(kind, type):
        return f"{kind.__module__}.{kind.__qualname__}"
    # Members of Literal, type variables and the like; those with an address have a name.
    return getattr(kind, "__name__", None) or repr(kind)

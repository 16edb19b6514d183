"""Work items: the data of one kind of work, its policy and its handler."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from enum import Enum, IntEnum, StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, cast

import attrs

from txqueue.errors import InvalidWork, UnknownWorkType
from txqueue.model.keys import KEYS, check_constant, check_keys
from txqueue.model.retry import Retry
from txqueue.model.schedule import Cooldown, Cron, Every, Schedule
from txqueue.model.storable import is_name
from txqueue.model.tags import checked_tags

__all__ = [
    "LONGEST_TIMEOUT",
    "MOST_WEIGHT",
    "Priority",
    "Runtime",
    "UniqueMode",
    "WorkItem",
    "explicit_policy",
    "find_work_type",
    "is_timeout",
    "is_work_type",
    "known_work_types",
]


LONGEST_TIMEOUT = 315_360_000
"""The longest timeout of a job, ten years in seconds, because reactors' timers have a limit."""

MOST_WEIGHT = 1_000_000
"""The largest weight of a job. The database refuses a larger one from SQL clients, too."""


class Priority(IntEnum):
    """Names for some of the priorities 0 to 9."""

    LOW = 2
    NORMAL = 4
    HIGH = 7


class UniqueMode(StrEnum):
    """What to do with a new job while another of its work type holds its unique key."""

    KEEP = "keep"
    """Do not enqueue the new job: the other one does the work of both."""
    REPLACE = "replace"
    """Replace the data and start time of a pending job; after a running one, run the new job."""
    AGAIN = "again"
    """Replace the data of a pending job, keep its start time; after a running one, run the new job.
    """
    REJECT = "reject"
    """Refuse the new job with `Duplicate`."""
    ONCE = "once"
    """Do not enqueue the new job, even after the other has ended: its key is remembered without
    limit, or for the time ``once_for``.
    """


class Runtime(Enum):
    """How a handler runs."""

    TWISTED = "twisted"
    """A coroutine that awaits Deferreds, or a function that may return a Deferred."""
    ASYNCIO = "asyncio"
    """A coroutine that awaits asyncio futures."""
    THREAD = "thread"
    """A plain function, run in a thread of the worker."""


MYPY = False
"""True for mypy, which knows the name."""

# What a class has in place of a field until attrs makes it.
_FIELD = type(attrs.field())
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:<>-]{0,199}")
_registry: dict[str, type[WorkItem]] = {}
_explicit: dict[type[WorkItem], frozenset[str]] = {}


class WorkItem:
    """Base class of all work items. Subclass it with ``attrs.define``.

    The fields are the payload. The class attributes are the policy of its jobs; an option of
    `enqueue` overrides an attribute for one job. For an attribute that the class does not define,
    the policy that nodes have published for the work type applies. ``group`` is the key of which at
    most one job, or ``group_limit`` jobs, run at a time; ``tenant`` is the tenant of the job; the
    tenants of a queue take turns; ``unique`` is the key that at most one unended job of the type
    holds. Each is a `Key`, which the database can compute, too, or a property that returns text. A
    ``tags`` property, or attribute, has the tags of the job.

    Attributes:
        work_type: The name stored with each job; the class's qualified name unless given.
        queue: The queue of its jobs.
        priority: 0 to 9; higher runs first.
        weight: The share of a worker's capacity that a job takes; at least 1.
        retry: The retry policy: whether and when a job runs again after a failed attempt.
        timeout: The longest time of an attempt, in seconds or as a timedelta; None for no limit.
        heartbeat: The longest time, in seconds, between two calls of ``job.beat()`` or
            ``job.progress()``; an attempt that exceeds it fails as hung. None for no limit. A
            handler that blocks its process cannot be interrupted this way (see ``--kill-stuck``),
            and a function in a thread goes on after its attempt has failed.
        runtime: How ``perform`` is run.
        group_limit: How many jobs of a group may run at a time; an operator may override it.
        unique_mode: What to do with a new job whose unique key another job holds; by default keep
            the other job and drop the new one.
        expires: Whether a job that has not started by its ``not_after`` is cancelled. If not,
            ``not_after`` only raises the job's rank.
        redacted: Whether payload and result are hidden from operators, and the fields from
            ``repr()``.
        encrypted: Whether payload and result are encrypted in the database, with the keys in
            ``TXQUEUE_PAYLOAD_KEY``. Implies ``redacted``.
        omit_defaults: Whether the payload leaves out fields that equal their defaults, so that
            nodes that do not have a new field yet read the jobs that do not use it.
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
        _check_policy(cls)
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
            """The job's tenant; None for no tenant."""
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


def _keep_fields_out_of_sight(cls: type[WorkItem]) -> None:
    """Give the class a ``__repr__`` without the fields, before attrs makes its own."""

    def shown(work: WorkItem) -> str:
        return f"{type(work).__qualname__}(redacted)"

    if cls.encrypted:
        cls.redacted = True
    if cls.redacted and "__repr__" not in cls.__dict__:
        vars_of: Any = cls
        vars_of.__repr__ = shown


_Rule = tuple[Callable[[type[WorkItem]], object], str, str]
_RULES: tuple[_Rule, ...] = (
    (
        lambda work: _is_text(work.work_type) and _NAME.fullmatch(work.work_type),
        "work_type {work.work_type!r} is not a name",
        "use A to Z, a to z, 0 to 9 and . _ : -, at most 200; a task takes another by name=,"
        " a class by work_type",
    ),
    (
        lambda work: is_name(work.queue, 200),
        "queue {work.queue!r} is not a name",
        "use a string of 1 to 200 characters",
    ),
    (
        lambda work: _is_whole(work.priority) and 0 <= work.priority <= 9,
        "priority {work.priority!r} is not within 0 to 9",
        "use Priority.LOW, NORMAL or HIGH, or a whole number from 0 to 9",
    ),
    (
        lambda work: _is_whole(work.weight) and 1 <= work.weight <= MOST_WEIGHT,
        f"weight {{work.weight!r}} is not a whole number from 1 to {MOST_WEIGHT}",
        "use 1 for an ordinary job, more for a heavy one",
    ),
    (
        lambda work: _is_whole(work.group_limit) and work.group_limit >= 1,
        "group_limit {work.group_limit!r} is below 1 or not whole",
        "use 1 to run the jobs of a group one at a time",
    ),
    (
        lambda work: isinstance(work.unique_mode, UniqueMode),
        "unique_mode {work.unique_mode!r} is not a UniqueMode",
        "use UniqueMode.KEEP, REPLACE, AGAIN, REJECT or ONCE",
    ),
    (
        lambda work: isinstance(work.expires, bool),
        "expires {work.expires!r} is neither True nor False",
        "use True to have not_after end a job that has not started",
    ),
    (
        lambda work: isinstance(work.redacted, bool),
        "redacted {work.redacted!r} is neither True nor False",
        "use True to hide payload and result from operators",
    ),
    (
        lambda work: isinstance(work.encrypted, bool),
        "encrypted {work.encrypted!r} is neither True nor False",
        "use True, and give the keys by TXQUEUE_PAYLOAD_KEY",
    ),
    (
        lambda work: isinstance(work.omit_defaults, bool),
        "omit_defaults {work.omit_defaults!r} is neither True nor False",
        "use True to leave fields out of payloads that equal their defaults",
    ),
    (
        lambda work: isinstance(work.retry, Retry),
        "retry {work.retry!r} is not a Retry",
        "use Retry(5) for five attempts in all, with delays between them",
    ),
    (
        lambda work: work.timeout is None or _is_positive(work.timeout),
        "timeout {work.timeout!r} is not within 0 and ten years of seconds",
        "give seconds, or None for no limit",
    ),
    (
        lambda work: work.heartbeat is None or _is_positive(work.heartbeat),
        "heartbeat {work.heartbeat!r} is not within 0 and ten years of seconds",
        "give seconds, or None for a handler that need not beat",
    ),
    (
        lambda work: isinstance(work.runtime, Runtime),
        "runtime {work.runtime!r} is not a Runtime",
        "use Runtime.TWISTED, Runtime.ASYNCIO or Runtime.THREAD",
    ),
    (
        lambda work: work.schedule is None or isinstance(work.schedule, Every | Cron | Cooldown),
        "schedule {work.schedule!r} is not a schedule",
        "use Every(60), Cron('0 3 * * *', tz='Europe/Berlin') or Cooldown(60)",
    ),
    (
        lambda work: not _hidden_policy(work),
        "the field {hidden} hides the policy of that name",
        "leave out the annotation if the policy is meant (queue = 'mail'); else rename the field",
    ),
    (
        lambda work: not inspect.isasyncgenfunction(work.perform),
        "perform is an asynchronous generator, because it yields",
        "return the result; to report partial work, call job.progress()",
    ),
    (
        lambda work: not inspect.isgeneratorfunction(work.perform),
        "perform is a generator, because it yields: nothing would run it",
        "return the result; or await instead of yield, in async def perform(self, job)",
    ),
    (
        lambda work: _takes_a_job(work.perform),
        "perform does not take the job",
        "write def perform(self, job), or async def",
    ),
    (
        lambda work: work.runtime is not Runtime.ASYNCIO or _is_coroutine(work.perform),
        "an asyncio handler must be a coroutine",
        "write async def perform(self, job)",
    ),
    (
        lambda work: work.runtime is not Runtime.THREAD or not _is_coroutine(work.perform),
        "a handler that runs in a thread must be a plain function",
        "write def perform(self, job)",
    ),
)
"""The rules for a class's policy: each has the check, the complaint and the remedy."""


def _check_policy(cls: type[WorkItem]) -> None:
    for limit in ("timeout", "heartbeat"):
        if isinstance(length := cls.__dict__.get(limit), timedelta):
            setattr(cls, limit, length.total_seconds())
    for holds, complaint, remedy in _RULES:
        if not holds(cls):
            text = complaint.format(work=cls, hidden=", ".join(_hidden_policy(cls)))
            raise InvalidWork(f"{cls.__qualname__}: {text}", remedy)
    for name, value in _constants(cls):
        try:
            checked_tags(value) if name == "tags" else check_constant(name, value)
        except InvalidWork as error:
            raise InvalidWork(f"{cls.__qualname__}: {error.what}", error.remedy) from None


def _constants(cls: type[WorkItem]) -> Iterator[tuple[str, object]]:
    """Yield each property of work items that the class sets to a value, the same for all jobs."""
    for name in (*KEYS, "tags"):
        value = inspect.getattr_static(cls, name)
        if inspect.isfunction(value):
            raise InvalidWork(
                f"{cls.__qualname__}: {name} is a method", "write @property above the method"
            )
        is_field = name in _annotated(cls) or isinstance(value, _FIELD)
        if value is not None and not is_field and not hasattr(value, "__get__"):
            yield name, value


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


def _takes_a_job(handler: object) -> bool:
    try:
        inspect.signature(cast("Callable[..., object]", handler)).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        # Callables that are not Python functions have no readable signature.
        return callable(handler)
    return True


def _is_coroutine(handler: object) -> bool:
    return inspect.iscoroutinefunction(handler)


def _is_positive(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= LONGEST_TIMEOUT
    )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _hidden_policy(cls: type) -> list[str]:
    return sorted(_POLICY.intersection(_annotated(cls)))


def _annotated(cls: type) -> list[str]:
    """Return the names that attrs takes for fields."""
    annotated = inspect.get_annotations(cls)
    return [name for name, kind in annotated.items() if "ClassVar" not in str(kind)]


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


def is_timeout(value: object) -> bool:
    """Tell whether a value is a time limit in seconds that a worker can enforce."""
    return type(value) in (int, float) and _is_positive(value)


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

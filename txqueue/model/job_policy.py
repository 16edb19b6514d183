"""The policy of a class of work items: its values, the retry policy, and the check of what a class
declares.

The pauses of services between attempts of their own are in `policy.backoff`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Set
from datetime import timedelta
from enum import Enum, IntEnum, StrEnum
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypedDict, cast

import attrs
from attrs import field, frozen

from txqueue.errors import InvalidWork
from txqueue.model.humanize import brief
from txqueue.model.job_filters import checked_tags
from txqueue.model.keys import KEYS, Key, check_constant
from txqueue.model.names_elsewhere import OF_CLASSES, said_elsewhere
from txqueue.model.schedule import Cooldown, Cron, Every, Schedule, seconds_of
from txqueue.model.storable import is_name, is_number, is_whole

if TYPE_CHECKING:
    from txqueue.model.work_item import WorkItem


LONGEST_TIMEOUT = 315_360_000
"""The longest timeout of a job, ten years in seconds, because reactors' timers have a limit."""

MOST_WEIGHT = 1_000_000
"""The largest weight of a job. The database refuses a larger one from SQL clients, too."""

MOST_GROUP_LIMIT = 1_000_000
"""The most jobs of a group that may run at a time."""


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


def is_timeout(value: object) -> bool:
    """Tell whether a value is a time limit in seconds that a worker can enforce."""
    return is_number(value) and 0 < cast("float", value) <= LONGEST_TIMEOUT


MOST_ATTEMPTS: Final = 32_767
"""The largest number of attempts that the database's smallint can count."""

DOUBLED: Final = 2.0
LONGEST_DELAY: Final = 3_155_760_000
"""The longest delay before a job runs again, a hundred years in seconds."""
LENGTHS: Final = (
    "0 to 100 years, as seconds or a timedelta; for a moment that may have passed, max(0, seconds)"
)
"""Which lengths of time a handler may pass."""


_Validator = Callable[[object, "attrs.Attribute[Any]", Any], None]


def length_in_seconds(length: Any) -> float | None:
    """Return a length of time that a handler has passed, in seconds; None if it is not valid."""
    if isinstance(length, timedelta):
        length = length.total_seconds()
    elif isinstance(length, str | bytes | bool):
        return None
    try:
        seconds = float(length)
    except (TypeError, ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds <= LONGEST_DELAY else None


def _refuse(name: str, value: object, wanted: str, example: str) -> InvalidWork:
    return InvalidWork(f"{name} of a Retry is {brief(value)}, not {wanted}", f"write {example}")


def _whole(least: int, most: int) -> _Validator:
    def check(_: object, attribute: attrs.Attribute[int], value: Any) -> None:
        if not is_whole(value, least, most):
            wanted = f"a whole number from {least} to {most:,}"
            raise _refuse(attribute.name, value, wanted, f"Retry({attribute.name}=5)")

    return check


def _number(wanted: str, holds: Callable[[float], bool]) -> _Validator:
    """Return the validator of a finite number.

    Args:
        wanted: Which numbers are valid, for people.
        holds: Tells whether a number is.
    """

    def check(_: object, attribute: attrs.Attribute[float], value: Any) -> None:
        if not is_number(value) or not holds(value):
            example = f"Retry({attribute.name}={attribute.default:g})"
            raise _refuse(attribute.name, value, wanted, example)

    return check


def _exceptions(_: object, attribute: attrs.Attribute[Any], value: object) -> None:
    kinds = value if isinstance(value, tuple) else (None,)
    if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
        wanted, example = "a tuple of exception classes", "Retry(fatal=(ValueError, KeyError))"
        raise _refuse(attribute.name, value, wanted, example)


def _flag(_: object, attribute: attrs.Attribute[bool], value: object) -> None:
    if not isinstance(value, bool):
        raise _refuse(attribute.name, value, "True or False", "Retry(first=300, linear=True)")


@frozen
class Retry:
    """A retry policy: exponential or linear backoff with jitter.

    Attributes:
        attempts: How many runs a job gets in all, at most 32,767; 1 means no retry.
        first: Seconds before the second attempt; a number or a timedelta.
        factor: The ratio of each delay to the one before.
        linear: Whether each delay is longer than the one before by ``first`` instead: with
            ``Retry(first=300, linear=True)`` they are 5, 10, 15 minutes.
        longest: The longest delay in seconds; a number or a timedelta.
        jitter: The fraction, 0 to 1, by which each delay is randomly lengthened or shortened,
            so that jobs that failed together are not retried together.
        fatal: Exception classes that make the job fail at once, without a retry.

    Raises:
        InvalidWork: When a value is not valid.
    """

    attempts: int = field(default=10, validator=_whole(1, MOST_ATTEMPTS))
    first: float = field(
        default=1.0,
        converter=seconds_of,
        validator=_number("a number of seconds from 0 on", lambda value: value >= 0),
    )
    factor: float = field(
        default=DOUBLED, validator=_number("a number from 1 on", lambda value: value >= 1)
    )
    longest: float = field(
        default=3600.0,
        converter=seconds_of,
        validator=_number(
            "seconds above 0, at most a hundred years", lambda value: 0 < value <= LONGEST_DELAY
        ),
    )
    jitter: float = field(
        default=0.2, validator=_number("a number from 0 to 1", lambda value: 0 <= value <= 1)
    )
    fatal: tuple[type[BaseException], ...] = field(default=(), validator=_exceptions)
    linear: bool = field(default=False, validator=_flag, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if self.linear and self.factor != DOUBLED:
            raise InvalidWork("factor has no effect on linear delays", "leave out factor or linear")

    def delay(self, failures: int, chance: float) -> float:
        """Return how long to wait after a failed attempt.

        Args:
            failures: The number of failed attempts so far, at least 1.
            chance: A random number in [0, 1) that decides the jitter.

        Returns:
            Seconds.
        """
        base = min(self._unbounded(failures), self.longest)
        return min(base * (1 + self.jitter * (2 * chance - 1)), self.longest)

    def _unbounded(self, failures: int) -> float:
        if self.linear:
            return self.first * failures
        # A larger power would overflow a float; longest caps the delay anyway.
        power = min(failures - 1, 500)
        try:
            return self.first * self.factor**power
        except OverflowError:
            return self.longest if self.first else 0.0

    def is_spent(self, failures: int) -> bool:
        """Tell whether no attempt is left after a number of failed ones."""
        return failures >= self.attempts


@frozen
class Rate:
    """How fast the jobs of one group may start, on all nodes together.

    In any t seconds jobs start whose weights are ``burst + t * jobs / per`` at most, and one more.
    What a handler sets as ``job.cost`` counts instead once it ends: later jobs wait for it.

    Attributes:
        jobs: How many jobs of weight 1 start in ``per``.
        per: A number of seconds or a timedelta.
        burst: How many may start at once after a pause, 1 to 1,000,000.

    Raises:
        InvalidWork: When a value is not valid.
    """

    jobs: float
    per: float = field(default=1.0, converter=seconds_of)
    burst: int = 1

    def __attrs_post_init__(self) -> None:
        are_numbers = is_number(self.jobs) and is_number(self.per) and self.per > 0
        if not are_numbers or not 1e-6 <= self.a_second <= 1e6:
            raise InvalidWork(
                f"{brief(self)} is not a rate of 0.000001 to 1,000,000 jobs a second",
                "write Rate(60, per=60) for 60 jobs a minute",
            )
        if not is_whole(self.burst, 1, MOST_GROUP_LIMIT):
            raise InvalidWork(
                f"burst of {brief(self)} is not a whole number from 1 to 1,000,000",
                "write Rate(60, per=60, burst=5)",
            )

    @property
    def a_second(self) -> float:
        """How many jobs start in a second."""
        return self.jobs / self.per


# What a class has in place of a field until attrs makes it.
class JobPolicy(TypedDict, total=False):
    """The policy of the jobs of a function: each is the attribute of `WorkItem` of that name."""

    weight: int
    retry: Retry
    timeout: float | timedelta | None
    heartbeat: float | timedelta | None
    group: str | Key
    group_limit: int
    group_rate: Rate | None
    tenant: str | Key
    tags: Mapping[str, str]
    unique: str | Key
    unique_mode: UniqueMode
    expires: bool
    redacted: bool
    encrypted: bool
    schedule: Schedule | None


_FIELD = type(attrs.field())
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:<>-]{0,199}")
# The check, the complaint and the remedy.
_Rule: TypeAlias = "tuple[Callable[[type[WorkItem]], object], str, str]"


def _of_kind(name: str, kind: Any, wrong: str, remedy: str) -> _Rule:
    """Return the rule of an attribute whose values are of some types."""
    complaint = f"{name} {{work.{name}!r}} is {wrong}"
    return lambda work: isinstance(getattr(work, name), kind), complaint, remedy


def _of_flag(name: str, use: str) -> _Rule:
    return _of_kind(name, bool, "neither True nor False", f"use True{use}")


def _of_number(name: str, most: int, remedy: str) -> _Rule:
    complaint = f"{name} {{work.{name}!r}} is not a whole number from 1 to {most}"
    return lambda work: is_whole(getattr(work, name), 1, most), complaint, remedy


def _of_length(name: str, remedy: str) -> _Rule:
    def holds(work: type[WorkItem]) -> bool:
        return getattr(work, name) is None or is_timeout(getattr(work, name))

    complaint = f"{name} {{work.{name}!r}} is not within 0 and ten years of seconds"
    return holds, complaint, f"give seconds, or None for {remedy}"


_OF_VALUES: tuple[_Rule, ...] = (
    (
        lambda work: is_name(work.work_type, 200) and _NAME.fullmatch(work.work_type),
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
        lambda work: is_whole(work.priority, 0, 9),
        "priority {work.priority!r} is not within 0 to 9",
        "use Priority.LOW, NORMAL or HIGH, or a whole number from 0 to 9",
    ),
    _of_number("weight", MOST_WEIGHT, "use 1 for an ordinary job, more for a heavy one"),
    _of_number("group_limit", MOST_GROUP_LIMIT, "use 1 to run the jobs of a group one at a time"),
    _of_kind("group_rate", Rate | None, "not a Rate", "use Rate(60, per=60) for 60 jobs a minute"),
    _of_kind(
        "unique_mode",
        UniqueMode,
        "not a UniqueMode",
        "use UniqueMode.KEEP, REPLACE, AGAIN, REJECT or ONCE",
    ),
    _of_flag("expires", " to have not_after end a job that has not started"),
    _of_flag("redacted", " to hide payload and result from operators"),
    _of_flag("encrypted", ", and give the keys by TXQUEUE_PAYLOAD_KEY"),
    _of_flag("omit_defaults", " to leave fields out of payloads that equal their defaults"),
    _of_kind(
        "retry",
        Retry,
        "not a Retry",
        "use Retry(5) for five attempts in all, with delays between them",
    ),
    _of_length("timeout", "no limit"),
    _of_length("heartbeat", "a handler that need not beat"),
    _of_kind(
        "runtime",
        Runtime,
        "not a Runtime",
        "use Runtime.TWISTED, Runtime.ASYNCIO or Runtime.THREAD",
    ),
    _of_kind(
        "schedule",
        Every | Cron | Cooldown | None,
        "not a schedule",
        "use Every(60), Cron('0 3 * * *', tz='Europe/Berlin') or Cooldown(60)",
    ),
)
_OF_HANDLERS: tuple[_Rule, ...] = (
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
        lambda work: work.runtime is not Runtime.ASYNCIO or iscoroutinefunction(work.perform),
        "an asyncio handler must be a coroutine",
        "write async def perform(self, job)",
    ),
    (
        lambda work: work.runtime is not Runtime.THREAD or not iscoroutinefunction(work.perform),
        "a handler that runs in a thread must be a plain function",
        "write def perform(self, job)",
    ),
)


def check_policy(cls: type[WorkItem], names: Set[str]) -> None:
    """Check the attributes of a class that are its policy, and make lengths of time seconds.

    Args:
        cls: The class.
        names: The names of all attributes that are policy.

    Raises:
        InvalidWork: When one is not valid.
    """
    for limit in ("timeout", "heartbeat"):
        if isinstance(length := cls.__dict__.get(limit), timedelta):
            setattr(cls, limit, length.total_seconds())
    _check(cls, _OF_VALUES)
    if hidden := sorted(names & set(_annotated(cls))):
        raise InvalidWork(
            f"{cls.__qualname__}: the field {', '.join(hidden)} hides the policy of that name",
            "leave out the annotation if the policy is meant (queue = 'mail'); else rename the"
            " field",
        )
    _check(cls, _OF_HANDLERS)
    _check_names(cls)
    for name, value in _constants(cls):
        try:
            checked_tags(value) if name == "tags" else check_constant(name, value)
        except InvalidWork as error:
            raise InvalidWork(f"{cls.__qualname__}: {error.what}", error.remedy) from None


def _check(cls: type[WorkItem], rules: tuple[_Rule, ...]) -> None:
    for holds, complaint, remedy in rules:
        if not holds(cls):
            raise InvalidWork(f"{cls.__qualname__}: {complaint.format(work=cls)}", remedy)


def _check_names(cls: type[WorkItem]) -> None:
    """Check that the class sets nothing by a name that another queue has for a policy."""
    annotated = {name for base in cls.__mro__ for name in inspect.get_annotations(base)}
    for name in OF_CLASSES.keys() - annotated:
        value = inspect.getattr_static(cls, name, None)
        if value is not None and not isinstance(value, _FIELD) and not hasattr(value, "__get__"):
            raise InvalidWork(
                f"{cls.__qualname__}: nothing reads {name}, which is no policy of txqueue",
                f"{said_elsewhere(name)}; an attribute of your own has an annotation:"
                f" {name}: ClassVar[...]",
            )


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


def _takes_a_job(handler: object) -> bool:
    try:
        inspect.signature(cast("Callable[..., object]", handler)).bind(None, None)
    except TypeError:
        return False
    except ValueError:
        # Callables that are not Python functions have no readable signature.
        return callable(handler)
    return True


def _annotated(cls: type) -> list[str]:
    """Return the names that attrs takes for fields."""
    annotated = inspect.get_annotations(cls)
    return [name for name, kind in annotated.items() if "ClassVar" not in str(kind)]

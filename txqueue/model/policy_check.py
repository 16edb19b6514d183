"""Checks the policy that a class of work items declares."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Set
from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias, cast

import attrs

from txqueue.errors import InvalidWork
from txqueue.model.job_policy import (
    LONGEST_TIMEOUT,
    MOST_GROUP_LIMIT,
    MOST_WEIGHT,
    Runtime,
    UniqueMode,
)
from txqueue.model.keys import KEYS, check_constant
from txqueue.model.names_elsewhere import OF_CLASSES, said_elsewhere
from txqueue.model.retry import Retry
from txqueue.model.schedule import Cooldown, Cron, Every
from txqueue.model.storable import is_name
from txqueue.model.tags import checked_tags

if TYPE_CHECKING:
    from txqueue.model.work_item import WorkItem

__all__ = ["check_policy"]

# What a class has in place of a field until attrs makes it.
_FIELD = type(attrs.field())
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:<>-]{0,199}")
# The check, the complaint and the remedy.
_Rule: TypeAlias = "tuple[Callable[[type[WorkItem]], object], str, str]"
_OF_VALUES: tuple[_Rule, ...] = (
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
        lambda work: _is_whole(work.group_limit) and 1 <= work.group_limit <= MOST_GROUP_LIMIT,
        f"group_limit {{work.group_limit!r}} is not a whole number from 1 to {MOST_GROUP_LIMIT}",
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
        lambda work: work.timeout is None or _is_length(work.timeout),
        "timeout {work.timeout!r} is not within 0 and ten years of seconds",
        "give seconds, or None for no limit",
    ),
    (
        lambda work: work.heartbeat is None or _is_length(work.heartbeat),
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


def _is_coroutine(handler: object) -> bool:
    return inspect.iscoroutinefunction(handler)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _annotated(cls: type) -> list[str]:
    """Return the names that attrs takes for fields."""
    annotated = inspect.get_annotations(cls)
    return [name for name, kind in annotated.items() if "ClassVar" not in str(kind)]


def _is_length(value: object) -> bool:
    return (
        isinstance(value, int | float)
        and not isinstance(value, bool)
        and 0 < value <= LONGEST_TIMEOUT
    )

"""What a handler may raise or return to decide its job's outcome, and what the application has run
around handlers: middleware, and hooks for failed attempts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final, TypeAlias, TypeVar, Unpack, overload

from attrs import field, frozen

from txqueue.errors import InvalidWork
from txqueue.model.enqueue_options import EnqueueOptions
from txqueue.model.humanize import brief
from txqueue.model.job_policy import LENGTHS, length_in_seconds
from txqueue.model.work_item import WorkItem


def snooze_delay(delay: Any, what: str = "a job cannot snooze for") -> float:
    """Return the delay of a snooze in seconds.

    Args:
        delay: The delay.
        what: Begins the error, before the delay.

    Raises:
        ValueError: When it is negative, longer than a hundred years, or no number.
    """
    seconds = length_in_seconds(delay)
    if seconds is None:
        raise ValueError(f"{what} {brief(delay)}: pass {LENGTHS}")
    return seconds


class Snooze(Exception):
    """Raised or returned by a handler to run its job again after a delay, as the same attempt.

    Args:
        delay: A number of seconds or a timedelta, from 0 to a hundred years.

    Raises:
        ValueError: When the delay is negative, too long or not a number.
    """

    def __init__(self, delay: float | timedelta) -> None:
        super().__init__(delay)
        self.delay = snooze_delay(delay)


class Throttled(Snooze):
    """Raised or returned by a handler that a service has refused for now, as by HTTP status 429.

    The job runs again after the delay, as the same attempt. Until then no other job of its group
    starts on any node; without a group, of its tenant; with neither, of its queue. After a thousand
    in a row the job fails.

    Args:
        retry_after: A number of seconds or a timedelta, from 0 to a hundred years.

    Raises:
        ValueError: When the delay is negative, too long or not a number.
    """

    def __init__(self, retry_after: float | timedelta) -> None:
        super().__init__(snooze_delay(retry_after, "the retry_after of Throttled cannot be"))


class Discard(Exception):
    """Raised or returned by a handler to end its job as cancelled: its work is no longer needed.

    Args:
        reason: Stored with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Fail(Exception):
    """Raised or returned by a handler to end its job as failed, even if attempts are left.

    Args:
        reason: Stored with the job.
    """

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = str(reason)


class Next(Exception):
    """Raised or returned by a handler to continue its job as other work, with new attempts.

    The job keeps its number and ends with its last stage: until then it holds its unique key, and
    callers that wait for it go on waiting. Queue, priority, group and other policy are those of the
    new work. A handler that completes its job in ``job.transaction()`` calls ``job.then`` instead.

    Args:
        work: The next stage.
        options: As for ``WorkQueue.enqueue``, except unique keys and ``after``.

    Raises:
        ValueError: When an option is about other jobs.
    """

    def __init__(self, work: WorkItem, **options: Unpack[EnqueueOptions]) -> None:
        super().__init__(work)
        self.work = work
        self.options = options
        if excluded := {"unique", "unique_mode", "after", "after_any_end"} & options.keys():
            raise ValueError(f"a next stage has no option {', '.join(sorted(excluded))}")


DIRECTIVES: Final = (Snooze, Throttled, Discard, Fail, Next)
"""All directives."""


@frozen
class FailedAttempt:
    """A run of a job that failed.

    Attributes:
        job_id: The job's number.
        work_type: The job's work type.
        attempt: The number of the run, from 1.
        attempts: How many runs the job gets in all; None for no effective limit.
        delay: Seconds until the next run; None if the job has failed for good.
        error: The exception that the handler raised, with its traceback.
        redacted: Whether the work type's data must not be shown; the error's text may quote it.
        text: The error as it is stored with the job; `txqueue failures` groups by it.
    """

    job_id: int
    work_type: str
    attempt: int
    attempts: int | None
    delay: float | None
    error: BaseException = field(repr=False)
    redacted: bool = False
    text: str = field(default="", repr=False)

    @property
    def is_final(self) -> bool:
        """Whether the job has failed for good."""
        return self.delay is None


FailureHook: TypeAlias = Callable[[FailedAttempt], object]

_hooks: list[FailureHook] = []


def on_failure(hook: FailureHook) -> FailureHook:
    """Register a function that the worker calls for each failed attempt; usable as a decorator.

    The function must not block, as it runs in the worker's reactor. An exception of the function is
    logged and does not affect the job. Register it in a module that ``--app`` imports.

    Args:
        hook: Called with a `FailedAttempt`. What it returns is ignored.

    Returns:
        The function itself.
    """
    if hook not in _hooks:
        _hooks.append(hook)
    return hook


def failure_hooks() -> tuple[FailureHook, ...]:
    """Return the registered functions, in the order of registration."""
    return tuple(_hooks)


Layer = Callable[[Callable[[], Any], Any], Any]
"""A middleware: called with `call_next` and the job."""
M = TypeVar("M", bound=Layer)


@frozen
class _Registered:
    layer: Layer
    order: int
    is_coroutine: bool


_registered: list[_Registered] = []


@overload
def middleware(function: M, /, *, order: int = 0) -> M: ...


@overload
def middleware(*, order: int = 0) -> Callable[[M], M]: ...


def middleware(function: M | None = None, /, *, order: int = 0) -> M | Callable[[M], M]:
    """Register a function that runs around each handler; usable as a decorator.

    ``async def m(call_next, job)`` runs around handlers of all runtimes: ``await call_next()``
    returns what the handler returns, and raises what it raises. ``def m(call_next, job)`` runs
    around functions in threads, in the same thread, and gets the value of ``call_next()``. What the
    middleware returns or raises takes the place of what the handler did; None keeps that. Without
    ``call_next()`` it must return or raise an outcome. For a workset it runs around each part.
    Register it in a module that ``--app`` imports.

    Args:
        function: The middleware.
        order: A lower one is further outside; of equal ones, the first that was registered.

    Returns:
        The function itself.

    Raises:
        InvalidWork: When it cannot be called with two arguments.
    """

    def register(function: M) -> M:
        _check(function)
        if all(known.layer is not function for known in _registered):
            _registered.append(_Registered(function, order, _is_coroutine(function)))
            _registered.sort(key=lambda known: known.order)
        return function

    return register if function is None else register(function)


def coroutine_layers() -> tuple[Layer, ...]:
    """Return the middleware that is a coroutine, the outermost first."""
    return tuple(known.layer for known in _registered if known.is_coroutine)


def thread_layers() -> tuple[Layer, ...]:
    """Return the middleware that runs in the threads of handlers, the outermost first."""
    return tuple(known.layer for known in _registered if not known.is_coroutine)


def _is_coroutine(function: Any) -> bool:
    # An object may be called by a method.
    return any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))


def _check(function: Layer) -> None:
    try:
        inspect.signature(function).bind(None, None)
    except (TypeError, ValueError):
        raise InvalidWork(
            f"the middleware {function!r} cannot be called with call_next and the job",
            "write async def m(call_next, job), or def m(call_next, job) for threads",
        ) from None

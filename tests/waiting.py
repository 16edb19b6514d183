"""Waiting in tests, always for a limited time.

A pytest-timeout would stop the reactor, and with it every later test; so each async test
is bounded from inside (`DEFAULT_LIMIT`, or its mark `bounded(seconds)`), and `eventually`
waits for what other processes do.
"""

import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Final, TypeVar, cast, overload

from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

T = TypeVar("T")

DEFAULT_LIMIT: Final = 120.0
# To ask a hundred times a second costs more than what most tests wait for.
SHORTEST, LONGEST, GROWTH = 0.01, 0.05, 1.2


def running_reactor() -> Any:
    """Return the reactor; importing it only here leaves its choice to pytest-twisted.

    Returns:
        The global reactor. Its interfaces are zope's, which mypy cannot check it against.
    """
    from twisted.internet import reactor

    return reactor


def pause(seconds: float) -> Deferred[None]:
    """Let the reactor run.

    Args:
        seconds: For how long; 0 is one turn.

    Returns:
        Fires when the time is over.
    """
    return deferLater(running_reactor(), seconds, lambda: None)


def within(seconds: float, awaitable: Awaitable[T]) -> Deferred[T]:
    """Bound something: when the time is over, it is cancelled and `TimeoutError` raised.

    Args:
        seconds: How long it may take.
        awaitable: A coroutine or a Deferred.

    Returns:
        Fires with its result.
    """

    async def run() -> T:
        return await awaitable

    def too_late(result: object, limit: float) -> Failure:
        error = TimeoutError(f"not done within {limit:g} s")
        error.__cause__ = result.value if isinstance(result, Failure) else None
        return Failure(error)

    return Deferred.fromCoroutine(run()).addTimeout(seconds, running_reactor(), too_late)


@overload
async def eventually(predicate: Callable[[], Awaitable[T]], timeout: float = ...) -> T: ...


@overload
async def eventually(predicate: Callable[[], T], timeout: float = ...) -> T: ...


async def eventually(predicate: Callable[[], T | Awaitable[T]], timeout: float = 60.0) -> T:
    """Ask again and again until the answer is true.

    Args:
        predicate: A function or a coroutine function.
        timeout: How many seconds to go on asking; it is asked at least twice.

    Returns:
        The first true answer.

    Raises:
        AssertionError: There was none; the message has the last answer.
    """
    deadline = time.monotonic() + timeout
    step = SHORTEST
    while True:
        last = time.monotonic() >= deadline
        answer = predicate()
        value = await answer if isawaitable(answer) else answer
        if value:
            return cast("T", value)
        if last:
            raise AssertionError(f"not within {timeout:g} s: {predicate!r} says {value!r}")
        await pause(step)
        step = min(step * GROWTH, LONGEST)

"""Handlers that wait: how they end, and how they are cancelled, even those that swallow it.

What a handler returns or raises travels in an `Ended`: Twisted and asyncio call methods of results
and exceptions, and an object of the application may raise in them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from functools import partial
from typing import Any, Final, cast

from attrs import define, frozen
from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from txqueue.model.foreign import class_name, derives_from, is_a, looked, text_of
from txqueue.policy.endings.tracebacks import traceback_of
from txqueue.store.driver.awaitables import ForTask

# How often a coroutine may await something that Twisted cannot wait for, after errors about it.
MOST_REFUSALS: Final = 10
# The error of asyncio for a coroutine that awaits a Deferred.
_BAD_YIELD: Final = "Task got bad yield: <Deferred"


@frozen(eq=False, repr=False)
class Ended:
    """How a handler ended.

    Attributes:
        value: What it returned.
        error: What it raised; None if it returned.
    """

    value: Any = None
    error: Any = None

    @classmethod
    def by(cls, failure: Failure) -> Ended:
        """Return the end by a failure of Twisted's."""
        error = looked(lambda: failure.value, None)
        if is_a(error, BaseException):
            return cls(error=error)
        return cls(error=RuntimeError("the handler failed without an error message"))

    def get(self) -> Any:
        """Return what the handler returned, or raise what it raised."""
        if self.error is not None:
            raise self.error
        return self.value


@define(eq=False)
class Waiting:
    """A handler that waits.

    Attributes:
        ending: Fires with an `Ended`.
        cancel: Cancels what the handler awaits now.
        close: Ends a coroutine that goes on after it was cancelled; it does not run any more.
        turns: Returns how often the handler has gone on, as far as that can be seen.
    """

    ending: Deferred[Ended]
    cancel: Callable[[], object]
    close: Callable[[], object] = lambda: None
    turns: Callable[[], int] = lambda: 0


def called(function: Callable[..., Any], *args: Any) -> Ended:
    """Call a function, and return how it ended."""
    try:
        return Ended(function(*args))
    except BaseException as error:
        return Ended(error=error)


async def awaited(coroutine: Coroutine[Any, Any, Any]) -> Ended:
    """Await a coroutine, and return how it ended."""
    try:
        return Ended(await coroutine)
    except GeneratorExit:
        raise
    except BaseException as error:
        return Ended(error=error)


def waiting_for(deferred: Deferred[Any]) -> Waiting:
    """Return a handler that has returned a Deferred."""
    ending: Deferred[Ended] = Deferred()

    def ended(end: Ended) -> None:
        if not ending.called:
            ending.callback(end)

    deferred.addCallbacks(
        lambda value: ended(Ended(value)), lambda failure: ended(Ended.by(failure))
    )
    return Waiting(ending, deferred.cancel, turns=lambda: int(ending.called))


def driven(context: Context, coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Drive a coroutine of Twisted's to its first wait, all its steps in one context.

    Most end without a wait, and so need no Deferred.

    Returns:
        What the coroutine returns; a `Waiting` if it waits.
    """
    try:
        first = _waitable(context, coroutine, context.run(coroutine.send, None))
    except StopIteration as stop:
        return stop.value
    closable = _Closable(coroutine, context, first)
    ending = Deferred.fromCoroutine(awaited(closable))
    return Waiting(ending, ending.cancel, closable.close, closable.turns)


def _waitable(context: Context, coroutine: Coroutine[Any, Any, Any], awaited: Any) -> Any:
    """Return the Deferred that a coroutine awaits; fail one that awaits anything else."""
    if type(awaited) is Deferred:
        return awaited
    for _ in range(MOST_REFUSALS):
        if derives_from(awaited, Deferred):
            return awaited
        go_on = partial(coroutine.send, awaited)
        if not derives_from(awaited, ForTask):
            go_on = partial(coroutine.throw, _unfit())
        awaited = context.run(go_on)
    context.run(coroutine.close)
    raise _unfit()


def _unfit() -> TypeError:
    return TypeError(
        "the handler awaits something of asyncio's; declare runtime = Runtime.ASYNCIO,"
        " or await Deferreds only"
    )


def waiting_for_task(coroutine: Coroutine[Any, Any, Any]) -> Waiting:
    """Run a coroutine of asyncio's."""
    closable = _Closable(coroutine)
    task = asyncio.ensure_future(_ended_in_asyncio(closable))
    ending: Deferred[Ended] = Deferred.fromFuture(task)
    # A task that is cancelled before its first step runs nothing that could return an `Ended`.
    ending.addErrback(lambda failure: Ended(error=_of_asyncio(Ended.by(failure).error)))
    return Waiting(ending, task.cancel, closable.close, closable.turns)


class _Closable(Coroutine[Any, Any, Any]):
    """A handler's coroutine that never continues once it is closed.

    Args:
        coroutine: The coroutine.
        context: The context of a coroutine of Twisted's; asyncio has one for each task.
        awaited: What it awaits, if it was driven to its first wait.
    """

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        context: Context | None = None,
        awaited: Deferred[Any] | None = None,
    ) -> None:
        self._coroutine = coroutine
        self._context = context
        self._awaited = awaited
        self._turns = 0
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether the coroutine is closed."""
        return self._is_closed

    def turns(self) -> int:
        """Return how often the coroutine was continued."""
        return self._turns

    def __await__(self) -> Generator[Any, Any, Any]:
        return cast("Generator[Any, Any, Any]", self)

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        """Continue the coroutine."""
        awaited, self._awaited = self._awaited, None
        return self._go_on(self._coroutine.send, value) if awaited is None else awaited

    def throw(self, *error: Any) -> Any:
        """Continue the coroutine with an error."""
        return self._go_on(self._coroutine.throw, *error)

    def close(self) -> None:
        """Close the coroutine; one that swallows GeneratorExit is never continued either."""
        self._is_closed = True
        if self._context is None:
            _close(self._coroutine)
        else:
            self._context.run(_close, self._coroutine)

    def _go_on(self, function: Callable[..., Any], *args: Any) -> Any:
        self._turns += 1
        if self._is_closed:
            raise asyncio.CancelledError if self._context is None else CancelledError
        if self._context is None:
            return function(*args)
        awaited = self._context.run(function, *args)
        return _waitable(self._context, self._coroutine, awaited)


# Coroutines that swallow GeneratorExit: their memory must not be freed, which would continue them.
_UNENDING: list[Coroutine[Any, Any, Any]] = []


def _close(coroutine: Coroutine[Any, Any, Any]) -> None:
    try:
        coroutine.close()
    except RuntimeError:
        _UNENDING.append(coroutine)


async def _ended_in_asyncio(coroutine: _Closable) -> Ended:
    try:
        ended = await awaited(coroutine)
    except GeneratorExit as error:
        if coroutine.is_closed:
            raise
        ended = Ended(error=error)
    return ended if ended.error is None else Ended(error=_of_asyncio(ended.error))


def _of_asyncio(error: BaseException) -> BaseException:
    """Return the error of an asyncio handler in Twisted's terms."""
    if is_a(error, asyncio.CancelledError):
        text = text_of(error)
        cancelled = CancelledError(text) if text else CancelledError()
        return cancelled.with_traceback(traceback_of(error))
    if is_a(error, SystemExit, KeyboardInterrupt):
        other = RuntimeError(f"the handler raised {class_name(error)}: {text_of(error)}")
        other.__cause__ = error
        return other
    if is_a(error, RuntimeError) and text_of(error).startswith(_BAD_YIELD):
        misfit = TypeError(
            "the handler awaits a Deferred; leave out runtime = Runtime.ASYNCIO,"
            " or await deferred.asFuture(asyncio.get_running_loop())"
        )
        misfit.__cause__ = error
        return misfit
    return error

"""Calls that act only once they are awaited, and what is said of those that were not."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from functools import partial, wraps
from inspect import iscoroutinefunction
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast

from attrs import define, field

from txqueue.errors import TxqueueError

P = ParamSpec("P")
R = TypeVar("R")


@define(eq=False, repr=False)
class AwaitedCalls:
    """The calls of one object that were not awaited yet.

    Args:
        of: The object, by the name that it has in handlers.
        error: The class of the error for one that is not awaited.
        shows: How many arguments of a call the error shows.
        lets_go: Tells whether calls may be dropped now that were to be awaited later.

    Attributes:
        made: What begins each of the calls.
        forgotten: What begins the first of those to which nothing refers any more; None for none.
    """

    _of: str
    _error: type[TxqueueError]
    _shows: int = 0
    _lets_go: Callable[[], bool] = lambda: False
    made: set[partial[Any]] = field(factory=set, init=False)
    forgotten: partial[Any] | None = field(default=None, init=False)

    def check(self) -> None:
        """Check at the end that all calls were awaited.

        Raises:
            TxqueueError: When one was not, and so has done nothing.
        """
        for begin in (self.forgotten, *self.made):
            if begin is not None:
                raise self.refusal(begin)

    def on_dropped(self, begin: partial[Any]) -> None:
        """Note that nothing refers any more to a call that was not awaited, or not entered."""
        if self.forgotten is None and not self._lets_go():
            self.forgotten = begin

    def refusal(self, begin: partial[Any]) -> TxqueueError:
        """Return the error for a call that was not awaited, or not entered."""
        shown = "".join(f"{value!r:.50}, " for value in begin.args[1 : 1 + self._shows])
        text = f"{self._of}.{begin.func.__name__}({shown}...)"
        if iscoroutinefunction(begin.func):
            missed, remedy = "awaited", f"write: await {text}"
        else:
            missed, remedy = "entered", f"write: async with {text}; in a thread, with {text}"
        return self._error(f"{text} was not {missed}, so it has done nothing", remedy)


class _HasCalls(Protocol):
    @property
    def unawaited(self) -> AwaitedCalls: ...


S = TypeVar("S", bound=_HasCalls)


class AwaitedCall(Generic[R]):
    """A call of a method that is a coroutine, which has no truth.

    asyncio and Twisted take it for a coroutine, as it has the methods of one.

    Args:
        calls: Has the call until it is awaited.
        begin: Returns the coroutine.
    """

    __slots__ = ("_calls", "_coroutine", "begin")

    def __init__(self, calls: AwaitedCalls, begin: partial[Coroutine[Any, Any, R]]) -> None:
        self._calls = calls
        self.begin = begin
        self._coroutine: Coroutine[Any, Any, R] | None = None
        calls.made.add(begin)

    def __bool__(self) -> bool:
        raise self._calls.refusal(self.begin)

    def __del__(self) -> None:
        if self._coroutine is None:
            self._calls.on_dropped(self.begin)

    def __await__(self) -> Generator[Any, Any, R]:
        return self.begun().__await__()

    def send(self, value: Any) -> Any:
        """Continue the call."""
        return self.begun().send(value)

    def throw(self, *error: Any) -> Any:
        """Continue the call with an error."""
        return self.begun().throw(*error)

    def close(self) -> None:
        """End the call."""
        self.begun().close()

    def begun(self) -> Coroutine[Any, Any, R]:
        """Return the coroutine; from now on the call counts as awaited."""
        if self._coroutine is None:
            self._calls.made.discard(self.begin)
            self._coroutine = self.begin()
        return self._coroutine


def awaited(
    method: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, R]]:
    """Have the calls of a method noted until they are awaited."""

    @wraps(method)
    def call(self: S, /, *args: P.args, **named: P.kwargs) -> Coroutine[Any, Any, R]:
        begin = partial(method, self, *args, **named)
        return cast("Coroutine[Any, Any, R]", AwaitedCall(self.unawaited, begin))

    return call

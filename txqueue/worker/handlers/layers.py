"""Handlers with the application's middleware around them."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Final

from twisted.internet.defer import Deferred

from txqueue.model.directives import DIRECTIVES
from txqueue.model.foreign import class_name, derives_from, is_a, looked
from txqueue.model.middleware import Layer
from txqueue.store.enqueueing.awaited_calls import AwaitedCall

__all__ = ["ended", "is_coroutine", "layered", "layered_awaited"]

Call = Callable[[], Any]
_NOTHING: Final = object()


class _Next:
    """The `call_next` of one middleware and one run; usable once, as the handler runs once."""

    __slots__ = ("_awaited", "_call", "_value")

    def __init__(self, call: Call) -> None:
        self._call: Call | None = call
        self._awaited: Coroutine[Any, Any, Any] | None = None
        self._value: Any = _NOTHING

    def __call__(self) -> Any:
        call = self._taken()
        try:
            self._value = call()
        except BaseException as error:
            self._note(error)
            raise
        return self._value

    def _taken(self) -> Call:
        call, self._call = self._call, None
        if call is None:
            raise RuntimeError("call_next() was called twice; to run again, raise an error")
        return call

    def _note(self, error: BaseException) -> None:
        self._value = error if is_a(error, *DIRECTIVES) else None

    def passed(self, value: Any, layer: Layer) -> Any:
        """Return what a middleware has returned, or else what the handler has come to.

        Raises:
            RuntimeError: When the middleware has left out the handler without another outcome.
        """
        if self._value is _NOTHING and (value is None or self._call is None):
            name = looked(lambda: layer.__name__, class_name(layer))
            done = "called" if self._call else "awaited"
            if self._awaited is not None:
                self._awaited.close()
            raise RuntimeError(
                f"the middleware {name} has not {done} call_next(), so the handler has not run;"
                " end it by: return await call_next(), without await in threads; or return or"
                " raise another outcome, such as Discard"
            )
        return self._value if value is None else value


class _AwaitedNext(_Next):
    """The same of a middleware that is a coroutine."""

    __slots__ = ()

    def __call__(self) -> Any:
        self._awaited = self._await(self._taken())
        return self._awaited

    async def _await(self, call: Call) -> Any:
        try:
            self._value = await call()
        except BaseException as error:
            self._note(error)
            raise
        return self._value


def layered(layers: Sequence[Layer], call: Call, job: Any) -> Call:
    """Return a call with middleware of threads around it, the first one outermost."""
    for layer in reversed(layers):
        call = partial(_passed_through, layer, call, job)
    return call


def _passed_through(layer: Layer, call: Call, job: Any) -> Any:
    call_next = _Next(call)
    return call_next.passed(layer(call_next, job), layer)


def layered_awaited(layers: Sequence[Layer], call: Call, job: Any) -> Call:
    """Return a call with middleware that is coroutines around it, the first one outermost."""
    for layer in reversed(layers):
        call = partial(_awaited_through, layer, call, job)
    return call


async def _awaited_through(layer: Layer, call: Call, job: Any) -> Any:
    call_next = _AwaitedNext(call)
    return call_next.passed(await layer(call_next, job), layer)


def is_coroutine(value: object) -> bool:
    """Tell whether a handler has returned a coroutine."""
    return is_a(value, CoroutineType, AwaitedCall)


async def ended(value: Any) -> Any:
    """Wait for what a handler has returned, if that is a coroutine or a Deferred."""
    is_awaited = is_coroutine(value) or derives_from(value, Deferred)
    return await value if is_awaited else value

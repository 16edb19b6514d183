"""Middleware: functions of the application around each handler of this process."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from attrs import frozen

from txqueue.errors import InvalidWork

__all__ = ["Layer", "coroutine_layers", "middleware", "thread_layers"]

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

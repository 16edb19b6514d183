"""Handlers with the application's middleware around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any

from twisted.internet.defer import Deferred

from txqueue.model.foreign import derives_from, is_a
from txqueue.model.middleware import Layer

__all__ = ["awaiting", "layered"]

Call = Callable[[], Any]


class _Next:
    """The `call_next` of one middleware and one run; usable once, as the handler runs once."""

    __slots__ = ("_call",)

    def __init__(self, call: Call) -> None:
        self._call: Call | None = call

    def __call__(self) -> Any:
        call, self._call = self._call, None
        if call is None:
            raise RuntimeError("call_next() was called twice; to run again, raise an error")
        return call()


def layered(layers: Sequence[Layer], call: Call, job: Any) -> Call:
    """Return a call with middleware around it, the first one outermost."""
    for layer in reversed(layers):
        call = partial(layer, _Next(call), job)
    return call


async def awaiting(call: Call) -> Any:
    """Make a call, and wait for the coroutine or Deferred that it may return."""
    value = call()
    is_awaited = is_a(value, CoroutineType) or derives_from(value, Deferred)
    return await value if is_awaited else value

"""The clock of a reactor, reactors with a steady one, and clean-ups that a task of asyncio's ends
although it is cancelled again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

Reactor = TypeVar("Reactor")


class Timer(Protocol):
    """A scheduled call."""

    def active(self) -> bool:
        """Tell whether the call is still pending."""
        ...

    def cancel(self) -> None:
        """Cancel the call."""
        ...


class Clock(Protocol):
    """Twisted's IReactorTime, as a protocol that a type checker reads without a plugin."""

    def seconds(self) -> float:
        """Return the time in seconds."""
        ...

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> Timer:
        """Schedule a call after a delay in seconds."""
        ...


def steady(kind: type[Reactor]) -> type[Reactor]:
    """Return a subclass of a reactor class that uses the monotonic clock.

    Twisted's own reactors use the wall clock: if it is set back by an hour, timers fire an hour
    late. ``seconds()`` is the method of IReactorTime by which a reactor schedules calls.
    """
    return type(f"Steady{kind.__name__}", (kind,), {"seconds": staticmethod(time.monotonic)})


T = TypeVar("T")


def in_asyncio() -> bool:
    """Tell whether a task of asyncio runs, which cannot await a Deferred."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


async def unbroken(cleanup: Awaitable[T]) -> T:
    """Await a clean-up, which no cancellation of the caller interrupts.

    A caller that is cancelled meanwhile waits for its end first. At the next cancellation it waits
    no longer, and the clean-up goes on by itself.
    """
    if not in_asyncio():
        return await cleanup
    ending = asyncio.ensure_future(cleanup)
    try:
        return await asyncio.shield(ending)
    except asyncio.CancelledError:
        await asyncio.wait([ending])
        raise

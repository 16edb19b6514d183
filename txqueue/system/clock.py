"""The clock of a reactor, as most of the code uses it, and reactors with a steady clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

__all__ = ["Clock", "Timer", "steady"]

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

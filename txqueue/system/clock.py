"""The part of a reactor's interface that most of the code needs: its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Clock", "Timer", "keep_steady"]


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
        """Return the time."""
        ...

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> Timer:
        """Schedule a call after a delay in seconds."""
        ...


def keep_steady(reactor: Any) -> None:
    """Make a reactor use the monotonic clock; call this before anything is scheduled.

    Twisted's own reactors use the wall clock: if it is set back by an hour, timers fire an hour
    late.
    """
    reactor.seconds = time.monotonic

"""The narrow interface of a reactor that most of the code needs: its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["Clock", "Timer", "keep_steady"]


class Timer(Protocol):
    """A call that is to come."""

    def active(self) -> bool:
        """Tell whether it is still to come."""
        ...

    def cancel(self) -> None:
        """Have it not come."""
        ...


class Clock(Protocol):
    """What Twisted calls IReactorTime, in terms that a type checker reads without a plugin."""

    def seconds(self) -> float:
        """Return the time."""
        ...

    def callLater(self, delay: float, callable: Callable[..., Any], *args: Any) -> Timer:
        """Call something after a delay in seconds."""
        ...


def keep_steady(reactor: Any) -> None:
    """Have a reactor of a process of ours time by the monotonic clock; before anything is timed.

    Twisted's own follow the wall clock: set back by an hour, every timer would come an hour late.
    """
    reactor.seconds = time.monotonic

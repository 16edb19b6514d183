"""Notices the ends of child processes: by SIGCHLD, and by polling where that does not arrive."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import FrameType
from typing import Final

from txqueue.system.clock import Clock

__all__ = ["ChildPoll", "receive_child_signal", "unblock_signals"]

# Seconds between two polls; each asks the kernel once about every child.
EVERY: Final = 1.0
_NEEDED: Final = {signal.SIGCHLD, signal.SIGINT, signal.SIGTERM}


def unblock_signals() -> None:
    """Unblock the signals that end a process or report a child's end.

    Programs inherit what their starter has blocked, and an import may block signals as well.
    """
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NEEDED)


def receive_child_signal(notify: Callable[[], object]) -> None:
    """Call a function after each SIGCHLD, whatever was set up for it before.

    Args:
        notify: The function; it interrupts other code and must only schedule a call.
    """

    def received(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - a handler's
        notify()

    signal.signal(signal.SIGCHLD, received)
    signal.siginterrupt(signal.SIGCHLD, False)
    unblock_signals()


class ChildPoll:
    """Waits for ended children once a second.

    A library that an application imports may block SIGCHLD, or replace its handler, at any time.

    Args:
        clock: Times the polls.
        reap: Waits for the children that have ended.
    """

    def __init__(self, clock: Clock, reap: Callable[[], object]) -> None:
        self._clock = clock
        self._reap = reap

    def start(self) -> None:
        """Poll as long as the reactor runs."""
        # First, so that an error in what follows a child's end does not end the polls.
        self._clock.callLater(EVERY, self.start)
        self._reap()

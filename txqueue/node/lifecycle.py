"""Whether the node takes jobs, drains or ends, and whether it failed."""

from __future__ import annotations

from txqueue.node.reactor import Stoppable

__all__ = ["Lifecycle"]


class Lifecycle:
    """What an operator, a signal or a failure has decided about the node.

    Args:
        reactor: Is stopped when the node fails.

    Attributes:
        is_ending: Whether the node has begun to stop.
        has_failed: Whether it stopped by itself: another took its name, or its port.
    """

    def __init__(self, reactor: Stoppable) -> None:
        self._reactor = reactor
        self._is_drained = False
        self.is_ending = False
        self.has_failed = False

    @property
    def is_draining(self) -> bool:
        """Whether the node takes no jobs: an operator drains it, or it ends."""
        return self._is_drained or self.is_ending

    def order(self, *, drain: bool) -> bool:
        """Note an operator's order; returns whether it changes what the node does."""
        was_draining, self._is_drained = self.is_draining, drain
        return self.is_draining != was_draining

    def end(self) -> None:
        """Note that the node stops."""
        self.is_ending = True

    def fail(self) -> None:
        """Stop the process, unless it stops anyway."""
        if not self.is_ending:
            self.has_failed = True
            # What fails at once does so before the reactor runs.
            self._reactor.callWhenRunning(self._reactor.stop)

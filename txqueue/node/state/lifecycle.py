"""Whether the node takes jobs, drains or ends, and whether it failed."""

from __future__ import annotations

from txqueue.node.state.collaborators import Stoppable

__all__ = ["Lifecycle"]


class Lifecycle:
    """The state of the node, as an operator, a signal or a failure has decided it.

    Args:
        reactor: Stopped when the node fails.

    Attributes:
        is_ending: Whether the node is stopping.
        has_failed: Whether the node stopped because another process has its name or port.
    """

    def __init__(self, reactor: Stoppable) -> None:
        self._reactor = reactor
        self._is_drained = False
        self.is_ending = False
        self.has_failed = False

    @property
    def is_draining(self) -> bool:
        """Whether the node accepts no jobs, because an operator drains it or it is stopping."""
        return self._is_drained or self.is_ending

    def order(self, *, drain: bool) -> bool:
        """Note whether an operator drains the node; return whether this begins or ends draining."""
        was_draining, self._is_drained = self.is_draining, drain
        return self.is_draining != was_draining

    def end(self) -> None:
        """Note that the node is stopping."""
        self.is_ending = True

    def fail(self) -> None:
        """Note a failure and stop the process, unless it is already stopping."""
        if not self.is_ending:
            self.has_failed = True
            # The node may fail before the reactor runs.
            self._reactor.callWhenRunning(self._reactor.stop)

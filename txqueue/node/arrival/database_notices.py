"""What the database's notifications say: there may be work, or this node has got jobs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from txqueue.model.assignment import Assignment, notified_job
from txqueue.node.state.wakeups import Wakeups
from txqueue.policy.placement.idling import is_about_jobs, wakes

__all__ = ["DatabaseNotices"]


class DatabaseNotices:
    """Wakes services by what notifications say, and passes on the jobs that they bring.

    Args:
        wakeups: Wakes the services.

    Attributes:
        on_jobs: Called with the jobs that notifications on the node's own channel have brought.
    """

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self.on_jobs: Callable[[Sequence[Assignment]], None] = lambda _: None

    def heard(self, texts: Sequence[str]) -> None:
        """Act on the texts of notifications for all nodes that arrived together."""
        for text in texts:
            self._wake(text)

    def heard_own(self, texts: Sequence[str]) -> None:
        """Act on the texts of notifications for this node that arrived together."""
        if jobs := [job for text in texts if (job := notified_job(text)) is not None]:
            self.on_jobs(jobs)

    def _wake(self, text: str) -> None:
        """Wake the claimer for jobs, if this node is one of those to wake; else, all services."""
        if not is_about_jobs(text):
            self._wakeups.look_for_work()
        elif wakes(text, self._wakeups.place):
            self._wakeups.claimer.ring()

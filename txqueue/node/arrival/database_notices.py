"""What the database's notifications say: there may be work, or this node has got jobs."""

from __future__ import annotations

from collections.abc import Sequence

from txqueue.model.assignment import NamedJob, named_job
from txqueue.node.state.wakeups import Wakeups
from txqueue.policy.placement.idling import is_about_jobs, wakes

__all__ = ["MOST_NAMED", "DatabaseNotices"]

# Limits what a role can make a node read that may send notifications, but not enqueue. Polling
# finds jobs that are left out.
MOST_NAMED = 2_000


class DatabaseNotices:
    """Wakes services by what notifications say, and collects the jobs that they name.

    Args:
        wakeups: Wakes the services.
    """

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._named: dict[NamedJob, None] = {}

    def heard(self, texts: Sequence[str]) -> None:
        """Act on the texts of notifications that arrived together."""
        for text in texts:
            if (job := named_job(text)) is None:
                self._wake(text)
            elif len(self._named) < MOST_NAMED:
                self._named[job] = None
        if self._named:
            self._wakeups.open_credit.ring()

    def _wake(self, text: str) -> None:
        """Wake the claimer for jobs, if this node is one of those to wake; else, all services."""
        if not is_about_jobs(text):
            self._wakeups.look_for_work()
        elif wakes(text, self._wakeups.place):
            self._wakeups.claimer.ring()

    def take(self) -> list[NamedJob]:
        """Return the jobs that notifications have named since the last call, each once."""
        named, self._named = list(self._named), {}
        return named

    def put_back(self, named: Sequence[NamedJob]) -> None:
        """Have the next `take` return jobs again, which could not be read."""
        self._named = dict.fromkeys([*named, *self._named])

"""A plain client that commits a row again and again: how long a cluster takes no writes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from itertools import pairwise
from threading import Event, Thread
from typing import Final, Self

from txqueue.errors import TxqueueError
from txqueue.store.inquiries.reader import Session
from txqueue_torture.node import until

__all__ = ["CommitProbe", "longest_gap"]

EVERY: Final = 0.05
_TABLE: Final = "create table if not exists public.torture_probe (made_at timestamptz)"
_ADD: Final = "insert into public.torture_probe values (now())"


class CommitProbe:
    """Commits a row at each server of a cluster, of which only the primary accepts it.

    A thread for each server, so that no client waits for a server that hangs while another one
    already takes writes.

    Args:
        dsns: The DSN of each server.

    Attributes:
        commits: When a server acknowledged a commit, by the host's monotonic clock.
    """

    def __init__(self, dsns: Iterable[str]) -> None:
        self._dsns = list(dsns)
        self._stopped = Event()
        self.commits: list[float] = []

    def __enter__(self) -> Self:
        """Start to commit."""
        for dsn in self._dsns:
            # A thread may hang as long as its server does: nothing waits for it at the end.
            Thread(target=self._commit, args=(dsn,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        """Commit nothing any more."""
        self._stopped.set()

    def wait(self, within: float) -> bool:
        """Wait until another commit is acknowledged; return whether one was in time."""
        known = len(self.commits)
        return until(lambda: len(self.commits) > known, within)

    def _commit(self, dsn: str) -> None:
        while not self._stopped.wait(EVERY):
            with suppress(TxqueueError), Session(dsn, application_name="txqueue probe") as session:
                session.rows(_TABLE)
                while not self._stopped.wait(EVERY):
                    session.rows(_ADD)
                    self.commits.append(time.monotonic())


def longest_gap(moments: Iterable[float], since: float, to: float) -> float:
    """Return the longest time without an event that overlaps a period.

    Args:
        moments: When the events happened, in any order.
        since: The start of the period.
        to: Its end; a later event ends a gap only there.
    """
    known = sorted(moments)
    before = max((moment for moment in known if moment <= since), default=since)
    inside = [moment for moment in known if since < moment < to]
    return max(later - earlier for earlier, later in pairwise([before, *inside, to]))

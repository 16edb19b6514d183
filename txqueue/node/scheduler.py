"""Ticks: enqueues the jobs of schedules at their moments, whoever of the masters comes first."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from txqueue.clock import Clock
from txqueue.errors import Refused
from txqueue.node.alarm import Periodic
from txqueue.store.schedules import Due, Schedules, declared, tick_of
from txqueue.work import WorkItem

__all__ = ["Scheduler"]

# Between two looks at least, and at most: somebody may have made a schedule and nobody told us.
SHORTEST, LONGEST = 0.2, 5.0
# A wake-up may be about a schedule, and most are not: look no sooner than so long after the last.
WOKEN = 1.0
# Dead rows of what was due before are skipped, except by one look in so many seconds.
MARGIN, FULL_LOOK = timedelta(seconds=5), 10.0
MENDING = 60.0


class Scheduler(Periodic):
    """Looks which schedules are due, plans what becomes of them, and has the database do it.

    Args:
        clock: Times the looks.
        schedules: The stored functions.
        classes: The work types it knows; the schedules that they declare are published first.
        has_lease: Whether this node may act.
        ticked: Called when jobs were enqueued.

    Raises:
        InvalidWork: When a schedule is declared on a class whose objects need arguments.
    """

    name = "scheduler"

    def __init__(
        self,
        clock: Clock,
        schedules: Schedules,
        *,
        classes: Sequence[type[WorkItem]],
        has_lease: Callable[[], bool],
        ticked: Callable[[], None],
    ) -> None:
        super().__init__(clock)
        self._schedules = schedules
        self._work_types = [cls.work_type for cls in classes]
        self._declared = declared(classes)
        self._has_lease = has_lease
        self._ticked = ticked
        self._is_published = False
        self._looked_at = self._looked_far_at = self._mended_at = float("-inf")
        self._next_look = float("-inf")
        self._since: datetime | None = None

    async def step(self) -> float | None:
        """Look, if it is time to, and tick."""
        now = time.monotonic()
        early = min(self._next_look, self._looked_at + WOKEN) - now
        if early > 0:
            return early
        if not self._has_lease():
            return WOKEN
        if not self._is_published:
            await self._publish()
        return await self._look(now)

    async def _publish(self) -> None:
        try:
            await self._schedules.publish(self._work_types, self._declared)
        except Refused as error:
            self.log.error("the schedules of the classes are not published: {error}", error=error)
        self._is_published = True

    async def _look(self, now: float) -> float:
        self._looked_at = now
        found = await self._schedules.due(self._look_since(now))
        self._since = found.seen_at - MARGIN
        is_behind = await self._tick(found)
        if now - self._mended_at >= MENDING:
            self._mended_at = now
            await self._schedules.mend()
        wait = LONGEST if found.due_in is None else found.due_in
        pause = 0.0 if is_behind else min(max(wait, SHORTEST), LONGEST)
        self._next_look = time.monotonic() + pause
        return pause

    async def _tick(self, found: Due) -> bool:
        """Tick what is due; returns whether there is more to do at once."""
        if not found.rows:
            return False
        ticks = [tick_of(row, found.seen_at) for row in found.rows]
        if not await self._schedules.tick(ticks):
            return False
        self._ticked()
        is_behind = found.due_in == 0 or any(_has_passed(each["next"], found) for each in ticks)
        if is_behind:
            self._since = None
        return is_behind

    def _look_since(self, now: float) -> datetime | None:
        if self._since is not None and now - self._looked_far_at < FULL_LOOK:
            return self._since
        self._looked_far_at = now
        return None


def _has_passed(moment: str | None, found: Due) -> bool:
    if moment is None or moment == "infinity":
        return False
    return datetime.fromisoformat(moment) <= found.seen_at

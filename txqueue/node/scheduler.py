"""Ticks: enqueues the jobs of schedules at their moments; the first master to look does it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from txqueue.errors import Refused
from txqueue.model.work_item import WorkItem
from txqueue.node.lease import Lease
from txqueue.node.periodic import Periodic
from txqueue.node.wakeups import Wakeups
from txqueue.store.schedules import Due, Schedules, by_condition, declared, judged, tick_of
from txqueue.system.clock import Clock

__all__ = ["Scheduler"]

# Between two looks at least, and at most: a schedule may be made without a notification.
SHORTEST, LONGEST = 0.2, 5.0
# A wake-up may be about a schedule, and most are not: look no sooner than so long after the last.
WOKEN = 1.0
# Dead rows of what was due before are skipped, except by one look in so many seconds.
MARGIN, FULL_LOOK = timedelta(seconds=5), 10.0
MENDING = 60.0
# A condition that cannot be checked is left alone for so many times as long as that took.
SPARED = 10.0


class Scheduler(Periodic):
    """Looks which schedules are due, plans what becomes of them, and has the database do it.

    Args:
        clock: Times the looks.
        schedules: The stored functions.
        classes: The work types it knows; the schedules that they declare are published first.
        lease: Without it this node does not act.
        wakeups: Has its alarm; wakes the claimer when jobs were enqueued.

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
        lease: Lease,
        wakeups: Wakeups,
    ) -> None:
        super().__init__(clock, wakeups.scheduler)
        self._schedules = schedules
        self._work_types = [cls.work_type for cls in classes]
        self._declared = declared(classes)
        self._lease = lease
        self._wakeups = wakeups
        self._is_published = False
        self._looked_at = self._looked_far_at = self._mended_at = float("-inf")
        self._next_look = float("-inf")
        self._since: datetime | None = None
        # Seconds until the soonest moment that the last look has planned.
        self._soonest = LONGEST
        # Conditions that could not be checked: until when they are not tried again, and why.
        self._unanswered: dict[tuple[str, str], tuple[float, str]] = {}

    async def step(self) -> float | None:
        """Look, if it is time to, and tick."""
        now = time.monotonic()
        early = min(self._next_look, self._looked_at + WOKEN) - now
        if early > 0:
            return early
        if self._lease.identity is None:
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
        is_behind = await self._tick_all(found)
        if now - self._mended_at >= MENDING:
            self._mended_at = now
            await self._schedules.mend()
        wait = min(LONGEST if found.due_in is None else found.due_in, self._soonest)
        pause = 0.0 if is_behind else min(max(wait, SHORTEST), LONGEST)
        self._next_look = time.monotonic() + pause
        return pause

    async def _tick_all(self, found: Due) -> bool:
        """Tick what is due; returns whether there is more to do at once.

        Those with a condition come last, each table by itself: one that cannot be read holds up
        no schedule but its own.
        """
        self._soonest = LONGEST
        is_behind = False
        for condition, rows in by_condition(found.rows).items():
            known = rows if condition is None else await self._judged(condition, rows)
            is_behind = await self._tick(known, found) or is_behind
        if is_behind:
            self._since = None
        return is_behind

    async def _judged(
        self, condition: tuple[str, str], rows: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        until, reason = self._unanswered.get(condition, (0.0, ""))
        began = time.monotonic()
        if began < until:
            return judged(rows, set(), reason)
        try:
            met = await self._schedules.met(*condition, [row["condition"][2] for row in rows])
        except Refused as error:
            reason = f"the condition on {condition[0]} cannot be checked: {error}"
            took = time.monotonic() - began
            # One that takes its whole time may have a tenth of ours.
            self._unanswered[condition] = (began + took * SPARED, reason)
            return judged(rows, set(), reason)
        self._unanswered.pop(condition, None)
        return judged(rows, met)

    async def _tick(self, rows: Sequence[dict[str, Any]], found: Due) -> bool:
        if not rows:
            return False
        ticks = [tick_of(row, found.seen_at) for row in rows]
        nexts = [datetime.fromisoformat(each["next"]) for each in ticks if _is_moment(each["next"])]
        self._soonest = min(
            [self._soonest, *((moment - found.seen_at).total_seconds() for moment in nexts)]
        )
        if not await self._schedules.tick(ticks):
            return False
        self._wakeups.claimer.ring()
        return found.due_in == 0 or any(moment <= found.seen_at for moment in nexts)

    def _look_since(self, now: float) -> datetime | None:
        if self._since is not None and now - self._looked_far_at < FULL_LOOK:
            return self._since
        self._looked_far_at = now
        return None


def _is_moment(text: str | None) -> bool:
    return text is not None and text != "infinity"

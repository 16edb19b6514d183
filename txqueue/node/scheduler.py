"""Ticks schedules: has the database enqueue the jobs of due ones; any master may do it."""

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
from txqueue.store.schedules import (
    CONDITION_PATIENCE,
    Due,
    Schedules,
    by_condition,
    declared,
    judged,
    tick_of,
)
from txqueue.system.clock import Clock

__all__ = ["Scheduler"]

# Shortest and longest interval between checks, as a schedule may be created without a notification.
SHORTEST, LONGEST = 0.2, 5.0
# Shortest interval after a wake-up, as most wake-ups are not about schedules.
WOKEN = 1.0
# Checks look for schedules that became due since MARGIN before the last check, to skip dead rows;
# once in FULL_LOOK seconds, for all due ones.
MARGIN, FULL_LOOK = timedelta(seconds=5), 10.0
MENDING = 60.0
# A failed check of a condition is repeated after this multiple of the time that it took.
SPARED = 10.0


class Scheduler(Periodic):
    """Finds due schedules, plans their jobs, and has the database enqueue them.

    Args:
        clock: Times the checks.
        schedules: The stored functions of schedules.
        classes: The node's work types; the schedules that they declare are published first.
        lease: The node's lease; without it this node ticks no schedule.
        wakeups: Has the scheduler's alarm; wakes the claimer when jobs were enqueued.

    Raises:
        InvalidWork: When a class with a schedule cannot be instantiated without arguments.
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
        # Seconds until the earliest next moment of the schedules that the last check ticked.
        self._soonest = LONGEST
        # Conditions that could not be checked: when to check them again, and the error.
        self._unanswered: dict[tuple[str, str], tuple[float, str]] = {}

    async def step(self) -> float | None:
        """Check for due schedules if it is time, and tick them."""
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
        """Tick due schedules; return whether more are due now.

        Schedules with a condition come last, table by table: a table that cannot be read delays
        only the schedules whose condition reads it.
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
            # The wait for a connection does not count.
            took = min(time.monotonic() - began, CONDITION_PATIENCE)
            # A condition that takes its whole time limit may use at most a tenth of the time.
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

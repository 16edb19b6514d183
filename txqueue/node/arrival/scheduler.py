"""Ticks schedules: has the database enqueue the jobs of due ones, whose conditions are checked
beside each other.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.errors import Refused
from txqueue.model.work_item import WorkItem
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Alarm, Periodic, Wakeups
from txqueue.policy.schedules import by_condition, judged, ticks_of, unconditional
from txqueue.store.driver.errors import complaint
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.store.schedules import (
    CONDITION_PATIENCE,
    MOST_CHECKS,
    Due,
    Judged,
    Schedules,
    declared,
)
from txqueue.system.clock import Clock

# A failed check of a condition is repeated after this multiple of the time that it took, so that
# it takes a tenth of the time at most.
SPARED = 10.0
# Seconds before a condition is checked again after the database was not available.
PAUSE = 1.0

Condition = tuple[str, str]


@define(eq=False, repr=False, slots=False)
class ConditionChecks:
    """Checks conditions, those that read the same column together, all others independently.

    A condition that is slow, or whose table is locked, so delays only schedules that have it.

    Args:
        clock: Times the pause after an error.
        conditions: The conditions in the database, with connections of their own.
        wakeups: Wakes the scheduler when a check has ended; knows how many nodes check the same.
    """

    log = Logger()

    _clock: Clock
    _conditions: Schedules
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self._waiting: deque[tuple[Condition, list[dict[str, Any]], Due]] = deque()
        self._running: dict[Condition, Deferred[None]] = {}
        self._judged: list[Judged] = []
        # Conditions that could not be checked: when to check them again, and the error.
        self._unanswered: dict[Condition, tuple[float, str]] = {}

    @property
    def busy(self) -> list[Condition]:
        """The conditions that are being checked, or wait for that."""
        return [*self._running, *(condition for condition, _, _ in self._waiting)]

    def begin(self, due: Due) -> None:
        """Check the conditions of those due schedules that have one.

        Those that failed last come last, and fail again without a check for a while.
        """
        groups = by_condition(due.rows)
        busy = self.busy
        for condition in sorted(groups, key=self._has_failed):
            if condition in busy:
                continue
            until, reason = self._unanswered.get(condition, (0.0, ""))
            if time.monotonic() < until:
                self._judged.append(Judged(judged(groups[condition], set(), reason), due))
            else:
                self._waiting.append((condition, groups[condition], due))
        self._begin_waiting()

    def take(self) -> list[Judged]:
        """Return the schedules whose conditions were checked since the last call."""
        known, self._judged = self._judged, []
        return known

    async def end(self) -> None:
        """Begin no more checks, and wait for those that run, which take a second or so."""
        self._waiting.clear()
        for check in list(self._running.values()):
            await check

    def _has_failed(self, condition: Condition) -> bool:
        return condition in self._unanswered

    def _begin_waiting(self) -> None:
        while self._waiting and len(self._running) < self._most:
            condition, rows, due = self._waiting.popleft()
            check = Deferred.fromCoroutine(self._check(condition, rows, due))
            self._running[condition] = check
            check.addBoth(self._on_checked, condition)
        if not self._running:
            self._conditions.trim()

    @property
    def _most(self) -> int:
        place = self._wakeups.place
        return MOST_CHECKS if place is None else max(1, MOST_CHECKS // place.of)

    async def _check(self, condition: Condition, rows: list[dict[str, Any]], due: Due) -> None:
        try:
            schedules = await self._judge(condition, rows)
            self._judged.append(Judged(schedules, due))
            self._wakeups.scheduler.ring()
        except Exception as error:
            self._complain(condition, error)
            await Alarm(self._clock).wait(PAUSE)

    async def _judge(
        self, condition: Condition, rows: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        began = time.monotonic()
        try:
            met = await self._conditions.met(*condition, [row["condition"][2] for row in rows])
        except Refused as error:
            reason = f"the condition on {condition[0]} cannot be checked: {error}"
            # The wait for a connection does not count.
            took = min(time.monotonic() - began, CONDITION_PATIENCE)
            self._unanswered[condition] = (began + took * SPARED, reason)
            return judged(rows, set(), reason)
        self._unanswered.pop(condition, None)
        return judged(rows, met)

    def _complain(self, condition: Condition, error: Exception) -> None:
        error_text = complaint(error) or repr(error)
        self.log.warn("condition on {table}: {said}", table=condition[0], said=error_text)

    def _on_checked(self, _: object, condition: Condition) -> None:
        del self._running[condition]
        self._begin_waiting()


# Shortest and longest interval between checks, as a schedule may be created without a notification.
SHORTEST, LONGEST = 0.2, 5.0
# Shortest interval after a wake-up, as most wake-ups are not about schedules.
WOKEN = 1.0
# Checks look for schedules that became due since MARGIN before the last check, to skip dead rows;
# once in FULL_PROMOTION seconds, for all due ones.
MARGIN, FULL_PROMOTION = timedelta(seconds=5), 10.0
MENDING = 60.0


@define(eq=False, repr=False, slots=False)
class Scheduler(Periodic):
    """Finds due schedules, plans their jobs, and has the database enqueue them.

    Args:
        clock: Times the checks.
        schedules: The stored functions of schedules.
        checks: Checks the conditions of due schedules, while this service goes on.
        classes: The node's work types; the schedules that they declare are published first.
        lease: The node's lease; without it this node ticks no schedule.
        wakeups: Has the scheduler's alarm; wakes the claimer when jobs were enqueued.

    Raises:
        InvalidWork: When a class with a schedule cannot be instantiated without arguments.
    """

    name = "scheduler"

    _schedules: Schedules
    _checks: ConditionChecks
    _classes: Sequence[type[WorkItem]]
    _lease: Lease
    _wakeups: Wakeups

    def __attrs_post_init__(self) -> None:
        self.alarm = self._wakeups.scheduler
        self._work_types = [cls.work_type for cls in self._classes]
        self._declared = declared(self._classes)
        self._is_published = False
        self._looked_at = self._looked_far_at = self._mended_at = float("-inf")
        self._next_look = float("-inf")
        # Whether the last heartbeat has seen that no schedule is due before the next.
        self._is_none_due = False
        self._since: datetime | None = None

    def stopService(self) -> Deferred[None]:
        """Stop after the current step and the checks that run."""
        stopping = super().stopService()
        return Deferred.fromCoroutine(self._end(stopping))

    async def _end(self, stopping: Deferred[None] | None) -> None:
        if stopping is not None:
            await stopping
        await self._checks.end()

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """Look when a schedule is due that the heartbeat has seen."""
        self._is_none_due = reply.is_idle
        if reply.schedule_in is not None:
            due_at = time.monotonic() + reply.schedule_in
            self._is_none_due &= reply.schedule_in > self._wakeups.beat
            if due_at < self._next_look - SHORTEST:
                self.alarm.ring()
        if not self._is_none_due and self._next_look > self._looked_at + self._longest:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Tick schedules whose conditions were checked; look for due ones if it is time."""
        if self._lease.identity is None:
            return WOKEN
        if not self._is_published:
            await self._publish()
        await self._tick_judged()
        now = time.monotonic()
        early = min(self._next_look, self._looked_at + WOKEN) - now
        return early if early > 0 else await self._look(now)

    async def _publish(self) -> None:
        try:
            await self._schedules.publish(self._work_types, self._declared)
        except Refused as error:
            self.log.error("the schedules of the classes are not published: {error}", error=error)
        self._is_published = True

    async def _look(self, now: float) -> float:
        self._looked_at = now
        due = await self._schedules.due(self._promoted_since(now), self._checks.busy)
        self._since = due.seen_at - MARGIN
        self._next_look = now + self._longest
        if due.due_in is not None:
            self._look_in(due.due_in)
        await self._tick(unconditional(due.rows), due)
        self._checks.begin(due)
        await self._tick_judged()
        if now - self._mended_at >= MENDING:
            self._mended_at = now
            await self._schedules.mend()
        return max(0.0, self._next_look - time.monotonic())

    async def _tick_judged(self) -> None:
        """Tick schedules whose conditions were checked; those due since then are looked for."""
        for checked in self._checks.take():
            await self._tick(checked.rows, checked.due)
            if self._since is not None:
                self._since = min(self._since, checked.due.seen_at - MARGIN)

    async def _tick(self, rows: Sequence[dict[str, Any]], due: Due) -> None:
        if not rows:
            return
        ticks = ticks_of(rows, due.seen_at)
        nexts = [datetime.fromisoformat(tick["next"]) for tick in ticks if _is_moment(tick["next"])]
        soonest = min(nexts, default=due.seen_at + timedelta(seconds=LONGEST))
        self._look_in((soonest - due.seen_at).total_seconds())
        if not await self._schedules.tick(ticks):
            return
        self._wakeups.claimer.ring()
        if due.due_in == 0 or soonest <= due.seen_at:
            self._since, self._next_look = None, float("-inf")

    def _look_in(self, seconds: float) -> None:
        """Look after some seconds, if no look is due before."""
        pause = max(seconds, SHORTEST)
        self._next_look = min(self._next_look, time.monotonic() + pause)

    @property
    def _longest(self) -> float:
        """The most seconds between two looks; heartbeats look, too, while nothing is to be done."""
        return self._wakeups.upkeep(MENDING) if self._is_none_due else LONGEST

    def _promoted_since(self, now: float) -> datetime | None:
        if self._since is not None and now - self._looked_far_at < FULL_PROMOTION:
            return self._since
        self._looked_far_at = now
        return None


def _is_moment(text: str | None) -> bool:
    return text is not None and text != "infinity"

"""Checks the conditions of due schedules, each beside the others."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.errors import Refused
from txqueue.node.state.periodic import Alarm
from txqueue.node.state.wakeups import Wakeups
from txqueue.policy.schedule_ticks import by_condition, judged
from txqueue.store.driver.errors import complaint
from txqueue.store.schedules import CONDITION_PATIENCE, MOST_CHECKS, Due, Judged
from txqueue.system.clock import Clock

__all__ = ["ConditionChecks", "Conditions"]

# A failed check of a condition is repeated after this multiple of the time that it took, so that
# it takes a tenth of the time at most.
SPARED = 10.0
# Seconds before a condition is checked again after the database was not available.
PAUSE = 1.0

Condition = tuple[str, str]


class Conditions(Protocol):
    """The conditions in the database."""

    async def met(self, table: str, column: str, values: Sequence[str]) -> set[str]:
        """Return which of the given values occur in a column of an application's table."""

    def trim(self) -> None:
        """Close connections that were needed only while several checks ran."""


class ConditionChecks:
    """Checks conditions, those that read the same column together, all others independently.

    A condition that is slow, or whose table is locked, so delays only schedules that have it.

    Args:
        clock: Times the pause after an error.
        conditions: The conditions in the database, with connections of their own.
        wakeups: Wakes the scheduler when a check has ended; knows how many nodes check the same.
    """

    log = Logger()

    def __init__(self, clock: Clock, conditions: Conditions, wakeups: Wakeups) -> None:
        self._clock = clock
        self._conditions = conditions
        self._wakeups = wakeups
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
            check.addBoth(self._ended, condition)
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

    def _ended(self, _: object, condition: Condition) -> None:
        del self._running[condition]
        self._begin_waiting()

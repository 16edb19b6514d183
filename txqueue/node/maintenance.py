"""Keeps the tables fit: lanes are rotated, history has its partitions."""

from __future__ import annotations

import time
from collections.abc import Callable

from txqueue.node.periodic import Periodic
from txqueue.store.functions import StoredFunctions
from txqueue.system.clock import Clock

__all__ = ["Maintenance"]

ROTATE_BUSY, ROTATE_IDLE = 1.0, 15.0
HISTORY = 3600.0
# After so many jobs the lanes are looked at, and after fewer once nothing is left to take.
LANE_FULL, LANE_USED = 32_000, 4_000


class Maintenance(Periodic):
    """Rotates lanes, often while there is work, and makes and drops partitions of history.

    Args:
        clock: Times the steps.
        engine: The stored functions.
        is_busy: Whether the node has had work of late.
    """

    name = "maintenance"

    def __init__(self, clock: Clock, engine: StoredFunctions, is_busy: Callable[[], bool]) -> None:
        super().__init__(clock)
        self._engine = engine
        self._is_busy = is_busy
        self._history_at = float("-inf")
        self._taken = 0
        self._holders: list[str] = []

    def claimed(self, jobs: int) -> None:
        """Note that a claim took so many jobs."""
        self._taken += jobs
        if self._taken >= (LANE_FULL if jobs else LANE_USED):
            self._taken = 0
            self.alarm.ring()

    async def step(self) -> float | None:
        """Rotate once, and see to history once an hour."""
        if time.monotonic() - self._history_at > HISTORY:
            await self._engine.ensure_history()
            self._history_at = time.monotonic()
        did, self._holders = await self._engine.rotate(self._holders)
        return ROTATE_BUSY if did or self._is_busy() else ROTATE_IDLE

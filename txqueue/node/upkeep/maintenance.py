"""Rotates lanes, creates and drops partitions of history, and notes what jobs did each minute."""

from __future__ import annotations

import time

from txqueue.model.run_tally import WAIT_BOUNDS
from txqueue.node.state.collaborators import Capacity, Records
from txqueue.node.state.meters import Meters
from txqueue.node.state.periodic import Periodic
from txqueue.node.state.wakeups import Wakeups
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.replies import HeartbeatReply
from txqueue.system.clock import Clock

__all__ = ["Maintenance"]

ROTATE_BUSY, ROTATE_IDLE = 1.0, 15.0
# Each node rotates for all, so of more than this many nodes each does so more seldom, at most every
# LONGEST seconds.
ROTATING, LONGEST = 8, 60.0
HISTORY = 3600.0
# Nodes ask this often; the first of them notes the minute.
MINUTE = 30.0
# Rotate after this many claimed jobs, and after fewer once no ready job is left.
LANE_FULL, LANE_USED = 32_000, 4_000


class Maintenance(Periodic):
    """Rotates lanes, often while there is work, and keeps history and its counts by minute.

    Args:
        clock: Times the steps.
        functions: The stored functions.
        workers: Tell whether the node has work.
        records: Tell whether outcomes of jobs are still to be written.
        meters: Count how long jobs waited.
        wakeups: Tell whether the node is idle, and how often such a one sends statements.
    """

    name = "maintenance"

    def __init__(
        self,
        clock: Clock,
        *,
        functions: StoredFunctions,
        workers: Capacity,
        records: Records,
        meters: Meters,
        wakeups: Wakeups,
    ) -> None:
        super().__init__(clock)
        self._functions = functions
        self._workers = workers
        self._records = records
        self._meters = meters
        self._wakeups = wakeups
        self._history_at = float("-inf")
        self._minute_at = float("-inf")
        self._taken = 0
        self._holders: list[str] = []
        self._nodes = 1

    def heard(self, reply: HeartbeatReply) -> None:
        """Note how many nodes share the work."""
        self._nodes = reply.nodes

    def claimed(self, jobs: int) -> None:
        """Note the number of jobs that a claim took."""
        self._taken += jobs
        if self._taken >= (LANE_FULL if jobs else LANE_USED):
            self._taken = 0
            self.alarm.ring()

    async def step(self) -> float | None:
        """Rotate the lanes once; also create and drop history hourly, and note each minute."""
        if time.monotonic() - self._history_at > HISTORY:
            await self._functions.ensure_history()
            self._history_at = time.monotonic()
        if time.monotonic() - self._minute_at > self._wakeups.upkeep(MINUTE):
            self._meters.waited(await self._functions.measure_minute(WAIT_BOUNDS))
            self._minute_at = time.monotonic()
        did, self._holders = await self._functions.rotate(self._holders)
        if did or self._is_busy:
            return self._pause_for(ROTATE_BUSY)
        return self._wakeups.upkeep(self._pause_for(ROTATE_IDLE))

    def _pause_for(self, alone: float) -> float:
        """Return the pause of one of many nodes, from that of a node alone, in seconds."""
        return min(alone * max(1.0, self._nodes / ROTATING), LONGEST)

    @property
    def _is_busy(self) -> bool:
        return self._workers.load > 0 or not self._records.is_clean

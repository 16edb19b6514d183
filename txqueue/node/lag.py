"""Measures reactor lag, and the weight of the jobs that keep waiting in the workers."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

from txqueue.node.periodic import Periodic
from txqueue.policy.balancing import ahead_of
from txqueue.policy.dispatch import Load
from txqueue.system.clock import Clock

__all__ = ["LagMeter", "Loads", "memory"]

BEAT = 0.1
# What is left of a former lag after each beat: a stall is seen for about a second.
FADING = 0.8
_STATM = Path("/proc/self/statm")


class Loads(Protocol):
    """The workers, as far as their loads go."""

    @property
    def loads(self) -> list[Load]:
        """What each worker holds."""


class LagMeter(Periodic):
    """Beats ten times a second.

    Args:
        clock: Times the beats.
        workers: Hold what waits.

    Attributes:
        lag: Seconds by which the reactor is late, of late.
        steady: Weight that waits in the workers, and did so a beat ago.
    """

    name = "lag"

    def __init__(self, clock: Clock, workers: Loads) -> None:
        super().__init__(clock)
        self._workers = workers
        self._due_at = float("inf")
        self._waited = 0
        self.lag = 0.0
        self.steady = 0

    @property
    def memory(self) -> int:
        """Bytes of memory that this process uses, 0 where the system does not tell."""
        return memory()

    async def step(self) -> float | None:
        """Feel it once."""
        now, waits = time.monotonic(), ahead_of(self._workers.loads)[0]
        late = max(0.0, now - self._due_at)
        self.lag = round(max(late, self.lag * FADING), 4)
        self.steady, self._waited = min(waits, self._waited), waits
        self._due_at = now + BEAT
        return BEAT


def memory() -> int:
    """Return the bytes of memory that this process uses, 0 where the system does not tell."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0

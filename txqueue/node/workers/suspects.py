"""The suspects of a node that wait for a process of their own, and what starts these."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from txqueue.model.assignment import Assignment
from txqueue.node.state.periodic import Alarm, Periodic
from txqueue.system.clock import Clock

__all__ = ["KEEP", "MOST_PROCESSES", "SuspectProcess", "SuspectProcesses", "Suspects"]

# The most processes that a node runs for suspects, beside its workers.
MOST_PROCESSES = 4


class Suspects:
    """Assignments of suspects that wait for a process, and how many such processes start.

    A suspect was running when two processes died. It runs in a process that is started for it, so
    that it neither ends other jobs nor makes them wait.

    Attributes:
        waiting: The assignments that wait.
        starting: How many processes for suspects start, or start again after a pause.
        alarm: Rings when a suspect waits, and when a process has become idle or has ended.
    """

    def __init__(self, clock: Clock) -> None:
        self.waiting: deque[Assignment] = deque()
        self.starting = 0
        self.alarm = Alarm(clock)

    def started(self) -> None:
        """Note that a process has become ready, or that its start has failed for good."""
        self.starting -= 1
        self.alarm.ring()


# Seconds for which an idle process is kept for the next suspect.
KEEP = 5.0


class SuspectProcess(Protocol):
    """A process for suspects, as this service uses it."""

    key: int
    is_ready: bool

    @property
    def weight(self) -> int:
        """The weight of its jobs, and of ended jobs whose threads go on."""

    def retire(self) -> None:
        """End it, as it runs no job."""


class SuspectWorkers(Protocol):
    """The processes for suspects."""

    @property
    def apart(self) -> Sequence[SuspectProcess]:
        """All of them, ready or not."""


class SuspectStarter(Protocol):
    """Starts processes for suspects."""

    def start_apart(self) -> None:
        """Start one."""


class SuspectProcesses(Periodic):
    """Starts a process for each assignment of suspects that waits for one, up to a limit.

    Args:
        clock: Times how long a process is idle.
        suspects: The suspects that wait.
        workers: Have the processes.
        starter: Starts them.
    """

    name = "suspects"

    def __init__(
        self, clock: Clock, suspects: Suspects, workers: SuspectWorkers, starter: SuspectStarter
    ) -> None:
        super().__init__(clock, suspects.alarm)
        self._clock = clock
        self._suspects = suspects
        self._workers = workers
        self._starter = starter
        # Since when each idle process has been idle, by its key.
        self._idle: dict[int, float] = {}

    async def step(self) -> float | None:
        """Start the processes that are missing, and end idle ones."""
        suspects = self._suspects
        running = sum(process.is_ready for process in self._workers.apart)
        while len(suspects.waiting) > suspects.starting < MOST_PROCESSES - running:
            suspects.starting += 1
            self._starter.start_apart()
        return self._end_idle()

    def _end_idle(self) -> float | None:
        """End idle processes; return the seconds until another one may have been idle for long."""
        now = self._clock.seconds()
        idle = [
            process for process in self._workers.apart if process.is_ready and not process.weight
        ]
        self._idle = {process.key: self._idle.get(process.key, now) for process in idle}
        for process in idle:
            if now - self._idle[process.key] >= KEEP:
                del self._idle[process.key]
                process.retire()
        return min(self._idle.values()) + KEEP - now if self._idle else None

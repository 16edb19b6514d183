"""The suspects of a node that wait for a process of their own."""

from __future__ import annotations

from collections import deque

from txqueue.model.assignment import Assignment
from txqueue.node.state.periodic import Alarm
from txqueue.system.clock import Clock

__all__ = ["MOST_PROCESSES", "Suspects"]

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

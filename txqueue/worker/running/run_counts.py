"""Counts what the jobs of a worker do, cheaply: appending to a list is all that each job costs."""

from __future__ import annotations

from typing import Final

from txqueue.model.run_tally import RunTally, counted

__all__ = ["RunCounts"]

# Seconds: runs of bursts that took less are counted together.
_QUICK: Final = 0.001


class RunCounts:
    """Counts runs of jobs until they are reported.

    Attributes:
        started: The work types of the runs that started in this burst, one entry each.
        going_on: Those of them that go on after it.
        done: The work types of done jobs, one entry each.
        ended: The work types and outcomes of other ended jobs, one entry each.
        tally: The counts so far, without those lists.
    """

    def __init__(self) -> None:
        self.started: list[str] = []
        self.going_on: list[str] = []
        self.done: list[str] = []
        self.ended: list[tuple[str, str]] = []
        self.tally = RunTally()
        self._quick: list[str] = []
        self._quick_seconds = 0.0

    def burst_over(self, seconds: float) -> None:
        """Count the runs of a burst that took some seconds."""
        if seconds < _QUICK and not self.going_on:
            self._quick += self.started
            self._quick_seconds += seconds
        else:
            self.tally.burst(self.started, self.going_on, seconds)
            self.going_on.clear()
        self.started.clear()

    def sum_up(self) -> None:
        """Add the lists to the counts; once for many jobs."""
        for work_type, times in counted(self.done).items():
            self.tally.ended[work_type, "done"] += times
        self.done.clear()
        for kind, times in counted(self.ended).items():
            self.tally.ended[kind] += times
        self.ended.clear()
        if self._quick:
            self.tally.burst(self._quick, (), self._quick_seconds)
            self._quick.clear()
            self._quick_seconds = 0.0

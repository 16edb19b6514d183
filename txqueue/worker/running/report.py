"""How a worker reports to its master, as what runs the jobs uses it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from txqueue.model.assignment import SettledJob, StartedJob
from txqueue.worker.handlers.running_job import HeldAssignment, RunningJob

__all__ = ["Report"]


class Report(Protocol):
    """Receives the worker's reports."""

    @property
    def is_sent(self) -> bool:
        """Whether the master can read all reports so far, even if a handler now blocks."""

    def finish(self, held: HeldAssignment, *, is_alone: bool) -> None:
        """Report the done jobs of an assignment; `is_alone` if no other report follows."""

    def settle(self, weight: int, counts: Counter[int], jobs: Sequence[SettledJob]) -> None:
        """Report jobs that ended otherwise than done, or with progress to store."""

    def start(self, jobs: list[StartedJob]) -> None:
        """Report running jobs: those that run for longer than a second, or have new progress."""

    def occupy(self, weight: int, jobs: Iterable[int], *, is_stuck: bool) -> None:
        """Report the weight and the numbers of ended jobs whose threads go on.

        Args:
            weight: Their weight together, which no other job can take.
            jobs: Their numbers.
            is_stuck: Whether the worker can start no job until one of the threads ends.
        """

    def log_text(self, is_grave: bool, text: str, run: Mapping[str, Any] | None) -> None:
        """Write a text to the node's log, with the fields of the run that it is about, if any."""

    def late_error(self, job: RunningJob, text: str) -> None:
        """Store the error of a handler that failed after its transaction had completed its job."""

    def count(self, tally: str) -> None:
        """Report what jobs did since the last report, as `RunTally.take` writes it."""

"""Decides when a worker process has run enough jobs, or grown enough, to be replaced."""

from __future__ import annotations

from typing import Final, Literal

from attrs import frozen

Reason = Literal["jobs", "memory"]

REASONS: Final[tuple[Reason, ...]] = ("jobs", "memory")
"""Why a worker is replaced: each is a limit, and a label of the metric."""

JITTER: Final = 0.2
"""By which part, at most, the limits of a worker are lower than those that were set."""


@frozen
class WorkerLimits:
    """What a worker process does before it is replaced; None for no limit.

    Attributes:
        jobs: How many runs of jobs it ends.
        memory: Its resident memory in MiB.
    """

    jobs: int | None = None
    memory: int | None = None

    def drawn(self, chance: float) -> WorkerLimits:
        """Return the limits of one worker: workers that start together do not end together.

        Args:
            chance: A random number in [0, 1).
        """
        part = 1.0 - JITTER * chance
        return WorkerLimits(
            *(limit and max(1, round(limit * part)) for limit in (self.jobs, self.memory))
        )

    def reached(self, jobs: int, memory: int) -> Reason | None:
        """Return the limit that a worker has reached, if any; none before its first job ends.

        A limit of memory below that of the imported application would else replace idle workers
        without end.

        Args:
            jobs: How many runs it has ended.
            memory: Its resident memory in MiB.
        """
        if jobs and self.jobs is not None and jobs >= self.jobs:
            return "jobs"
        if jobs and self.memory is not None and memory >= self.memory:
            return "memory"
        return None


NO_LIMITS: Final = WorkerLimits()

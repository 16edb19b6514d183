"""Decides when a worker process has run enough jobs, or grown enough, to be replaced."""

from __future__ import annotations

from typing import Final, Literal

from attrs import evolve, frozen

Reason = Literal["jobs", "memory"]

REASONS: Final[tuple[Reason, ...]] = ("jobs", "memory")
"""Why a worker is replaced: each is a limit, and a label of the metric."""

JITTER: Final = 0.2
"""By which part, at most, the limits of a worker are lower than those that were set."""

GROWTH: Final = 0.1
"""By which part of its memory a worker may grow at least before it is replaced."""


@frozen
class WorkerLimits:
    """What a worker process does before it is replaced; None for no limit.

    Attributes:
        jobs: How many runs of jobs it starts.
        memory: Its resident memory in MiB.
    """

    jobs: int | None = None
    memory: int | None = None

    def drawn(self, chance: float) -> WorkerLimits:
        """Return the limits of one worker: workers that start together do not end together.

        Args:
            chance: A random number in [0, 1).
        """
        part, limits = 1.0 - JITTER * chance, (self.jobs, self.memory)
        return WorkerLimits(*(limit and max(1, round(limit * part)) for limit in limits))

    def above(self, fresh: int) -> WorkerLimits:
        """Return limits that let a worker grow: others would replace each after its first job.

        Args:
            fresh: Its resident memory in MiB before its first job.
        """
        least = round(fresh * (1 + GROWTH))
        return evolve(self, memory=self.memory and max(self.memory, least))

    def reached(self, jobs: int, memory: int) -> Reason | None:
        """Return the limit that a worker has reached, if any; none before its first job.

        Args:
            jobs: How many runs it has started.
            memory: Its resident memory in MiB.
        """
        if self.jobs and jobs >= self.jobs:
            return "jobs"
        return "memory" if jobs and self.memory and memory >= self.memory else None


NO_LIMITS: Final = WorkerLimits()

"""Jobs that workers gave back unstarted, to be divided among peers and released."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from attrs import frozen

from txqueue.model.assignment import JobKey

__all__ = ["Unstarted"]


@frozen
class Unstarted:
    """Jobs that workers gave back unstarted.

    Attributes:
        jobs: The jobs.
        weight: The sum of their weights; an estimate if they are a part of other unstarted jobs.
    """

    jobs: Sequence[JobKey] = ()
    weight: int = 0

    def __add__(self, other: Unstarted) -> Unstarted:
        return Unstarted([*self.jobs, *other.jobs], self.weight + other.weight)

    @property
    def ids(self) -> dict[int, list[int]]:
        """The numbers of the jobs by assignment."""
        ids: dict[int, list[int]] = {}
        for assignment, job_id in self.jobs:
            ids.setdefault(assignment, []).append(job_id)
        return ids

    def without(self, gone: Collection[int]) -> Unstarted:
        """Return the jobs whose numbers are not in `gone`."""
        return self._part([job for job in self.jobs if job.job_id not in gone])

    def cut(self, weight: int) -> tuple[Unstarted, Unstarted]:
        """Divide the jobs into a part of about a given weight, and the rest."""
        jobs = -(-weight * len(self.jobs) // max(1, self.weight))
        return self._part(self.jobs[:jobs]), self._part(self.jobs[jobs:])

    def batches(self, most: int) -> list[Unstarted]:
        """Divide the jobs into parts of at most `most` jobs."""
        starts = range(0, len(self.jobs), most)
        return [self._part(self.jobs[start : start + most]) for start in starts]

    def _part(self, jobs: Sequence[JobKey]) -> Unstarted:
        return Unstarted(jobs, self.weight * len(jobs) // max(1, len(self.jobs)))

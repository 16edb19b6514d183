"""The jobs that a worker holds and has not started."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import chain

from txqueue.model.chunk import AssignedJob
from txqueue.worker.handlers.running_job import HeldAssignment

__all__ = ["Backlog", "Waiting"]

Waiting = tuple[HeldAssignment, AssignedJob]
"""An unstarted job, after its assignment."""


class Backlog(deque[Waiting]):
    """The unstarted jobs of a worker, in the order of their arrival.

    Attributes:
        aside: Those that wait for a thread, while later ones start; they are older than the others.
    """

    def __init__(self) -> None:
        super().__init__()
        self.aside: deque[Waiting] = deque()

    def all(self) -> Iterator[Waiting]:
        """Yield all unstarted jobs."""
        return chain(self.aside, self)

    def clear(self) -> None:
        """Forget all unstarted jobs."""
        self.aside.clear()
        super().clear()

    def bring_back(self, most: int | None = None) -> None:
        """Put jobs that were set aside in front of the others: all, or the oldest ones."""
        number = len(self.aside) if most is None else min(most, len(self.aside))
        self.extendleft(reversed([self.aside.popleft() for _ in range(number)]))

    def give_up(self, most: int | None) -> tuple[dict[int, list[int]], int]:
        """Remove jobs: all, or the last ones until their weight reaches `most`.

        Returns:
            The numbers of the removed jobs by assignment, and their weight.
        """
        self.bring_back()
        unstarted: dict[int, list[int]] = {}
        weight = 0
        while self and (most is None or weight < most):
            held, job = self.pop()
            unstarted.setdefault(held.token.assignment, []).append(job.job_id)
            weight += job.weight
        return {assignment: ids[::-1] for assignment, ids in unstarted.items()}, weight

    def take(self, assignment: int, job_id: int) -> Waiting | None:
        """Remove and return one job; return None if it is not among the unstarted ones."""
        self.bring_back()
        for waiting in self:
            held, job = waiting
            if job.job_id == job_id and held.token.assignment == assignment:
                self.remove(waiting)
                return waiting
        return None

    def take_former(self, incarnation: int) -> list[Waiting]:
        """Remove and return the jobs assigned to other runs of the node than `incarnation`."""
        self.bring_back()
        former = [entry for entry in self if entry[0].token.incarnation != incarnation]
        if former:
            others = [entry for entry in self if entry[0].token.incarnation == incarnation]
            self.clear()
            self.extend(others)
        return former

"""The jobs that a worker holds and has not started, their terms, and when the worker acts."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context
from itertools import chain
from typing import Any

from txqueue.errors import InvalidWork
from txqueue.model.assignment import AssignedJob
from txqueue.model.job_policy import MOST_ATTEMPTS, is_timeout
from txqueue.system.clock import Clock
from txqueue.worker.handlers.running_job import HeldAssignment


def check_terms(terms: Any) -> None:
    """Check the options in a job's terms as `WorkQueue.enqueue` does, as SQL accepts any JSON.

    Raises:
        InvalidWork: When an option is not valid.
    """
    if isinstance(terms, dict):
        timeout, attempts = terms.get("timeout"), terms.get("attempts", 1)
        is_time = timeout is None or is_timeout(timeout)
        if is_time and type(attempts) is int and 0 < attempts <= MOST_ATTEMPTS:
            return
    raise InvalidWork(
        "the options are not an object with a timeout above 0, at most ten years, and attempts of"
        f" 1 to {MOST_ATTEMPTS}",
        "enqueue with options such as {'timeout': 30, 'attempts': 3}",
    )


def is_expired(terms: dict[str, Any], expires: bool, asked_at: float) -> bool:
    """Tell whether a job has expired and must not start; one with steps has started before.

    Args:
        terms: The job's terms; ``left`` has the seconds until its not_after.
        expires: Whether its work type declares ``expires``; the options may override it.
        asked_at: When the claim was sent, by the monotonic clock; ``left`` counts from then or
            later.
    """
    if "left" not in terms or "steps" in terms or not terms.get("expires", expires):
        return False
    return bool(time.monotonic() >= asked_at + float(terms["left"]))


def is_grouped(terms: dict[str, Any]) -> bool:
    """Tell whether a job counts towards a limit of a group, a queue or a tenant."""
    return "grouped" in terms


class Turns:
    """Starts jobs and reports ended ones soon after it was asked to, once for many requests.

    Without messages that is in the reactor's next turn. What messages request that are read
    together is done after the last of them, unless a turn was due before: a job that was handed
    to an idle worker, and has ended, is reported in the turn that read it.

    Args:
        clock: Has the reactor's turns.
        start: Starts jobs.
        report: Reports what has ended.
    """

    def __init__(self, clock: Clock, start: Callable[[], None], report: Callable[[], None]) -> None:
        self._clock = clock
        self._start = start
        self._report = report
        self._is_reading = False
        self._is_starting = False
        self.is_due = False

    def request(self, after: float = 0) -> None:
        """Request a turn, unless one is due.

        Args:
            after: Seconds until the turn, at least; while messages are read, none.
        """
        if not self.is_due:
            self.is_due = True
            if not self._is_reading:
                self._clock.callLater(after, self._take)

    def start_now(self) -> None:
        """Start jobs without a turn, which costs more than to start one, unless one is due."""
        if self.is_due:
            return
        if self._is_starting:
            # A job has ended while others are being started.
            self.request()
            return
        # A job that has just ended leaves the next ones nothing of its context.
        Context().run(self._start_jobs)

    def _start_jobs(self) -> None:
        self._is_starting = True
        try:
            self._start()
        finally:
            self._is_starting = False

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Take the turn that messages which are read in the block request, unless one was due."""
        was_due, self._is_reading = self.is_due, True
        try:
            yield
        finally:
            self._is_reading = False
            if self.is_due and not was_due:
                self._take()

    def _take(self) -> None:
        self.is_due = False
        self._start_jobs()
        self._report()


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

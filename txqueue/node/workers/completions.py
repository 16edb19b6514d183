"""Writes what workers report of assigned jobs: done, ended otherwise, running or returned."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from attrs import Factory, define
from twisted.internet.defer import Deferred

from txqueue.model.assignment import (
    CompletedJobs,
    JobKey,
    ReturnedJobs,
    SettledJob,
    SettledJobs,
    StartedJob,
)
from txqueue.node.state.collaborators import EndListener
from txqueue.node.state.lease import Lease
from txqueue.node.state.meters import Meters
from txqueue.node.state.periodic import Periodic
from txqueue.node.state.wakeups import Wakeups
from txqueue.policy.endings.batching import LONG, BatchSize, gathering
from txqueue.store.driver.errors import is_passing
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.outcomes import as_settled_jobs, settled_jobs_in
from txqueue.store.node.replies import WrittenEnds
from txqueue.system.clock import Clock

__all__ = ["Completions"]

LAST_TRIES = 6
# Tries of a long outcome, each beside a short statement that succeeds, after which its job fails,
# and the seconds between them.
LONG_TRIES, LONG_PAUSE = 3, 5.0
# So many reports are written without a delay.
FEW = 50
# After a statement with so many ended jobs, results are collected too: a caller that waits for one
# of so many waits hardly longer.
MANY = 50
# The most assignments that one statement returns.
MOST_GIVEN_BACK = 500


@define
class _Entries:
    """The reports to write: completions first, so that no done job is returned to the queue.

    Only the latest report of a running job is kept, so that memory stays bounded during an outage.
    """

    completed: list[CompletedJobs] = Factory(list)
    settled: list[SettledJobs] = Factory(list)
    started: dict[JobKey, StartedJob] = Factory(dict)
    given_back: list[ReturnedJobs] = Factory(list)

    def take(self, entries: _Entries) -> None:
        """Add other entries, with long outcomes at the end."""
        self.completed += entries.completed
        self.settled += entries.settled
        self.settled.sort(key=_is_long)
        self.started |= entries.started
        self.given_back += entries.given_back

    def part(self, jobs: list[CompletedJobs]) -> bool:
        """Make the first completions outcomes of single jobs, if they have results or it is one."""
        is_one = len(jobs) == 1
        parted = [entry for entry in jobs if is_one or entry.results]
        self.completed[: len(jobs)] = [entry for entry in jobs if not (is_one or entry.results)]
        self.settled += [as_settled_jobs([job]) for entry in parted for job in _as_settled(entry)]
        self.settled.sort(key=_is_long)
        return bool(parted)

    def can_wait(self, *, with_results: bool) -> bool:
        """Tell whether all entries are a few done jobs, for which no caller waits.

        Args:
            with_results: Whether jobs with results can wait, too.
        """
        if len(self.completed) >= FEW or self.settled or self.started or self.given_back:
            return False
        return with_results or not any(entry.results for entry in self.completed)

    @property
    def ends(self) -> int:
        """About how many ended jobs the entries report."""
        return _count(self.completed) + sum(entry.jobs for entry in self.settled)

    def __bool__(self) -> bool:
        return bool(self.completed or self.settled or self.started or self.given_back)


class Completions(Periodic):
    """Collects workers' reports while a statement runs, and writes them with the next statements.

    Args:
        clock: Times the retries.
        functions: The stored functions.
        lease: Has the incarnation of this run.
        ends: Notified of the jobs whose ends are written.
        wakeups: Wakes the claimer when a written outcome makes jobs ready.
        meters: Times the statements, and counts the outcomes that changed nothing.
    """

    name = "completions"

    def __init__(
        self,
        clock: Clock,
        functions: StoredFunctions,
        *,
        lease: Lease,
        ends: EndListener,
        wakeups: Wakeups,
        meters: Meters,
    ) -> None:
        super().__init__(clock)
        self._functions = functions
        self._lease = lease
        self._ends = ends
        self._wakeups = wakeups
        self._meters = meters
        self._clock = clock
        self._open = _Entries()
        self._writing = _Entries()
        self._written_at = self._completed_at = float("-inf")
        # Seconds between the last two completions.
        self._interval = float("inf")
        # How many jobs the last statement has ended, and whether that freed others.
        self._last, self._has_freed = 0, False
        self._completed, self._settled = BatchSize(), BatchSize()
        # How often the first long outcome has failed, and when it may be tried again.
        self._long_tries, self._long_at = 0, float("-inf")
        # The numbers of the latest entry noted, the latest being written and the latest written.
        self._noted = self._taken = self._written = 0

    @property
    def mark(self) -> int:
        """A number that stands for all entries noted so far; see `has_written`."""
        return self._noted

    def has_written(self, mark: int) -> bool:
        """Tell whether all entries are written that were noted before `mark` was read."""
        return self._written >= mark

    def complete(self, completed: CompletedJobs) -> None:
        """Note jobs that are done."""
        now = self._clock.seconds()
        self._interval, self._completed_at = now - self._completed_at, now
        self._open.completed.append(completed)
        self._noted += 1
        self.alarm.ring()

    def committed(self, numbers: str) -> None:
        """Note jobs that their own transactions have completed: nothing is left to write."""
        self._ends.ended(numbers)

    def settle(self, settled: SettledJobs) -> None:
        """Note jobs that ended otherwise than done, or with progress to store."""
        self._open.settled.append(settled)
        self._noted += 1
        self.alarm.ring()

    def start(self, jobs: Iterable[StartedJob]) -> None:
        """Note reports of running jobs; only the latest report of a job is written."""
        self._open.started |= {job.key: job for job in jobs}
        self.alarm.ring()

    def give_back(self, assignment: int, *, died: bool, ids: list[int] | None = None) -> None:
        """Note jobs of an assignment to return to the queue: those in `ids`, or all that remain."""
        self._open.given_back.append(ReturnedJobs(assignment, ids, died))
        self._noted += 1
        self.alarm.ring()

    @property
    def unwritten(self) -> int:
        """The number of ended jobs whose outcome is not written yet."""
        return self._open.ends + self._writing.ends

    @property
    def is_clean(self) -> bool:
        """Whether all entries are written."""
        return not self._open and not self._writing

    async def close(self) -> None:
        """Stop, and write the remaining entries, or give up after a few errors of the database."""
        stopping = self.stopService()
        if stopping is not None:
            await stopping
        for _ in range(LAST_TRIES):
            if self.is_clean:
                return
            if (pause := await self._safe_step()) is not None:
                await self.alarm.wait(pause)
        self.log.error("the outcomes of some jobs could not be written: these jobs will run again")

    async def step(self) -> float | None:
        """Write the collected entries."""
        while self._open or self._writing:
            if not self._writing:
                await self._gather()
            self._writing.take(self._open)
            self._open = _Entries()
            self._taken = self._noted
            await self._write(self._writing)
            if not self._writing:
                self._written = self._taken
            self._written_at = self._clock.seconds()
            if self._long_at > self._written_at and self._writing and not self._open:
                return self._long_at - self._written_at
        return None

    @property
    def _is_urgent(self) -> bool:
        """Whether other jobs, or clients, may wait for what is to be written."""
        if self._has_freed or self._ends.is_awaited:
            return True
        return not self._open.can_wait(with_results=self._last >= MANY)

    async def _gather(self) -> None:
        """Wait briefly for more entries after a statement, unless a caller may wait."""
        due = self._written_at + gathering(self._meters.commit_time, self._interval)
        pause = due - self._clock.seconds()
        if pause > 0 and self.running and not self._is_urgent:
            timer: Deferred[None] = Deferred()
            self._clock.callLater(pause, timer.callback, None)
            await timer

    async def _write(self, entries: _Entries) -> None:
        """Write all entries, but one of the long outcomes only, as other jobs may end meanwhile."""
        incarnation = self._lease.incarnation
        while entries.completed:
            await self._complete(incarnation, entries)
        while entries.settled and not _is_long(entries.settled[0]):
            await self._settle(incarnation, entries.settled)
        if entries.started:
            await self._functions.started(incarnation, list(entries.started.values()))
            entries.started = {}
        if entries.settled and self._clock.seconds() >= self._long_at:
            await self._settle_long(incarnation, entries.settled)
        if not entries.settled:
            await self._release(incarnation, entries)

    async def _release(self, incarnation: int, entries: _Entries) -> None:
        # Jobs with which a process died are returned before the rest of the same assignments.
        entries.given_back.sort(key=lambda entry: not entry.died)
        while entries.given_back:
            alike, remaining = _alike(entries.given_back)
            await self._functions.release(incarnation, alike)
            entries.given_back = remaining
            self._wakeups.look_for_work()

    async def _complete(self, incarnation: int, entries: _Entries) -> None:
        """Write completions, as many as one statement may; after an error, half as many."""
        completed = entries.completed
        jobs = completed[: self._completed.first(map(_length, completed))]
        began = self._clock.seconds()
        try:
            written = await self._functions.complete(incarnation, jobs)
            self._meters.completions.observe(took := self._clock.seconds() - began)
            self._meters.commits.append(took)
        except Exception as error:
            now = self._clock.seconds()
            if not is_passing(error):
                # One of these jobs cannot be completed; `settle` can try each alone.
                if not entries.part(jobs):
                    self._completed.failed(len(jobs), now)
                return
            self._completed.failed(len(jobs), now)
            if len(jobs) == 1 and jobs[0].results:
                entries.part(jobs)
            raise
        self._completed.succeeded(self._clock.seconds())
        del completed[: len(jobs)]
        self._tell(_count(jobs), written)
        for entry in jobs:
            self._ends.ended(entry.ids)

    def _tell(self, ended: int, written: WrittenEnds) -> None:
        self._meters.tokens_lost += ended - written.jobs
        self._last = written.jobs
        self._has_freed = written.has_freed
        if written.has_freed:
            self._wakeups.look_for_work(written.freed)

    async def _settle(self, incarnation: int, settled: list[SettledJobs]) -> None:
        """Write the first outcomes, as many as one statement may; after an error, half as many."""
        short = [len(report.outcomes) for report in settled if not _is_long(report)]
        reports = settled[: self._settled.first(short)]
        try:
            await self._write_outcomes(incarnation, reports)
        except Exception as error:
            if is_passing(error):
                self._settled.failed(len(reports), self._clock.seconds())
                raise
            self.log.error("some outcomes cannot be stored as they are: {error}", error=error)
            for job in settled_jobs_in(reports):
                await self._settle_one(incarnation, job)
        else:
            self._settled.succeeded(self._clock.seconds())
        del settled[: len(reports)]

    async def _write_outcomes(self, incarnation: int, reports: Sequence[SettledJobs]) -> None:
        written = await self._functions.settle(incarnation, reports)
        # Some of the jobs may be due again soon.
        self._wakeups.outcome_written()
        self._tell(sum(report.jobs for report in reports), written)
        self._ends.ended(written.settled)

    async def _settle_one(self, incarnation: int, job: SettledJob) -> None:
        """Write one outcome alone; if it cannot be stored, let its job fail with that error."""
        try:
            await self._write_outcomes(incarnation, [as_settled_jobs([job])])
        except Exception as error:
            if is_passing(error):
                raise
            await self._fail(incarnation, job, type(error).__name__)

    async def _settle_long(self, incarnation: int, settled: list[SettledJobs]) -> None:
        """Write the first outcome, a long one; if it fails a few times, let its job fail."""
        try:
            await self._write_outcomes(incarnation, settled[:1])
        except Exception as error:
            job, *more = settled_jobs_in(settled[:1])
            if more:
                settled[:1] = [as_settled_jobs([outcome]) for outcome in (job, *more)]
                settled.sort(key=_is_long)
                return
            await self._fail(incarnation, job, await self._why_never(incarnation, error))
        self._long_tries, self._long_at = 0, float("-inf")
        del settled[0]

    async def _why_never(self, incarnation: int, error: Exception) -> str:
        """Return why a long outcome cannot be stored; raise the error if it may be tried again."""
        if not is_passing(error):
            return type(error).__name__
        self._long_at = self._clock.seconds() + LONG_PAUSE
        # Perhaps it takes longer than a statement may. If the database does not answer at all, this
        # raises its error.
        await self._functions.started(incarnation, [])
        self._long_tries += 1
        if self._long_tries < LONG_TRIES:
            raise error
        return f"it is so long that the database does not take it in time: {error}"

    async def _fail(self, incarnation: int, job: SettledJob, reason: str) -> None:
        error_text = f"its outcome cannot be stored: {reason}"
        failed = SettledJob(job.job_id, job.assignment, "failed", error=error_text)
        await self._functions.settle(incarnation, [as_settled_jobs([failed])])


def _is_long(settled: SettledJobs) -> bool:
    return len(settled.outcomes) > LONG


def _length(completed: CompletedJobs) -> int:
    return len(completed.ids) + len(completed.results or "")


def _count(completed: Iterable[CompletedJobs]) -> int:
    return sum(entry.ids.count(",") + 1 for entry in completed)


def _as_settled(completed: CompletedJobs) -> list[SettledJob]:
    """Return one outcome for each of these done jobs, so that each can be written alone."""
    results = json.loads(completed.results or "{}")
    return [
        SettledJob(int(number), completed.assignment, "done", result=results.get(number))
        for number in completed.ids.split(",")
    ]


def _alike(entries: list[ReturnedJobs]) -> tuple[list[ReturnedJobs], list[ReturnedJobs]]:
    """Divide jobs to return into those that one statement can return with the first, and others."""
    first = entries[0]
    alike: list[ReturnedJobs] = []
    others: list[ReturnedJobs] = []
    for entry in entries:
        is_alike = (entry.died, entry.ids is None) == (first.died, first.ids is None)
        (alike if is_alike and len(alike) < MOST_GIVEN_BACK else others).append(entry)
    return alike, others

"""Writes what workers report of assigned jobs, and notifies waiting clients after the commit of
their ends.
"""

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
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.lease import Lease
from txqueue.node.state.periodic import Periodic, Wakeups
from txqueue.node.workers.long_outcomes import LongOutcomes
from txqueue.policy.backoff import Backoff
from txqueue.policy.endings.reports import LONG, BatchSize, EndNotices, gathering
from txqueue.store.driver.errors import is_locked, is_passing
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.outcomes import as_settled_jobs, outcomes_texts, settled_jobs_in
from txqueue.store.node.run_functions import WrittenEnds
from txqueue.system.clock import Clock


class EndNotifier(Periodic):
    """Sends the notifications of ended jobs, gathered while the one before is under way.

    They are not sent by the transactions that end the jobs: PostgreSQL lets one transaction at a
    time commit with a notification. What is lost here is found by the clients' polls.

    Args:
        clock: Times the pauses.
        functions: Sends a notification.
    """

    name = "end notifier"

    def __init__(self, clock: Clock, functions: StoredFunctions) -> None:
        super().__init__(clock)
        self._clock = clock
        self._functions = functions
        self._notices = EndNotices()

    @property
    def is_awaited(self) -> bool:
        """Whether clients wait for jobs to end, as far as the last notification has told."""
        return self._notices.is_awaited(self._clock.seconds())

    def on_ends(self, numbers: str) -> None:
        """Note jobs whose ends are committed, by their numbers joined by commas."""
        is_first = self._notices.pause(self._clock.seconds()) is None
        self._notices.note(numbers)
        if is_first:
            self.alarm.ring()

    async def step(self) -> float | None:
        """Send what is due; return the seconds until the next notification."""
        while (pause := self._notices.pause(self._clock.seconds())) == 0:
            await self._send()
        return pause

    async def close(self) -> None:
        """Stop, and send what is left."""
        stopping = self.stopService()
        if stopping is not None:
            await stopping
        if self._notices.pause(self._clock.seconds()) is not None:
            await self._send()

    async def _send(self) -> None:
        text = self._notices.take(self._clock.seconds())
        awaited = await self._functions.notify_ends(text)
        self._notices.answered(awaited, self._clock.seconds())


# Seconds after which the remaining entries are given up at the end of the node.
LAST_TIME = 10.0
# Shortest and longest pause between two looks for jobs whose rows other sessions have locked.
FIRST_LOOK, LONGEST_LOOK = 0.5, 5.0
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

    @classmethod
    def of_jobs(cls, outcomes: Iterable[SettledJob], running: Iterable[StartedJob]) -> _Entries:
        """Return the entries of single jobs."""
        reports = [SettledJobs(text) for text in outcomes_texts(outcomes)]
        return cls(settled=reports, started={job.key: job for job in running})

    def take(self, entries: _Entries) -> None:
        """Add other entries."""
        self.completed += entries.completed
        self.settled += entries.settled
        self.started |= entries.started
        self.given_back += entries.given_back

    def part(self, jobs: list[CompletedJobs]) -> list[SettledJob]:
        """Remove the first completions that have results, or a single one; return its outcomes."""
        is_one = len(jobs) == 1
        parted = [entry for entry in jobs if is_one or entry.results]
        self.completed[: len(jobs)] = [entry for entry in jobs if not (is_one or entry.results)]
        return [job for entry in parted for job in _as_settled(entry)]

    @property
    def outcomes(self) -> list[SettledJob]:
        """The outcomes of all ended jobs, each by itself."""
        done = [job for entry in self.completed for job in _as_settled(entry)]
        return done + settled_jobs_in(self.settled)

    @property
    def assignments(self) -> set[int]:
        """The assignments of the outcomes, and perhaps others."""
        return set().union(*(report.assignments for report in self.settled))

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


@define(eq=False, repr=False, slots=False)
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

    _functions: StoredFunctions
    _lease: Lease
    _ends: EndNotifier
    _wakeups: Wakeups
    _meters: Meters

    def __attrs_post_init__(self) -> None:
        self._open = _Entries()
        self._writing = _Entries()
        self._written_at = self._completed_at = float("-inf")
        # Seconds between the last two completions.
        self._interval = float("inf")
        # How many jobs the last statement has ended, and whether that freed others.
        self._last, self._has_freed = 0, False
        self._completed, self._settled = BatchSize(), BatchSize()
        # What concerns jobs whose rows other sessions have locked, and when to look at them again.
        self._held = _Entries()
        self._looks = Backoff(FIRST_LOOK, LONGEST_LOOK)
        self._look_at = 0.0
        self._long = LongOutcomes(
            self._clock,
            lambda report: self._write_outcomes([report]),
            self._fail,
            probe=lambda: self._functions.started(self._lease.incarnation, []),
            ended=self.alarm.ring,
        )
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

    def on_commit(self, numbers: str) -> None:
        """Note jobs that their own transactions have completed: nothing is left to write."""
        self._ends.on_ends(numbers)

    def settle(self, settled: SettledJobs) -> None:
        """Note jobs that ended otherwise than done, or with progress to store."""
        self._note(settled)
        self._noted += 1
        self.alarm.ring()

    def _note(self, report: SettledJobs) -> None:
        if len(report.outcomes) <= LONG:
            self._open.settled.append(report)
        elif report.jobs > 1 and len(jobs := settled_jobs_in([report])) > 1:
            self._note_each(jobs)
        else:
            self._long.add(report)

    def _note_each(self, jobs: Iterable[SettledJob]) -> None:
        for job in jobs:
            self._note(as_settled_jobs([job]))

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
        entries = (self._open, self._writing, self._held)
        return sum(each.ends for each in entries) + self._long.unwritten

    @property
    def is_clean(self) -> bool:
        """Whether all entries are written."""
        return not (self._open or self._writing or self._held or self._long.unwritten)

    async def close(self) -> None:
        """Stop, and write the remaining entries, or give up after a while."""
        stopping = self.stopService()
        if stopping is not None:
            await stopping
        deadline = self._clock.seconds() + LAST_TIME
        while True:
            pause = await self._safe_step()
            left = deadline - self._clock.seconds()
            if self.is_clean or left <= 0:
                break
            await self.alarm.wait(left if pause is None else min(pause, left))
        if not self.is_clean:
            self.log.error("the outcomes of some jobs could not be written: these jobs run again")

    async def step(self) -> float | None:
        """Write the collected entries."""
        if self._held and self._clock.seconds() >= self._look_at:
            await self._look_at_held()
        while self._open or self._writing:
            if not self._writing:
                await self._gather()
            self._writing.take(self._open)
            self._open = _Entries()
            self._taken = self._noted
            await self._write_free()
            self._written_at = self._clock.seconds()
        if self.is_clean:
            self._written = self._taken
        return self._look_at - self._clock.seconds() if self._held else None

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

    async def _write_free(self) -> None:
        """Write the entries; set those apart that concern jobs whose rows are locked."""
        try:
            await self._write(self._writing)
        except Exception as error:
            if not is_locked(error):
                raise
            free, held = await self._divided(self._writing)
            if not held:
                raise
            self._writing = free
            self._hold(held)

    def _hold(self, entries: _Entries) -> None:
        self._held.take(entries)
        self._looks.reset()
        self._look_at = self._clock.seconds() + self._looks.take()

    async def _look_at_held(self) -> None:
        """Take back the entries of jobs whose rows are free again."""
        self._look_at = self._clock.seconds() + self._looks.take()
        free, self._held = await self._divided(self._held)
        self._open.take(free)

    async def _divided(self, entries: _Entries) -> tuple[_Entries, _Entries]:
        """Divide entries into those of jobs that can end now, and those of jobs that are locked."""
        outcomes, running = entries.outcomes, list(entries.started.values())
        ids = [job.job_id for job in outcomes] + [job.job_id for job in running]
        held = frozenset(await self._functions.held_jobs(self._lease.incarnation, ids))
        free, locked = (
            _Entries.of_jobs(
                [job for job in outcomes if (job.job_id in held) is is_held],
                [job for job in running if (job.job_id in held) is is_held],
            )
            for is_held in (False, True)
        )
        free.given_back = entries.given_back
        return free, locked

    async def _write(self, entries: _Entries) -> None:
        incarnation = self._lease.incarnation
        while entries.completed:
            await self._complete(incarnation, entries)
        while entries.settled:
            await self._settle(entries.settled)
        if entries.started:
            await self._functions.started(incarnation, list(entries.started.values()))
            entries.started = {}
        await self._release(incarnation, entries)

    async def _release(self, incarnation: int, entries: _Entries) -> None:
        # An assignment with outcomes that are not written yet has jobs that must not run again.
        ended = self._long.assignments | self._held.assignments
        if late := [entry for entry in entries.given_back if entry.assignment in ended]:
            self._hold(_Entries(given_back=late))
            entries.given_back = [entry for entry in entries.given_back if entry not in late]
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
            if is_locked(error):
                raise
            now = self._clock.seconds()
            if not is_passing(error):
                # One of these jobs cannot be completed; `settle` can try each alone.
                if parted := entries.part(jobs):
                    self._note_each(parted)
                else:
                    self._completed.failed(len(jobs), now)
                return
            self._completed.failed(len(jobs), now)
            if len(jobs) == 1 and jobs[0].results:
                self._note_each(entries.part(jobs))
            raise
        self._completed.succeeded(self._clock.seconds())
        del completed[: len(jobs)]
        self._tell(_count(jobs), written)
        for entry in jobs:
            self._ends.on_ends(entry.ids)

    def _tell(self, ended: int, written: WrittenEnds) -> None:
        self._meters.tokens_lost += ended - written.jobs
        self._last = written.jobs
        self._has_freed = written.has_freed
        if written.has_freed:
            self._wakeups.look_for_work(written.freed)

    async def _settle(self, settled: list[SettledJobs]) -> None:
        """Write the first outcomes, as many as one statement may; after an error, half as many."""
        short = [len(report.outcomes) for report in settled]
        reports = settled[: self._settled.first(short)]
        try:
            await self._write_outcomes(reports)
        except Exception as error:
            if is_locked(error):
                raise
            if is_passing(error):
                self._settled.failed(len(reports), self._clock.seconds())
                raise
            self.log.error("some outcomes cannot be stored as they are: {error}", error=error)
            for job in settled_jobs_in(reports):
                self._long.add(as_settled_jobs([job]))
        else:
            self._settled.succeeded(self._clock.seconds())
        del settled[: len(reports)]

    async def _write_outcomes(self, reports: Sequence[SettledJobs]) -> None:
        written = await self._functions.settle(self._lease.incarnation, reports)
        # Some of the jobs may be due again soon.
        self._wakeups.on_outcome()
        self._tell(sum(report.jobs for report in reports), written)
        self._ends.on_ends(written.settled)

    async def _fail(self, report: SettledJobs, reason: str) -> None:
        [job] = settled_jobs_in([report])
        error_text = f"its outcome cannot be stored: {reason}"
        failed = SettledJob(job.job_id, job.assignment, "failed", error=error_text)
        await self._functions.settle(self._lease.incarnation, [as_settled_jobs([failed])])


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

"""A worker process, as its master uses it: the pipe to it, and the jobs that it holds."""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from attrs import asdict, define
from twisted.internet.defer import Deferred
from twisted.logger import Logger

from txqueue.model.assignment import (
    Assignment,
    CancelledJob,
    CompletedJobs,
    JobKey,
    SettledJobs,
    StartedJob,
)
from txqueue.node.workers.starter import RunVersion, StartedWorker
from txqueue.policy.placement.room import Load, PaceMeter, Unstarted
from txqueue.policy.worker_limits import NO_LIMITS, WorkerLimits
from txqueue.system.inflight import InFlight
from txqueue.system.processes import memory_of
from txqueue.wire.commands import (
    CancelRunning,
    Configure,
    Count,
    Finish,
    GiveBack,
    Hold,
    Occupy,
    Perform,
    Refuse,
    RenewLease,
    Settle,
    Start,
)
from txqueue.wire.pipe import PipeFactory, PromptPipe

if TYPE_CHECKING:
    from txqueue.node.workers.pool import WorkerPool

# Timeouts in seconds: to import the application, and to read a process's last messages.
START_PATIENCE, LAST_WORDS = 300.0, 1.0
MIB = 1024 * 1024


@define(eq=False, repr=False, slots=False)
class WorkerProcess:
    """One started worker process.

    Args:
        owner: The pool that started it.
        key: Identifies the worker within the pool.
        is_apart: Whether it is for suspects, and gets no other jobs.
        limits: What it does before it is replaced.

    Attributes:
        is_retired: Whether its master has ended it, as it was no longer needed.
        is_blameless: Whether its master has killed it, so that its jobs count no death.
        is_ending: Whether it gets no more jobs, as another one takes its place.
        is_ready: Whether it can get jobs.
        is_late: Whether its answer to a request is overdue.
        is_stopped: Whether it must not start jobs until it has reported its unstarted ones.
        memory: Its resident memory in MiB, when it was last measured.
        held: The number of jobs that it holds, by assignment.
        outstanding: The weight of those jobs.
        outlived: The numbers of ended jobs whose threads go on; no other job can take their weight.
        left: That weight.
        runs: Which version of the application it runs; None until it is ready.
        ended: Fires when both the process and its pipe have ended.
        end: The signal or status with which the process ended; empty while it runs.

    Raises:
        OSError: When the process cannot be started.
    """

    log = Logger()

    _owner: WorkerPool
    key: int
    is_apart: bool = False
    limits: WorkerLimits = NO_LIMITS

    def __attrs_post_init__(self) -> None:
        self.is_retired = self.is_blameless = self.is_ending = False
        self.memory = 0
        self.is_ready = self.is_late = self.is_stopped = False
        self._pinged_at: float | None = None
        self._disowned: set[JobKey] = set()
        self.held: dict[int, int] = {}
        self.outstanding = self.left = 0
        self.outlived: list[int] = []
        self._stuck_since: float | None = None
        self._crowded_since: float | None = None
        self.runs: RunVersion | None = None
        self.started_at = self._owner.reactor.seconds()
        self._pace = PaceMeter(self.started_at)
        self.ended: Deferred[None] = Deferred()
        self.end = ""
        self._lives = {"pipe", "process"}
        self._pipe = PromptPipe(
            {
                Finish: self._finish,
                Settle: self._settle,
                Refuse: self._refuse,
                Start: self._start,
                Occupy: self._occupy,
                Count: self._count,
            },
            lost=self._on_pipe_lost,
        )
        self._process = self._start_process()

    def _start_process(self) -> StartedWorker:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        shared = InFlight.made(self._owner.capacity)
        try:
            with ours, theirs:
                started = self._owner.starter.start(self._on_process_end, theirs.fileno(), shared)
                self._in_flight = InFlight(self._owner.capacity, shared)
                self._in_flight.limit(self.limits.jobs or 0)
                self._owner.reactor.adoptStreamConnection(
                    ours.fileno(), socket.AF_UNIX, PipeFactory(self._pipe)
                )
                return started
        finally:
            os.close(shared)

    @property
    def pid(self) -> int:
        """The process id; 0 until the template reports that it has forked the process."""
        return self._process.pid

    async def configure(self, settings: Mapping[str, Any]) -> None:
        """Make the worker import the application, after which it can get jobs."""
        answer = self._pipe.say(Configure, settings=json.dumps(settings))
        reply = await answer.addTimeout(START_PATIENCE, self._owner.reactor)
        run = json.loads(reply["run"])
        self.runs = RunVersion(run["application"], frozenset(run["types"]), run["files"])
        self.is_ready = True
        self.measure()
        self.limits = self.limits.above(self.memory)

    @property
    def load(self) -> Load:
        """The worker's load, in the form in which `policy.placement.room` takes it."""
        return Load(
            key=self.key,
            capacity=self._owner.capacity,
            outstanding=self.weight,
            rate=self._pace.rate(self._owner.reactor.seconds()),
            left=self.left,
        )

    @property
    def weight(self) -> int:
        """The weight that is taken, by the jobs that the worker holds and by `outlived`."""
        return self.outstanding + self.left

    def perform(self, assignments: Sequence[Assignment]) -> None:
        """Send the jobs of assignments to the worker, all together."""
        for assignment in assignments:
            self.held[assignment.number] = assignment.jobs
            self.outstanding += assignment.weight
        self._pipe.say_each_now(Perform, map(_call, assignments))

    def renew(self, until: float, incarnation: int) -> None:
        """Let the worker start jobs of run `incarnation` until `until`.

        `until` is a time of the monotonic clock, which all processes of a host share.
        """
        self._pipe.say(RenewLease, until=until, incarnation=incarnation)

    def cancel(self, job: CancelledJob) -> None:
        """Make the worker end a cancelled or restarted job."""
        self._pipe.say(CancelRunning, **asdict(job))

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Take unstarted jobs back from the worker: all, or the last ones up to a weight.

        Returns:
            The jobs that the worker will not start; the caller now has them.
        """
        answer = await self._pipe.say(GiveBack, most=most)
        unstarted = [
            JobKey(int(assignment), job_id)
            for assignment, ids in json.loads(answer["unstarted"]).items()
            for job_id in ids
        ]
        owned = [job_key for job_key in unstarted if job_key not in self._disowned]
        for job in owned:
            self._let_go(job.assignment, 1)
        self.outstanding = max(0, self.outstanding - answer["weight"])
        self.is_late = False
        if most is None:
            self._go_on()
        self._owner.on_report(self)
        return Unstarted(owned, answer["weight"] if owned else 0)

    @property
    def silent(self) -> float:
        """Seconds since the oldest unanswered ping; 0 if there is none."""
        return 0.0 if self._pinged_at is None else self._owner.reactor.seconds() - self._pinged_at

    def ping(self) -> None:
        """Ping the worker, unless an earlier ping is unanswered."""
        if self.is_late and self._in_flight.blocker:
            self._ask_what_blocks()
        if self._pinged_at is None:
            self._pinged_at = self._owner.reactor.seconds()
            self._pipe.say(Hold, assignments="[]").addCallbacks(self._on_answer, lambda _: None)

    def _on_answer(self, _: object) -> None:
        self._pinged_at = None

    @property
    def stuck(self) -> float:
        """Seconds since threads of ended jobs keep the worker from starting any; 0 if none do."""
        since = self._stuck_since
        return 0.0 if since is None else self._owner.reactor.seconds() - since

    @property
    def is_stuck(self) -> bool:
        """Whether the worker can start no job until a thread of an ended job ends."""
        return self._stuck_since is not None

    @property
    def is_crowded(self) -> bool:
        """Whether threads of ended jobs keep at least half of the worker's capacity."""
        return self._crowded_since is not None

    @property
    def crowded(self) -> float:
        """Seconds for which a crowded worker has had no room, or no job, and has ended none."""
        since = self._crowded_since
        if since is None or (self.held and self.weight < self._owner.capacity):
            return 0.0
        return self._owner.reactor.seconds() - max(since, self._pace.measured_at)

    def stop(self) -> None:
        """Stop the worker from starting jobs until it has reported its unstarted ones."""
        self.is_late = self.is_stopped = True
        self._in_flight.stop()
        self._ask_what_blocks()
        self.relieve()

    def _ask_what_blocks(self) -> None:
        """Have the worker name the job that blocks it, unless it runs code that is not Python.

        Once, and again only after an answer: the signal may cut a system call of such code short.
        """
        self._in_flight.name_blocker(0)
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGURG)

    def relieve(self) -> None:
        """Return the unstarted jobs to the queue once the worker answers."""
        # When the pipe is lost, all jobs are returned anyway.
        Deferred.fromCoroutine(self.give_back()).addErrback(lambda _: None)

    def _go_on(self) -> None:
        self.is_stopped = False
        self._disowned.clear()
        self._in_flight.stop(is_stopped=False)

    @property
    def begun(self) -> set[int] | None:
        """The numbers of started jobs whose end was not reported; None if unknown."""
        return self._in_flight.begun

    def disown(self, jobs: Iterable[JobKey]) -> None:
        """Return to the queue jobs that the worker has not started and will not start."""
        lost = set(jobs) - self._disowned
        self._disowned |= lost
        for job in lost:
            self._let_go(job.assignment, 1)
        self.return_(Unstarted(sorted(lost), 0))

    async def holds(self, assignments: Iterable[int]) -> dict[int, set[int]]:
        """Ask the worker which jobs of these assignments it holds; it reports ended jobs first."""
        answer = await self._pipe.say(Hold, assignments=json.dumps(list(assignments)))
        return {int(key): set(ids) for key, ids in json.loads(answer["held"]).items()}

    @property
    def in_flight(self) -> set[int]:
        """The numbers of the jobs that the worker runs."""
        return self._in_flight.ids

    @property
    def started_runs(self) -> int:
        """How many runs of jobs it has started."""
        return self._in_flight.started

    def go_on(self) -> None:
        """Let the worker start more jobs than its limit, as it cannot be replaced yet."""
        self._in_flight.limit(0)

    @property
    def blocker(self) -> int:
        """The number of the job that blocks a worker which does not answer; 0 if it is not known.

        A handler that blocks in its first step is certain, and so is one that the worker has named.
        """
        known = self._in_flight.beginning or self._in_flight.blocker
        return known if known in self._in_flight.ids else 0

    @property
    def blocking(self) -> set[int]:
        """The numbers of the jobs of which one may block a worker that does not answer."""
        return {self.blocker} if self.blocker else self._in_flight.ids

    @property
    def suspects(self) -> set[int]:
        """The numbers of the jobs that may have ended the worker."""
        return self._in_flight.suspects

    async def give_back(self) -> None:
        """Return all unstarted jobs to the queue once the worker answers."""
        self.return_(await self.take_back())

    def return_(self, unstarted: Unstarted) -> None:
        """Return unstarted jobs to the queue."""
        for assignment, ids in unstarted.ids.items():
            self._owner.reports.give_back(assignment, died=False, ids=ids)

    def kill(self) -> None:
        """Kill the process."""
        self._process.kill()

    def kill_blameless(self) -> None:
        """Kill the process; its jobs run again, and count no death."""
        self.is_blameless = True
        self.kill()

    def begin_end(self) -> None:
        """Let the process start no more jobs, and return those that it has not started."""
        self.is_ending = True
        # At once: the request waits behind jobs that it has been sent.
        self._in_flight.stop()
        self.relieve()

    def measure(self) -> None:
        """Measure the memory of the process, if it has a limit, and replace it at a limit."""
        if self.limits.memory is not None:
            self.memory = memory_of(self.pid) // MIB
        self._owner.look_at(self)

    async def retire_once_told(self) -> None:
        """End the process, which holds no job any more, after it has reported all that it did."""
        await self.holds([])
        self.retire()

    def retire(self) -> None:
        """End the process, as it is no longer needed and runs no job."""
        self.is_ready, self.is_retired = False, True
        self.close()

    def close(self) -> None:
        """Close the pipe, which makes the process exit."""
        self._pipe.close()

    def _finish(
        self,
        *,
        lane: int,
        assignment: int,
        weight: int,
        jobs: int,
        ids: str,
        results: str,
        committed: str,
    ) -> dict[str, Any]:
        if ids:
            self._owner.reports.complete(CompletedJobs(lane, assignment, ids, results or None))
        if committed:
            self._owner.reports.on_commit(committed)
        self._let_go(assignment, jobs)
        return self._account(weight)

    def _settle(self, weight: int, counts: str, outcomes: str) -> dict[str, Any]:
        for assignment, jobs in json.loads(counts).items():
            self._let_go(int(assignment), jobs)
        self._owner.reports.settle(SettledJobs(outcomes))
        return self._account(weight)

    def _refuse(self, *, assignment: int, weight: int, jobs: int, reason: str) -> dict[str, Any]:
        self.log.error(
            "the jobs of assignment {number} do not start, and return to the queue:"
            " its chunk is malformed: {reason}",
            number=assignment,
            reason=reason,
        )
        self._owner.reports.give_back(assignment, died=False)
        self._let_go(assignment, jobs)
        return self._account(weight)

    def _start(self, jobs: str) -> dict[str, Any]:
        self._owner.reports.start([StartedJob(**job) for job in json.loads(jobs)])
        return {}

    def _occupy(self, weight: int, jobs: str, is_stuck: bool) -> dict[str, Any]:
        self.left, self.outlived = weight, json.loads(jobs)
        now = self._owner.reactor.seconds()
        self._stuck_since = _since(is_stuck, self._stuck_since, now)
        is_crowded = 2 * weight >= self._owner.capacity
        self._crowded_since = _since(is_crowded, self._crowded_since, now)
        self._owner.on_report(self)
        return {}

    def _count(self, tally: str) -> dict[str, Any]:
        self._owner.meters.tally.add(tally)
        return {}

    def _let_go(self, assignment: int, jobs: int) -> None:
        left = self.held.get(assignment, 0) - jobs
        if left > 0:
            self.held[assignment] = left
        else:
            self.held.pop(assignment, None)

    def _account(self, weight: int) -> dict[str, Any]:
        self.outstanding = max(0, self.outstanding - weight)
        self._pace.add(weight, self._owner.reactor.seconds())
        self._owner.on_report(self)
        return {}

    def _on_pipe_lost(self) -> None:
        self.is_ready = False
        self._owner.on_worker_lost(self)
        self._end_life("pipe")

    def _on_process_end(self, how: str) -> None:
        self.end = how
        # Reports sent before the end are read first; but a child of the process may keep the pipe
        # open.
        if "pipe" in self._lives:
            closing = self._owner.reactor.callLater(LAST_WORDS, self._pipe.abort)
            self.ended.addBoth(lambda _: closing.cancel() if closing.active() else None)
        self._end_life("process")

    def _end_life(self, life: str) -> None:
        self._lives.discard(life)
        if not self._lives:
            self.ended.callback(None)


def _since(is_so: bool, since: float | None, now: float) -> float | None:
    """Return since when something is so, if it is."""
    if not is_so:
        return None
    return now if since is None else since


def _call(assignment: Assignment) -> dict[str, Any]:
    """Return the arguments of `Perform`."""
    return {
        "incarnation": assignment.incarnation,
        "assignment": assignment.number,
        "lane": assignment.lane,
        "jobs": assignment.jobs,
        "weight": assignment.weight,
        "asked_at": assignment.asked_at,
        "chunk": assignment.chunk,
    }

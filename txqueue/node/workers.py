"""Distributes jobs among a node's workers, and takes them back."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Iterable

from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.model.assignment import Assignment, CancelledJob
from txqueue.node.worker_process import Reports, WorkerProcess
from txqueue.policy.balancing import Unstarted, give_back_shares
from txqueue.policy.dispatch import Load, Room, least_loaded, room_of
from txqueue.store.replies import HeartbeatReply
from txqueue.system.clock import Clock

__all__ = ["Workers"]

# The longest turn, in seconds, that other jobs get after a suspect on the only worker.
LONGEST_TURN = 10.0
# Seconds in which a worker must report its unstarted jobs.
SOON = 2.0


class Workers:
    """The worker processes together, as the node's services use them.

    The worker pool adds started processes and removes ended ones.

    Args:
        clock: Times out answers.
        count: The intended number of processes.
        capacity: The weight that each process runs at a time.
        reports: Receives returned jobs.
    """

    log = Logger()

    def __init__(self, clock: Clock, *, count: int, capacity: int, reports: Reports) -> None:
        self._clock = clock
        self.count = count
        self.capacity = capacity
        self.reports = reports
        self._workers: dict[int, WorkerProcess] = {}
        self._lease = float("-inf"), 0
        # Whether the workers have different versions of the work types.
        self._are_mixed = False
        # A suspect that waits until a worker is free of other jobs, and that worker.
        self._suspect: Assignment | None = None
        self._alone: WorkerProcess | None = None
        self._alone_since = self._suspects_from = float("-inf")

    # Calls by the worker pool.

    def add(self, worker: WorkerProcess) -> None:
        """Add a started process, which gets jobs once it is ready."""
        self._workers[worker.key] = worker

    def remove(self, worker: WorkerProcess) -> None:
        """Remove a process that has ended."""
        self._workers.pop(worker.key, None)
        self._compare()

    @property
    def all(self) -> list[WorkerProcess]:
        """All processes, ready or not."""
        return list(self._workers.values())

    def configured(self, worker: WorkerProcess) -> None:
        """Pass the lease to a process that has become ready."""
        worker.renew(*self._lease)
        self._compare()

    def _compare(self) -> None:
        versions = {worker.runs.types for worker in self.ready if worker.runs is not None}
        self._are_mixed = len(versions) > 1

    def reported(self, worker: WorkerProcess) -> None:
        """Note that a worker has finished or returned jobs."""
        if worker is self._alone:
            self._place_suspect()

    def lost(self, worker: WorkerProcess, *, is_blamed: bool) -> None:
        """Return to the queue the jobs of a worker whose pipe closed.

        Args:
            worker: The worker.
            is_blamed: Whether its running jobs may have killed it.
        """
        held, worker.held = worker.held, {}
        # Jobs that only waited in the worker did not cause its end.
        blamed = sorted(worker.suspects) if is_blamed else []
        for assignment in held if blamed else ():
            self.reports.give_back(assignment, died=True, ids=blamed)
        for assignment in held:
            self.reports.give_back(assignment, died=False)
        if worker is self._alone:
            self._drop_suspect()
            self._let_others_in()

    # Calls by the services.

    @property
    def room(self) -> Room:
        """What a claim may take: the room of all workers together."""
        return room_of(worker.load for worker in self._open())

    @property
    def takes_suspects(self) -> bool:
        """Whether a suspect can get a worker that runs nothing else."""
        return self._alone is None and self._clock.seconds() >= self._suspects_from

    @property
    def assignments(self) -> list[int]:
        """The assignments whose jobs workers hold, and that of the suspect that waits, if any."""
        waiting = [self._suspect.number] if self._suspect else []
        held = [assignment for worker in self._workers.values() for assignment in worker.held]
        return waiting + held

    @property
    def in_flight(self) -> int:
        """How many jobs are running."""
        return sum(len(worker.in_flight) for worker in self._workers.values())

    @property
    def holdings(self) -> Counter[int]:
        """How many jobs of each assignment workers hold; a suspect that still waits counts."""
        held: Counter[int] = Counter()
        if self._suspect is not None:
            held[self._suspect.number] += self._suspect.jobs
        for worker in self._workers.values():
            held.update(worker.held)
        return held

    async def holds(self, assignments: Collection[int]) -> dict[int, set[int]]:
        """Return which jobs of the given assignments the workers hold.

        Raises:
            TimeoutError: When a worker that holds jobs of them does not answer in time.
        """
        jobs: dict[int, set[int]] = {assignment: set() for assignment in assignments}
        for worker in self.ready:
            if not (its := [each for each in assignments if each in worker.held]):
                continue
            asking = Deferred.fromCoroutine(worker.holds(its))
            asking.addTimeout(SOON, self._clock)  # type: ignore[arg-type]  # it needs callLater only
            for assignment, ids in (await asking).items():
                jobs[assignment] |= ids
        return jobs

    @property
    def loads(self) -> list[Load]:
        """The load of each worker that may get jobs now: it answers, and has no suspect."""
        return [worker.load for worker in self._open()]

    @property
    def load(self) -> float:
        """The weight of the jobs that the workers hold, as a fraction of their capacity."""
        total = self.count * self.capacity
        return sum(worker.weight for worker in self._workers.values()) / total

    def describe(self) -> list[dict[str, int | bool]]:
        """Return the process id of each worker, whether it is ready, blocked or stuck, and the jobs
        and weight it holds.
        """
        return [
            {
                "pid": worker.pid,
                "is_ready": worker.is_ready,
                "is_late": worker.is_late,
                "is_stuck": worker.is_stuck,
                "jobs": sum(worker.held.values()),
                "weight": worker.weight,
            }
            for worker in self._workers.values()
        ]

    def perform(self, assignments: Iterable[Assignment]) -> None:
        """Hand each assignment to the least loaded worker."""
        for assignment in assignments:
            loads = self.loads
            if not loads:
                self.reports.give_back(assignment.number, died=False)
                continue
            # Where versions differ, a job that one worker could not read must meet the others.
            load = random.choice(loads) if self._are_mixed else least_loaded(loads)
            chosen = self._workers[load.key]
            if assignment.is_alone:
                self._suspect, self._alone = assignment, chosen
                self._alone_since = self._clock.seconds()
                self._place_suspect()
            else:
                chosen.perform(assignment)

    def renew(self, until: float, incarnation: int) -> None:
        """Let the workers start jobs of run `incarnation` until `until`, by the monotonic clock."""
        self._lease = until, incarnation
        for worker in self.ready:
            worker.renew(*self._lease)

    def give_back(self) -> None:
        """Return all unstarted jobs of the workers to the queue."""
        self._drop_suspect()
        self._place_suspect()
        for worker in self.ready:
            asking = Deferred.fromCoroutine(worker.give_back())
            asking.addErrback(self._not_given_back, worker)

    def heard(self, reply: HeartbeatReply) -> None:
        """End the cancelled jobs that a heartbeat names."""
        for cancelled in reply.cancels:
            self.cancel(cancelled)

    def cancel(self, job: CancelledJob) -> None:
        """Make the worker that holds a cancelled job, if any, end the job."""
        for worker in self.ready:
            if job.assignment in worker.held:
                worker.cancel(job)

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Take unstarted jobs back from the workers: all, or the last ones up to a weight.

        If a worker does not answer in time, its unstarted jobs return to the queue once it answers.

        Returns:
            The jobs that the workers will not start; the caller now has them.
        """
        workers = [worker for worker in self.ready if not worker.is_late]
        shares = give_back_shares([worker.load for worker in workers], most)
        asking = [self._soon(worker, shares[worker.key]) for worker in workers]
        answers = await DeferredList(asking, consumeErrors=True)
        # Jobs of a worker whose pipe is lost are returned anyway.
        return sum((given for is_answered, given in answers if is_answered), Unstarted())

    def _soon(self, worker: WorkerProcess, most: int | None) -> Deferred[Unstarted]:
        soon: Deferred[Unstarted] = Deferred()
        if most == 0:
            soon.callback(Unstarted())
            return soon

        def missed() -> None:
            worker.is_late = True
            soon.callback(Unstarted())

        late = self._clock.callLater(SOON, missed)

        def answered(unstarted: Unstarted) -> None:
            if late.active():
                late.cancel()
                soon.callback(unstarted)
            else:
                worker.return_(unstarted)

        def failed(failure: Failure) -> None:
            if late.active():
                late.cancel()
                soon.errback(failure)

        Deferred.fromCoroutine(worker.take_back(most)).addCallbacks(answered, failed)
        return soon

    @property
    def ready(self) -> list[WorkerProcess]:
        """The workers that have imported the application, even those that do not answer."""
        return [worker for worker in self._workers.values() if worker.is_ready]

    @property
    def able(self) -> list[WorkerProcess]:
        """The workers that can start jobs: they answer, and have threads and capacity left."""
        return [each for each in self.ready if not each.is_late and not each.is_stuck]

    def _open(self) -> list[WorkerProcess]:
        """The workers that may get jobs now: able ones that have no suspect."""
        return [each for each in self.able if each is not self._alone]

    def _place_suspect(self) -> None:
        """Send the suspect once its worker holds no other jobs; once the suspect is done, let the
        worker get other jobs again.
        """
        if self._alone is None or self._alone.held:
            return
        if self._suspect is not None:
            self._alone.perform(self._suspect)
            self._suspect = None
        else:
            self._let_others_in()

    def _let_others_in(self) -> None:
        """End a suspect's turn; with only one worker, other jobs then get an equally long turn."""
        self._alone = None
        if self.count == 1:
            now = self._clock.seconds()
            self._suspects_from = now + min(now - self._alone_since, LONGEST_TURN)

    def _drop_suspect(self) -> None:
        if self._suspect is not None:
            self.reports.give_back(self._suspect.number, died=False)
            self._suspect = None

    def _not_given_back(self, failure: Failure, worker: WorkerProcess) -> None:
        # A worker whose pipe is lost or closed has no jobs left to return.
        if failure.check(ConnectionDone, ConnectionLost):
            return
        if worker.is_ready:
            self.log.error(
                "worker process {pid} does not report its jobs, and is killed: {error!r}",
                pid=worker.pid,
                error=failure.value,
            )
            worker.kill()

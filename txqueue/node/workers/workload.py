"""Distributes jobs among a node's workers, and takes them back."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import define, evolve
from twisted.internet.defer import Deferred, DeferredList, TimeoutError, succeed
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.model.assignment import Assignment, CancelledJob
from txqueue.node.workers.process import WorkerProcess
from txqueue.node.workers.suspects import MOST_NAMED, MOST_PROCESSES, Suspects, is_free
from txqueue.policy.placement.room import (
    Load,
    Room,
    Unstarted,
    give_back_shares,
    least_loaded,
    room_of,
)
from txqueue.store.node.run_functions import HeartbeatReply
from txqueue.system.clock import Clock

if TYPE_CHECKING:
    from txqueue.node.workers.completions import Completions

# Seconds in which a worker must report its unstarted jobs; and for which the first import of the
# application may last until a node reports that no worker runs.
SOON, FIRST_IMPORT = 2.0, 30.0


@define(eq=False, repr=False, slots=False)
class Workers:
    """The worker processes together, as the node's services use them.

    The worker pool adds started processes and removes ended ones.

    Args:
        clock: Times out answers.
        count: The intended number of processes, without those for suspects.
        capacity: The weight that each process runs at a time.
        reports: Receives returned jobs.
        suspects: The suspects that wait for a process of their own.
    """

    log = Logger()

    _clock: Clock
    count: int
    capacity: int
    reports: Completions
    _suspects: Suspects

    def __attrs_post_init__(self) -> None:
        self._workers: dict[int, WorkerProcess] = {}
        self._lease = float("-inf"), 0
        # Whether the workers have different versions of the work types.
        self._are_mixed = False
        self._imports_until = float("-inf")

    # Calls by the worker pool.

    def begin_import(self) -> None:
        """Note that the application is imported for the first time, before any process starts."""
        self._imports_until = self._clock.seconds() + FIRST_IMPORT

    def end_import(self) -> None:
        """Note that the first import has ended, or has failed."""
        self._imports_until = float("-inf")

    @property
    def are_starting(self) -> bool:
        """Whether there is no process yet because the application is being imported."""
        return not self._workers and self._clock.seconds() < self._imports_until

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

    def on_ready(self, worker: WorkerProcess) -> None:
        """Pass the lease to a process that has become ready."""
        worker.renew(*self._lease)
        self._compare()
        self.on_report(worker)

    def _compare(self) -> None:
        versions = {worker.runs.types for worker in self.ready if worker.runs is not None}
        self._are_mixed = len(versions) > 1

    def on_report(self, worker: WorkerProcess) -> None:
        """Note that a worker has finished or returned jobs."""
        if worker.is_apart:
            self._suspects.alarm.ring()

    def on_lost(self, worker: WorkerProcess, *, is_blamed: bool) -> None:
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

    # Calls by the services.

    @property
    def room(self) -> Room:
        """What a claim may take: the room of all workers together."""
        return room_of(worker.load for worker in self.able)

    @property
    def takes_suspects(self) -> bool:
        """Whether a suspect can get a process of its own."""
        # A process that starts is one for which a suspect waits.
        busy = sum(process.is_ready and not is_free(process) for process in self.apart)
        return busy + len(self._suspects.waiting) < MOST_PROCESSES

    @property
    def suspects_behind(self) -> list[int]:
        """Jobs that keep all processes for suspects, none of which can start another; else none."""
        closed = [each for each in self.apart if each.is_ready and (each.is_late or each.is_stuck)]
        if len(closed) < MOST_PROCESSES:
            return []
        keepers = {job_id for process in closed for job_id in process.blocking or process.outlived}
        return sorted(keepers)[:MOST_NAMED]

    @property
    def assignments(self) -> list[int]:
        """The assignments whose jobs workers hold, and those of suspects that wait."""
        waiting = [suspect.number for suspect in self._suspects.waiting]
        held = [assignment for worker in self._workers.values() for assignment in worker.held]
        return waiting + held

    @property
    def in_flight(self) -> int:
        """How many jobs are running."""
        return sum(len(worker.in_flight) for worker in self._workers.values())

    @property
    def holdings(self) -> Counter[int]:
        """How many jobs of each assignment workers hold; suspects that still wait count."""
        held: Counter[int] = Counter()
        for suspect in self._suspects.waiting:
            held[suspect.number] += suspect.jobs
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
            if not (numbers := [number for number in assignments if number in worker.held]):
                continue
            asking = Deferred.fromCoroutine(worker.holds(numbers))
            asking.addTimeout(SOON, self._clock)  # type: ignore[arg-type]  # it needs callLater only
            for assignment, ids in (await asking).items():
                jobs[assignment] |= ids
        return jobs

    @property
    def loads(self) -> list[Load]:
        """The load of each worker that may get jobs now: it answers, and is not for suspects."""
        return [worker.load for worker in self.able]

    @property
    def load(self) -> float:
        """The weight of the jobs that the workers hold, as a fraction of their capacity."""
        total = self.count * self.capacity
        held = sum(worker.weight for worker in self._workers.values() if not worker.is_apart)
        return held / total

    @property
    def closed(self) -> dict[str, int]:
        """How many workers get no jobs now, by the reason; those for suspects do not count."""
        if self.are_starting:
            return {"starting": self.count}
        states = map(_closed_by, self.staying)
        return dict(Counter(state for state in states if state is not None))

    def room_report(self) -> dict[str, int | bool | list[int]]:
        """Return, as plain data, what a claim may take, and the weight of the jobs that are held.

        ``attainable`` is the largest weight for which the end of other jobs makes room.
        """
        room = self.room
        held = sum(worker.outstanding for worker in self._workers.values())
        return {
            "free": room.free,
            "ahead": room.ahead,
            "largest": room.largest,
            "capacity": self.capacity,
            "attainable": max((self.capacity - worker.left for worker in self.able), default=0),
            "weight": held + sum(suspect.weight for suspect in self._suspects.waiting),
            "takes_suspects": self.takes_suspects,
            "suspects_behind": self.suspects_behind,
        }

    @property
    def left(self) -> dict[str, Any]:
        """What threads of ended jobs keep in workers that can start others; empty if nothing."""
        leaving = [worker for worker in self.able if worker.left]
        if not leaving:
            return {}
        return {
            "weight": sum(worker.left for worker in leaving),
            "crowded": sum(worker.is_crowded for worker in leaving),
            "jobs": sorted({job_id for worker in leaving for job_id in worker.outlived})[
                :MOST_NAMED
            ],
        }

    def perform(self, assignments: Iterable[Assignment]) -> None:
        """Hand each assignment to the least loaded worker, suspects to processes of their own."""
        weights = {worker: worker.weight for worker in self.able}
        shares: defaultdict[WorkerProcess, list[Assignment]] = defaultdict(list)
        for assignment in assignments:
            if assignment.is_alone:
                self._suspects.waiting.append(assignment)
                self._suspects.alarm.ring()
            elif not weights:
                self.reports.give_back(assignment.number, died=False)
            else:
                worker = self._choose(weights)
                weights[worker] += assignment.weight
                shares[worker].append(assignment)
        for worker, share in shares.items():
            worker.perform(share)

    def _choose(self, weights: Mapping[WorkerProcess, int]) -> WorkerProcess:
        """Return the worker that gets a job; `weights` has the weight that each one is to hold."""
        # Where versions differ, a job that one worker could not read must meet the others.
        if self._are_mixed:
            return random.choice(list(weights))
        worker = min(weights, key=weights.__getitem__)
        if weights[worker] < self.capacity:
            # It can start more than the others: how fast they end jobs need not be known.
            return worker
        loads = [evolve(other.load, outstanding=weight) for other, weight in weights.items()]
        return self._workers[least_loaded(loads).key]

    def renew(self, until: float, incarnation: int) -> None:
        """Let the workers start jobs of run `incarnation` until `until`, by the monotonic clock."""
        self._lease = until, incarnation
        for worker in self.ready:
            worker.renew(*self._lease)

    def give_back(self) -> None:
        """Return all unstarted jobs of the workers to the queue."""
        while self._suspects.waiting:
            self.reports.give_back(self._suspects.waiting.popleft().number, died=False)
        for worker in self.ready:
            asking = Deferred.fromCoroutine(worker.give_back())
            asking.addErrback(self._not_given_back, worker)

    def on_heartbeat(self, reply: HeartbeatReply) -> None:
        """End the runs of cancelled and restarted jobs that a heartbeat names."""
        for cancelled in reply.cancels:
            self.cancel(cancelled)

    def cancel(self, job: CancelledJob) -> None:
        """Make the worker that holds a cancelled or restarted job, if any, end the job.

        A worker that the job blocks is killed: nothing else ends that run. For one that another
        job blocks, the run ends once that worker answers.
        """
        for worker in self.ready:
            if job.assignment not in worker.held:
                continue
            if worker.is_late and job.job_id in worker.blocking:
                self._kill_blocked(worker, job)
            else:
                worker.cancel(job)

    def _kill_blocked(self, worker: WorkerProcess, job: CancelledJob) -> None:
        self.log.warn(
            "worker process {pid} is killed: {who} has {act} job {job_id}, which {blocks} it."
            " Its other jobs run again",
            pid=worker.pid,
            who=job.who,
            act="restarted" if job.is_restart else "cancelled",
            job_id=job.job_id,
            blocks="blocks" if worker.blocker else "may block",
        )
        worker.kill_blameless()

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
        return sum((unstarted for is_answered, unstarted in answers if is_answered), Unstarted())

    def _soon(self, worker: WorkerProcess, most: int | None) -> Deferred[Unstarted]:
        if most == 0:
            return succeed(Unstarted())
        soon: Deferred[Unstarted] = Deferred()

        def answered(unstarted: Unstarted) -> None:
            if soon.called:
                worker.return_(unstarted)
            else:
                soon.callback(unstarted)

        def failed(failure: Failure) -> None:
            if not soon.called:
                soon.errback(failure)

        def missed(failure: Failure) -> Failure:
            worker.is_late |= failure.check(TimeoutError) is not None
            return failure

        asking = Deferred.fromCoroutine(worker.take_back(most))
        asking.addCallbacks(answered, failed)
        soon.addTimeout(SOON, self._clock)  # type: ignore[arg-type]  # it needs callLater only
        return soon.addErrback(missed)

    @property
    def ready(self) -> list[WorkerProcess]:
        """The workers that have imported the application, even those that do not answer."""
        return [worker for worker in self._workers.values() if worker.is_ready]

    @property
    def staying(self) -> list[WorkerProcess]:
        """The workers, ready or not, without those for suspects and those that end."""
        return [
            worker
            for worker in self._workers.values()
            if not worker.is_apart and not worker.is_ending
        ]

    @property
    def may_end(self) -> bool:
        """Whether one more worker may end: no more than the intended number do so at a time."""
        return sum(worker.is_ending for worker in self._workers.values()) < self.count

    @property
    def regular(self) -> list[WorkerProcess]:
        """The ready workers that stay, without those for suspects."""
        return [worker for worker in self.staying if worker.is_ready]

    @property
    def apart(self) -> list[WorkerProcess]:
        """The processes for suspects, ready or not; all others are for the other jobs."""
        return [worker for worker in self._workers.values() if worker.is_apart]

    @property
    def able(self) -> list[WorkerProcess]:
        """The workers that can start jobs that are no suspects: they answer, and have threads and
        capacity left.
        """
        # Not by other properties: this is computed for each claim.
        return [
            worker
            for worker in self._workers.values()
            if worker.is_ready
            and not worker.is_late
            and not worker.is_stuck
            and not worker.is_apart
            and not worker.is_ending
        ]

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


def _closed_by(worker: WorkerProcess) -> str | None:
    if not worker.is_ready:
        return "starting"
    if worker.is_late:
        return "blocked"
    return "stuck" if worker.is_stuck else None

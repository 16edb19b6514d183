"""The worker processes of a node: started, fed, counted, replaced when they die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred, DeferredList
from twisted.internet.error import ConnectionDone, ConnectionLost
from twisted.logger import Logger
from twisted.python.failure import Failure

from txqueue.node.worker_process import Reports, WorkerProcess
from txqueue.policy.balancing import Unstarted, tail_shares
from txqueue.policy.dispatch import Load, Room, least_loaded, room_of
from txqueue.store.functions import Chunk

__all__ = ["WorkerPool"]

SHORT_LIFE = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
# Seconds that a worker whose pipe is closed has to end.
EXIT_GRACE = 5.0
# Seconds for which a suspect's turn on the only worker is made up for, at most.
LONGEST_TURN = 10.0
# Seconds that a worker has to say what it has not started.
SOON = 2.0


class WorkerPool(Service):
    """So many worker processes, whatever befalls them.

    Args:
        reactor: Spawns the processes.
        workers: How many.
        capacity: Weight that each may run at a time.
        settings: What a worker is told at its start: JSON.
        reports: Receives what they report.
        room_made: Called when a worker can be handed more.
    """

    name = "workers"
    log = Logger()

    def __init__(
        self,
        reactor: Any,
        *,
        workers: int,
        capacity: int,
        settings: Mapping[str, Any],
        reports: Reports,
        room_made: Callable[[], None],
    ) -> None:
        self.reactor = reactor
        self.capacity = capacity
        self.reports = reports
        self._room_made = room_made
        self._count = workers
        self._settings = settings
        self._workers: dict[int, WorkerProcess] = {}
        self._last_key = 0
        self._pause = FIRST_PAUSE
        self._respawns: list[Any] = []
        self._is_draining = False
        self._is_ending = False
        self._lease = float("-inf"), 0
        # A job that may kill its process, until a worker is free of others, and that worker.
        self._suspect: Chunk | None = None
        self._alone: WorkerProcess | None = None
        self._alone_since = self._suspects_from = float("-inf")

    def startService(self) -> None:
        """Start the processes."""
        super().startService()
        for _ in range(self._count):
            self._add()

    async def drain(self) -> None:
        """Start nothing more, give back what is not started, wait for what runs."""
        self._is_draining = True
        self.give_back()
        while any(worker.held for worker in self.ready):
            await _turn(self.reactor, 0.02)

    def stop_at_once(self) -> None:
        """End all processes now, and start no other; what they held is given back unspent."""
        self._is_draining = self._is_ending = True
        self._kill()

    def stopService(self) -> Deferred[Any]:
        """End the processes; those that do not end by themselves are killed."""
        super().stopService()
        for call in self._respawns:
            if call.active():
                call.cancel()
        workers = list(self._workers.values())
        for worker in workers:
            worker.close()
        kill = self.reactor.callLater(EXIT_GRACE, self._kill)
        ended = DeferredList([worker.ended for worker in workers])
        return ended.addBoth(lambda _: kill.cancel() if kill.active() else None)

    def _kill(self) -> None:
        for worker in self._workers.values():
            worker.kill()

    @property
    def room(self) -> Room:
        """What a claim may take for the workers."""
        return room_of(worker.load for worker in self._open())

    @property
    def takes_suspects(self) -> bool:
        """Whether jobs that may kill their process can be given one of their own."""
        return self._alone is None and self.reactor.seconds() >= self._suspects_from

    @property
    def assignments(self) -> list[int]:
        """The assignments that some worker holds, or is to hold."""
        waiting = [self._suspect.assignment] if self._suspect else []
        held = [assignment for worker in self._workers.values() for assignment in worker.held]
        return waiting + held

    @property
    def in_flight(self) -> int:
        """How many jobs run."""
        return sum(len(worker.in_flight) for worker in self._workers.values())

    @property
    def holdings(self) -> Counter[int]:
        """How many jobs of each assignment some worker holds, or is to hold."""
        held: Counter[int] = Counter()
        if self._suspect is not None:
            held[self._suspect.assignment] += self._suspect.jobs
        for worker in self._workers.values():
            held.update(worker.held)
        return held

    async def holds(self, assignments: Collection[int]) -> dict[int, set[int]]:
        """Return which jobs of some assignments the workers hold.

        Raises:
            TimeoutError: When a worker that holds some of them does not answer soon.
        """
        jobs: dict[int, set[int]] = {assignment: set() for assignment in assignments}
        for worker in self.ready:
            if not (its := [each for each in assignments if each in worker.held]):
                continue
            asking = Deferred.fromCoroutine(worker.holds(its))
            for assignment, ids in (await asking.addTimeout(SOON, self.reactor)).items():
                jobs[assignment] |= ids
        return jobs

    @property
    def load(self) -> float:
        """Weight outstanding, as a fraction of capacity."""
        total = self._count * self.capacity
        return sum(worker.outstanding for worker in self._workers.values()) / total

    def describe(self) -> list[dict[str, int | bool]]:
        """Say of each process its number, whether it is ready, and the jobs and weight it holds."""
        return [
            {
                "pid": worker.pid,
                "is_ready": worker.is_ready,
                "is_late": worker.is_late,
                "jobs": sum(worker.held.values()),
                "weight": worker.outstanding,
            }
            for worker in self._workers.values()
        ]

    def perform(self, chunks: Iterable[Chunk]) -> None:
        """Hand each chunk to the least loaded worker."""
        for chunk in chunks:
            workers = {worker.key: worker for worker in self._open()}
            if not workers:
                self.reports.give_back(chunk.assignment, died=False)
                continue
            chosen = workers[least_loaded([worker.load for worker in workers.values()]).key]
            if chunk.is_alone:
                self._suspect, self._alone = chunk, chosen
                self._alone_since = self.reactor.seconds()
                self._place_suspect()
            else:
                chosen.perform(chunk)

    def reported(self, worker: WorkerProcess) -> None:
        """A worker has done, or given up, some of what it holds."""
        if worker is self._alone:
            self._place_suspect()
        self._room_made()

    def _place_suspect(self) -> None:
        """Hand it over once its worker is free of others; let others in again once it is done."""
        if self._alone is None or self._alone.held:
            return
        if self._suspect is not None:
            self._alone.perform(self._suspect)
            self._suspect = None
        else:
            self._let_others_in()

    def _let_others_in(self) -> None:
        """End a suspect's turn; where there is one worker only, others have as long a turn then."""
        self._alone = None
        if self._count == 1:
            now = self.reactor.seconds()
            self._suspects_from = now + min(now - self._alone_since, LONGEST_TURN)

    def _drop_suspect(self) -> None:
        if self._suspect is not None:
            self.reports.give_back(self._suspect.assignment, died=False)
            self._suspect = None

    def renew(self, until: float, incarnation: int) -> None:
        """Let the workers start a run's jobs until a moment of the monotonic clock."""
        self._lease = until, incarnation
        for worker in self.ready:
            worker.renew(*self._lease)

    def give_back(self) -> None:
        """Have the workers start nothing of what they hold, and give that back."""
        self._drop_suspect()
        self._place_suspect()
        for worker in self.ready:
            asking = Deferred.fromCoroutine(worker.give_back())
            asking.addErrback(self._not_given_back, worker)

    def cancel(self, assignment: int, job_id: int, who: str) -> None:
        """Have the worker that holds a cancelled job, if one does, end it."""
        for worker in self.ready:
            if assignment in worker.held:
                worker.cancel(assignment, job_id, who)

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Have the workers start nothing of what they hold, or not the last of it up to a weight.

        A worker that does not answer soon gives what it has not started back once it does.

        Returns:
            What they will not start, which is the caller's now.
        """
        workers = [worker for worker in self.ready if not worker.is_late]
        shares = tail_shares([worker.load for worker in workers], most)
        asking = [self._soon(worker, shares[worker.key]) for worker in workers]
        answers = await DeferredList(asking, consumeErrors=True)
        # What a worker held whose pipe is lost is given back without being asked.
        return sum((given for is_answered, given in answers if is_answered), Unstarted())

    def _soon(self, worker: WorkerProcess, most: int | None) -> Deferred[Unstarted]:
        soon: Deferred[Unstarted] = Deferred()
        if most == 0:
            soon.callback(Unstarted())
            return soon

        def missed() -> None:
            worker.is_late = True
            soon.callback(Unstarted())

        late = self.reactor.callLater(SOON, missed)

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
    def loads(self) -> list[Load]:
        """What each worker holds that may be handed any job."""
        return [worker.load for worker in self._open()]

    def worker_lost(self, worker: WorkerProcess) -> None:
        """A pipe closed: its jobs are given back at once, and another process takes its place."""
        held, worker.held = worker.held, {}
        # What waited in it had no part in its end.
        blamed = [] if self._is_ending else sorted(worker.in_flight)
        for assignment in held if blamed else ():
            self.reports.give_back(assignment, died=True, ids=blamed)
        for assignment in held:
            self.reports.give_back(assignment, died=False)
        if worker is self._alone:
            self._drop_suspect()
            self._let_others_in()
        if self.running:
            worker.kill()
        worker.ended.addCallback(lambda _: self._replace(worker))

    def _open(self) -> list[WorkerProcess]:
        """Those that may be handed any job."""
        return [each for each in self.ready if each is not self._alone and not each.is_late]

    @property
    def ready(self) -> list[WorkerProcess]:
        """The workers that can be handed jobs, or could if they answered."""
        return [worker for worker in self._workers.values() if worker.is_ready]

    def _not_given_back(self, failure: Failure, worker: WorkerProcess) -> None:
        # One whose pipe is lost or closed has nothing left to give back.
        if failure.check(ConnectionDone, ConnectionLost):
            return
        if worker.is_ready and self.running:
            self.log.error(
                "worker process {pid} does not say what it holds, and is ended: {error!r}",
                pid=worker.pid,
                error=failure.value,
            )
            worker.kill()

    def _add(self) -> None:
        self._last_key += 1
        try:
            worker = WorkerProcess(self, self._last_key)
        except OSError as error:
            self.log.error("no worker process can be started: {error}", error=error)
            self._add_later(self._longer_pause())
            return
        self._workers[worker.key] = worker
        configuring = Deferred.fromCoroutine(worker.configure(self._settings))
        configuring.addCallbacks(
            lambda _: self._configured(worker), self._not_configured, errbackArgs=(worker,)
        )

    def _configured(self, worker: WorkerProcess) -> None:
        worker.renew(*self._lease)
        self._room_made()

    def _not_configured(self, failure: Failure, worker: WorkerProcess) -> None:
        worker.kill()
        if self.running:
            self.log.error("a worker could not start: {error}", error=failure.value)

    def _replace(self, worker: WorkerProcess) -> None:
        self._workers.pop(worker.key, None)
        if not self.running or self._is_draining:
            return
        lived = self.reactor.seconds() - worker.started_at
        if lived > SHORT_LIFE:
            self._pause = FIRST_PAUSE
        self.log.warn(
            "worker process {pid} ended {how} after {lived:.1f} s; another one starts",
            pid=worker.pid,
            how=worker.end,
            lived=lived,
        )
        self._add_later(0 if lived > SHORT_LIFE else self._longer_pause())

    def _longer_pause(self) -> float:
        pause, self._pause = self._pause, min(self._pause * 2, LONGEST_PAUSE)
        return pause

    def _add_later(self, pause: float) -> None:
        self._respawns = [call for call in self._respawns if call.active()]
        self._respawns.append(self.reactor.callLater(pause, self._add))


def _turn(reactor: Any, seconds: float) -> Deferred[None]:
    waiting: Deferred[None] = Deferred()
    reactor.callLater(seconds, waiting.callback, None)
    return waiting

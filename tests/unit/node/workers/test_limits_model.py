"""Workers that reach their limits while jobs flow and processes die: a model of the pool."""

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
)
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent
from twisted.protocols.amp import Command
from twisted.test.iosim import FakeTransport, IOPump, connect

from tests.unit.node.doubles import fake
from txqueue.model.assignment import Assignment, CompletedJobs
from txqueue.node.state.arrivals import Meters
from txqueue.node.workers.pool import LONGEST_PAUSE, WorkerPool
from txqueue.node.workers.process import MIB
from txqueue.node.workers.starter import Ended, WorkerVersions
from txqueue.node.workers.suspects import Suspects
from txqueue.node.workers.workload import Workers
from txqueue.policy.worker_limits import WorkerLimits
from txqueue.system.inflight import InFlight
from txqueue.wire.commands import Configure, Finish, GiveBack, Hold, Perform, RenewLease
from txqueue.wire.pipe import Pipe

COUNT, CAPACITY, LIMIT = 2, 4, 3
ACTS = ["deliver", "start_job", "end_job"]
places = st.integers(0, 2 * COUNT)


class ToyWorker:
    """A worker process that starts and ends the jobs that the test names; it has no program."""

    def __init__(self, cluster: "Cluster", ended: Ended, shared: int) -> None:
        self.pid = len(cluster.workers) + 1
        self._cluster, self._ended = cluster, ended
        self._in_flight = InFlight(CAPACITY, shared)
        self.waiting: list[tuple[int, int]] = []
        self.running: list[tuple[int, int]] = []
        self.is_alive = True
        commands: dict[type[Command], Callable[..., Any]] = {
            Configure: lambda **_: {"run": '{"application": "", "types": [], "files": {}}'},
            RenewLease: lambda **_: {},
            Perform: self._perform,
            GiveBack: self._give_back,
            Hold: lambda **_: {"held": "{}"},
        }
        self._pipe = Pipe(commands, self._exit)
        self.pump: IOPump | None = None

    def attach(self, pipe: Any) -> None:
        """Connect to the master's end."""
        ours, theirs = FakeTransport(self._pipe, False), FakeTransport(pipe, True)
        self.pump = connect(pipe, theirs, self._pipe, ours)

    def _perform(self, assignment: int, chunk: str, **_: Any) -> dict[str, Any]:
        self.waiting += [(assignment, job_id) for job_id in json.loads(chunk)]
        return {}

    def _give_back(self, most: int | None = None) -> dict[str, Any]:
        given, self.waiting = self.waiting, []
        unstarted: dict[int, list[int]] = {}
        for assignment, job_id in given:
            unstarted.setdefault(assignment, []).append(job_id)
        return {"unstarted": json.dumps(unstarted), "weight": len(given)}

    def start_job(self) -> None:
        """Start the first job that waits, unless the master has forbidden it."""
        if self.waiting and len(self.running) < CAPACITY and not self._in_flight.is_stopped:
            self.running.append(self.waiting.pop(0))
            job_id = self.running[-1][1]
            self._in_flight.begin(job_id)
            self._in_flight.keep(job_id)
            self._in_flight.note_started(1)
            self._cluster.starts[job_id] += 1

    def end_job(self) -> None:
        """End the oldest running job, and report it."""
        if self.running:
            assignment, job_id = self.running.pop(0)
            self._pipe.say(
                Finish,
                **{"lane": 0, "assignment": assignment, "weight": 1, "jobs": 1},
                **{"ids": str(job_id), "results": "", "committed": ""},
            )

    def deliver(self) -> None:
        """Let both ends read what the other has sent."""
        if self.is_alive and self.pump is not None:
            self.pump.pump()
            self._read_end()

    def _read_end(self) -> None:
        """Let the master read the end of the process, as soon as it has ended."""
        if not self.is_alive and self.pump is not None:
            self.pump.flush()

    def kill(self) -> None:
        """Kill it: the master reads what it has sent, and its running jobs may run again."""
        if self.is_alive:
            self._cluster.killed.update(job_id for _, job_id in self.running)
            self._pipe.connection.loseConnection()
            if self.pump is not None:
                self.pump.flush()

    def _exit(self) -> None:
        assert self.is_alive
        self.is_alive = False
        self._ended("by a signal")


class Cluster(RuleBasedStateMachine):
    """A node whose workers have limits, and the jobs that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.workers: list[ToyWorker] = []
        self.starts: Counter[int] = Counter()
        self.killed: Counter[int] = Counter()
        self.queue: list[int] = []
        self.assigned: dict[int, set[int]] = {}
        self.done: set[int] = set()
        self.jobs = 0
        suspects = Suspects(self.clock)
        self.load = Workers(self.clock, COUNT, CAPACITY, fake(self), suspects)
        self.pool = WorkerPool(
            fake(self),
            fake(self),
            self.load,
            settings={},
            listeners=[],
            meters=Meters(),
            versions=WorkerVersions([], []),
            suspects=suspects,
            limits=WorkerLimits(jobs=LIMIT, memory=100),
        )

    # The reactor and the starter of processes, as the pool sees them.

    def seconds(self) -> float:
        """Return the time."""
        return self.clock.seconds()

    def callLater(self, delay: float, call: Any, *args: Any) -> Any:
        """Call later."""
        return self.clock.callLater(delay, call, *args)

    def adoptStreamConnection(self, descriptor: int, family: int, factory: Any) -> None:
        """Connect the worker that was started last."""
        self.workers[-1].attach(factory.buildProtocol(None))

    def prepare(self) -> Deferred[None]:
        """Return that a process can start."""
        return succeed(None)

    def start(self, ended: Ended, pipe: int, shared: int) -> ToyWorker:
        """Start a process."""
        self.workers.append(ToyWorker(self, ended, shared))
        return self.workers[-1]

    # The database, as the workers' reports change it.

    def complete(self, jobs: CompletedJobs) -> None:
        """Write that jobs are done: they must still be assigned."""
        for job_id in map(int, jobs.ids.split(",")):
            self.assigned[jobs.assignment].remove(job_id)
            self.done.add(job_id)

    def give_back(self, number: int, *, died: bool, ids: list[int] | None = None) -> None:
        """Return jobs of an assignment to the queue."""
        returned = self.assigned[number] if ids is None else self.assigned[number] & {*ids}
        self.assigned[number] = self.assigned[number] - returned
        self.queue += sorted(returned)

    # What happens by chance.

    @initialize()
    def begin(self) -> None:
        """Start the node."""
        self.pool.startService()

    @rule(size=st.integers(1, 3))
    def enqueue_and_claim(self, size: int) -> None:
        """Hand over an assignment of returned jobs, or of new ones."""
        for worker in self.workers:
            worker.deliver()
        if not self.load.able:
            return
        self.queue += range(self.jobs, self.jobs + size)
        self.jobs += size
        self._claim(size)

    def _claim(self, size: int) -> None:
        batch, self.queue = self.queue[:size], self.queue[size:]
        number = len(self.assigned) + 1
        self.assigned[number] = set(batch)
        ending = {worker: dict(worker.held) for worker in self.load.all if worker.is_ending}
        self.load.perform([Assignment(1, number, 0, len(batch), len(batch), json.dumps(batch))])
        assert all(worker.held == held for worker, held in ending.items())

    @rule(which=places, acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=4))
    def act(self, which: int, acts: list[str]) -> None:
        """Let a process go on a little."""
        for act in acts:
            for worker in self._living(which):
                getattr(worker, act)()

    @rule(which=places)
    def grow(self, which: int) -> None:
        """Let a process that has run a job take more memory than it may."""
        for found in [each for each in self.load.all if each.key % COUNT == which % COUNT]:
            found.memory = 10_000
            self.pool.look_at(found)

    @rule(which=places)
    def kill(self, which: int) -> None:
        """Kill a process, also one that ends."""
        for worker in self._living(which):
            worker.kill()

    def _living(self, which: int) -> list[ToyWorker]:
        living = [worker for worker in self.workers if worker.is_alive]
        return living[which % len(living) :][:1] if living else []

    @rule()
    def wait(self) -> None:
        """Let time pass."""
        self.clock.advance(LONGEST_PAUSE)

    @invariant()
    def no_job_is_started_twice(self) -> None:
        """Only one whose process was killed starts again."""
        assert all(times <= 1 + self.killed[job_id] for job_id, times in self.starts.items())

    @invariant()
    def processes_are_bounded(self) -> None:
        """As many as intended stay, and no more than as many end."""
        assert len(self.load.staying) <= COUNT
        assert len(self.load.all) <= 2 * COUNT

    def teardown(self) -> None:
        """Let all come to its end: no job is lost, and the node has its workers."""
        self.pool.startService() if not self.pool.running else None
        for _ in range(20 + 10 * self.jobs):
            for worker in self.workers:
                for act in (worker.deliver, worker.start_job, worker.end_job) * worker.is_alive:
                    act()
            if self.queue and self.load.able:
                self._claim(3)
            self.clock.advance(LONGEST_PAUSE)
        self.no_job_is_started_twice()
        assert self.done == set(range(self.jobs))
        assert len(self.load.regular) == len(self.load.all) == COUNT
        assert sum(worker.is_alive for worker in self.workers) == COUNT


def test_a_limit_below_the_size_of_a_fresh_worker_is_named_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With what it has and what to give; workers may grow all the same."""
    monkeypatch.setattr("txqueue.node.workers.process.memory_of", lambda _: 200 * MIB)
    cluster = Cluster()
    with capturedLogs() as notes:
        cluster.begin()
        for worker in cluster.workers * 2:
            worker.deliver()
    [said] = [formatEvent(note) for note in notes]
    assert said == (
        "a fresh worker process has 200 MiB of memory, too much for --worker-memory 100:"
        " workers end at 220 MiB; give --worker-memory 440 or more"
    )
    assert [worker.limits.memory for worker in cluster.load.all] == [220] * COUNT


def test_a_worker_that_is_killed_while_starting_is_told_once() -> None:
    """By how its process ended, not by its connection."""
    cluster = Cluster()
    with capturedLogs() as notes:
        cluster.begin()
        cluster.workers[0].kill()
    [said] = [formatEvent(note) for note in notes]
    assert said.startswith("worker process 1 ended by a signal while starting, after ")


Cluster.TestCase.settings = settings(max_examples=60, stateful_step_count=60, deadline=None)
TestWorkersAtTheirLimits = Cluster.TestCase

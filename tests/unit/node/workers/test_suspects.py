"""Suspects run in processes of their own, which are started for them."""

from collections.abc import Sequence
from typing import Any, cast
from unittest.mock import Mock

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.task import Clock

from tests.unit.node.doubles import fake
from txqueue.model.assignment import Assignment, CancelledJob, JobKey, StartedJob
from txqueue.node.state.arrivals import Meters
from txqueue.node.workers.completions import Completions
from txqueue.node.workers.pool import LONGEST_PAUSE, WorkerPool
from txqueue.node.workers.process import WorkerProcess
from txqueue.node.workers.starter import WorkerVersions
from txqueue.node.workers.suspects import (
    KEEP,
    MOST_PROCESSES,
    SuspectProcesses,
    Suspects,
    blocking_report,
)
from txqueue.node.workers.workload import Workers
from txqueue.policy.placement.room import Load


class Process:
    """A worker process as its master sees it."""

    is_late = is_stuck = is_ending = False
    runs = None

    def __init__(self, key: int, *, is_apart: bool, is_ready: bool = True) -> None:
        self.key = key
        self.is_apart = is_apart
        self.is_ready = is_ready
        self.is_retired = False
        self.held: dict[int, int] = {}
        self.messages = 0
        self.suspects = {1}
        self.in_flight: set[int] = set()
        self.blocking: set[int] = set()
        self.blocker = 0
        self.outlived: list[int] = []
        self.pid = key
        self.ended: list[object] = []

    @property
    def weight(self) -> int:
        """The weight that it holds."""
        return sum(self.held.values())

    @property
    def load(self) -> Load:
        """How much it holds."""
        return Load(self.key, 10, self.weight)

    def perform(self, assignments: Sequence[Assignment]) -> None:
        """Hold them."""
        self.messages += 1
        self.held |= {assignment.number: assignment.jobs for assignment in assignments}

    def renew(self, until: float, incarnation: int) -> None:
        """It starts what it gets at once."""

    def retire(self) -> None:
        """End it."""
        self.is_ready, self.is_retired = False, True

    async def give_back(self) -> None:
        """It has started all."""

    def cancel(self, job: CancelledJob) -> None:
        """Note whose run it is to end."""
        self.ended.append(job.job_id)

    def kill_blameless(self) -> None:
        """Note it."""
        self.ended.append("killed")


class Database:
    """Notes starts, at once unless the test has it wait."""

    def __init__(self) -> None:
        self.started_jobs: list[StartedJob] = []
        self.answer: Deferred[None] = succeed(None)

    async def jobs_of(self, incarnation: int, assignments: Sequence[int]) -> list[JobKey]:
        """Each assignment has two jobs."""
        return [JobKey(each, 10 * each + number) for each in assignments for number in (1, 2)]

    async def started(self, incarnation: int, jobs: Sequence[StartedJob]) -> None:
        """Note the starts."""
        await self.answer
        self.started_jobs += jobs


class Bench:
    """A node with one worker, which starts processes when the test says so."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.reports = Mock(Completions)
        self.suspects = Suspects(self.clock)
        self.workers = Workers(
            self.clock, count=1, capacity=10, reports=self.reports, suspects=self.suspects
        )
        self.worker = self.add(is_apart=False)
        self.asked = 0
        self.database = Database()
        self.service = SuspectProcesses(
            self.clock, fake(self.database), self.suspects, self.workers, fake(self)
        )
        self.service.startService()

    def start_apart(self) -> None:
        """Note that one is to start."""
        self.asked += 1

    def add(self, *, is_apart: bool) -> Process:
        """A process has become ready."""
        process = Process(len(self.workers.all) + 1, is_apart=is_apart)
        self.workers.add(cast("WorkerProcess", process))
        self.workers.on_ready(cast("WorkerProcess", process))
        return process

    def start(self) -> Process:
        """A process that was asked for becomes ready."""
        process = self.add(is_apart=True)
        self.suspects.on_start()
        return process

    def end(self, process: Process, assignment: int) -> None:
        """The jobs of an assignment end."""
        del process.held[assignment]
        self.workers.on_report(cast("WorkerProcess", process))

    def hand(self, *numbers: int, is_alone: bool = True) -> None:
        """Hand assignments to the workers, suspects or others."""
        self.workers.perform(Assignment(1, each, 0, 1, 1, "", is_alone) for each in numbers)


@pytest.fixture
def bench() -> Bench:
    """A node with one worker."""
    return Bench()


def test_jobs_that_are_handed_out_together_travel_together(bench: Bench) -> None:
    """Each worker gets its share at once, as much as the others."""
    other = bench.add(is_apart=False)
    bench.hand(*range(6), is_alone=False)
    assert [len(worker.held) for worker in (bench.worker, other)] == [3, 3]
    assert [worker.messages for worker in (bench.worker, other)] == [1, 1]


def test_only_what_no_worker_can_start_asks_how_fast_they_are(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that waits anyway goes to the one with most room in advance; else weights suffice."""
    quick, asked = bench.add(is_apart=False), []

    def load(worker: Process) -> Load:
        asked.append(worker.key)
        return Load(worker.key, 10, worker.weight, 1000.0 if worker is quick else 0.0)

    monkeypatch.setattr(Process, "load", property(load))
    bench.hand(*range(20), is_alone=False)
    assert (asked, bench.worker.weight, quick.weight) == ([], 10, 10)
    bench.hand(20, 21, is_alone=False)
    assert (bench.worker.weight, quick.weight) == (10, 12)


def test_a_suspect_keeps_no_other_job_waiting(bench: Bench) -> None:
    """It waits for a process of its own while the only worker gets other jobs, and so do they."""
    bench.hand(1)
    assert (bench.asked, bench.worker.held, bench.workers.assignments) == (1, {}, [1])
    bench.hand(2, is_alone=False)
    process = bench.start()
    bench.hand(3, is_alone=False)
    assert (process.held, bench.worker.held) == ({1: 1}, {2: 1, 3: 1})
    assert bench.workers.holdings == {1: 1, 2: 1, 3: 1}
    assert bench.workers.load == 0.2
    assert [load.key for load in bench.workers.loads] == [bench.worker.key]


def test_a_running_suspect_keeps_no_other_waiting(bench: Bench) -> None:
    """Each assignment of them has a process, up to a limit; others stay in the queue."""
    for number in range(MOST_PROCESSES):
        assert bench.workers.takes_suspects
        bench.hand(number)
    assert not bench.workers.takes_suspects
    assert bench.asked == MOST_PROCESSES
    started = [bench.start() for _ in range(MOST_PROCESSES)]
    assert [list(process.held) for process in started] == [[each] for each in range(MOST_PROCESSES)]
    assert not bench.workers.takes_suspects
    bench.end(started[2], 2)
    assert bench.workers.takes_suspects
    bench.hand(8)
    assert started[2].held == {8: 1}
    assert bench.asked == MOST_PROCESSES


def test_more_suspects_than_processes_wait(bench: Bench) -> None:
    """A message may name some that no claim has asked for; they run one after the other."""
    bench.hand(*range(MOST_PROCESSES + 1))
    first, *_ = [bench.start() for _ in range(MOST_PROCESSES)]
    assert bench.asked == MOST_PROCESSES
    bench.end(first, 0)
    assert first.held == {MOST_PROCESSES: 1}


def test_an_idle_process_ends(bench: Bench) -> None:
    """After a while in which no suspect has come; the next one gets a new process."""
    bench.hand(1)
    process = bench.start()
    bench.clock.pump([1] * int(2 * KEEP))
    bench.end(process, 1)
    bench.clock.advance(KEEP - 1)
    bench.hand(2)
    bench.clock.advance(KEEP)
    bench.end(process, 2)
    bench.clock.advance(KEEP - 1)
    assert not process.is_retired
    bench.clock.advance(1)
    assert process.is_retired
    bench.hand(3)
    assert bench.asked == 2
    assert not bench.worker.is_retired


def test_a_process_that_cannot_start_a_suspect_is_passed_over(bench: Bench) -> None:
    """Threads of a suspect that timed out fill it, say: another process starts."""
    bench.hand(1)
    process = bench.start()
    process.is_stuck = True
    bench.end(process, 1)
    bench.hand(2)
    assert (bench.asked, process.held) == (2, {})
    bench.worker.is_late = True
    assert bench.workers.able == []
    assert bench.workers.regular == [cast("WorkerProcess", bench.worker)]


def test_a_suspect_that_ends_its_process(bench: Bench) -> None:
    """It is blamed; the only worker's jobs are not touched."""
    bench.hand(2, is_alone=False)
    bench.hand(1)
    process = bench.start()
    bench.workers.on_lost(cast("WorkerProcess", process), is_blamed=True)
    bench.workers.remove(cast("WorkerProcess", process))
    assert bench.reports.give_back.call_args_list[0].args == (1,)
    assert bench.reports.give_back.call_args_list[0].kwargs == {"died": True, "ids": [1]}
    assert bench.worker.held == {2: 1}
    assert bench.workers.takes_suspects


def test_waiting_suspects_return_to_the_queue(bench: Bench) -> None:
    """When the node drains, or has lost its lease."""
    bench.hand(1, 2)
    bench.workers.give_back()
    assert [call.args for call in bench.reports.give_back.call_args_list] == [(1,), (2,)]
    assert bench.workers.assignments == []


def test_a_suspect_starts_once_its_start_is_noted(bench: Bench) -> None:
    """Or its death would count no more than that of a job that was only assigned to the node."""
    noting = bench.database.answer = Deferred()
    bench.hand(1)
    process = bench.start()
    assert (process.held, bench.workers.assignments, bench.asked) == ({}, [1], 1)
    noting.callback(None)
    assert process.held == {1: 1}
    assert [(job.key, job.seconds) for job in bench.database.started_jobs] == [
        ((1, 11), 0.0),
        ((1, 12), 0.0),
    ]


def test_a_suspect_returned_while_its_start_is_noted_does_not_start(bench: Bench) -> None:
    """The next one does."""
    noting = bench.database.answer = Deferred()
    bench.hand(1)
    process = bench.start()
    bench.workers.give_back()
    bench.hand(2)
    noting.callback(None)
    assert (process.held, bench.workers.assignments) == ({2: 1}, [2])


class NoStarter:
    """Starts no process: the system refuses it."""

    def __init__(self) -> None:
        self.tries = 0

    def prepare(self) -> Deferred[None]:
        """There is nothing to prepare."""
        return succeed(None)

    def start(self, *_: Any) -> Any:
        """Refuse it."""
        self.tries += 1
        raise BlockingIOError("no more processes")


def test_a_process_that_cannot_be_started(bench: Bench) -> None:
    """The suspect waits, and the start is tried again with growing pauses, as that of a worker."""
    starter = NoStarter()
    pool = WorkerPool(
        cast("Any", bench.clock),
        cast("Any", starter),
        bench.workers,
        settings={},
        listeners=[],
        meters=Meters(),
        versions=WorkerVersions([], []),
        suspects=bench.suspects,
    )
    bench.service._starter = pool
    pool.running = True
    bench.hand(1)
    for _ in range(60):
        bench.clock.advance(1)
    assert 60 / LONGEST_PAUSE < starter.tries < 15
    assert bench.workers.assignments == [1]
    bench.workers.give_back()
    tries = starter.tries
    bench.clock.pump([1] * 60)
    assert starter.tries == tries
    assert bench.suspects.starting == 0


def test_the_jobs_of_workers_that_do_not_answer(bench: Bench) -> None:
    """The one that blocks its worker is named where it is known, and innocent ones beside it."""
    assert blocking_report(bench.workers.all) == {
        "blocking": [],
        "maybe_blocking": [],
        "beside": {},
    }
    other = bench.add(is_apart=False)
    third = bench.add(is_apart=False)
    for process, blocking in ((bench.worker, {37}), (other, {5, 6}), (third, {8})):
        process.is_late, process.in_flight, process.blocking = True, {36, 37}, blocking
    bench.worker.blocker = 37
    assert blocking_report(bench.workers.all) == {
        "blocking": [37],
        "maybe_blocking": [5, 6, 8],
        "beside": {36: 37},
    }


def test_all_jobs_beside_one_that_blocks_their_worker_are_named(bench: Bench) -> None:
    """So that a job that waits for one of them is not said to run after its end."""
    bench.worker.is_late, bench.worker.blocker, bench.worker.blocking = True, 1, {1}
    bench.worker.in_flight = set(range(1, 101))
    assert blocking_report(bench.workers.all)["beside"] == dict.fromkeys(range(2, 101), 1)


def test_the_jobs_that_keep_all_processes_for_suspects(bench: Bench) -> None:
    """Those that block them, or whose threads fill them; no job while one process answers."""
    processes = [bench.add(is_apart=True) for _ in range(MOST_PROCESSES)]
    for number, process in enumerate(processes, start=1):
        assert bench.workers.suspects_behind == []
        process.held, process.is_late, process.blocking = {number: 1}, True, {number}
    assert bench.workers.suspects_behind == [1, 2, 3, 4]
    processes[0].is_late, processes[0].is_stuck, processes[0].blocking = False, True, set()
    processes[0].outlived = [9]
    assert bench.workers.suspects_behind == [2, 3, 4, 9]
    processes[0].is_stuck = False
    assert bench.workers.suspects_behind == []


@pytest.mark.parametrize("is_restart", [True, False])
@pytest.mark.parametrize(
    ("job_id", "blocking", "end"), [(5, {5}, "killed"), (5, {5, 6}, "killed"), (6, {5}, 6)]
)
def test_a_worker_is_killed_only_for_a_job_that_may_block_it(
    bench: Bench, job_id: int, blocking: set[int], end: object, *, is_restart: bool
) -> None:
    """An operator ends the run of one beside that once the worker answers."""
    bench.hand(1, is_alone=False)
    process = bench.worker
    process.is_late, process.in_flight, process.blocking = True, {5, 6}, blocking
    bench.workers.cancel(CancelledJob(1, job_id, "ann", is_restart))
    assert process.ended == [end]

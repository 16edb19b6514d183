"""A performer on a harness of its own: its clock, its chunks, what it reported."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from attrs import astuple, define
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from txqueue import Retry, RunningJob, WorkItem
from txqueue.model.assignment import FIELDS, AssignedJob, Assignment, SettledJob, StartedJob
from txqueue.model.run_log import RunTally
from txqueue.policy.endings.reports import RESULT_LIMIT
from txqueue.store.driver.connection_pool import ConnectionPool
from txqueue.store.node.outcomes import outcomes_text
from txqueue.system.inflight import InFlight
from txqueue.worker.handlers.job_transaction import StepStore
from txqueue.worker.handlers.running_job import HeldAssignment, OpenTransaction
from txqueue.worker.handlers.threads import HandlerThreads
from txqueue.worker.running.performer import Performer

INCARNATION, LANE = 1, 3


def entry(job_id: int, work_type: str, *, weight: int = 1, number: int = 0) -> AssignedJob:
    """A job as it stands in a chunk."""
    return AssignedJob(job_id, work_type, 1, weight, {"number": number})


@define
class Handled(WorkItem):
    """Performed by whatever handler the test gives."""

    work_type = "performing.handled"

    @staticmethod
    def entry(
        job_id: int, *, weight: int = 1, attempt: int = 1, terms: object = None
    ) -> AssignedJob:
        """One of these as it stands in a chunk."""
        return AssignedJob(job_id, Handled.work_type, attempt, weight, {}, terms)


def _nobody(job: RunningJob) -> Any:
    raise AssertionError(f"job {job.id} opened a transaction")


class Thread:
    """Stands for the threads: runs a function when the test says so."""

    def __init__(self) -> None:
        self.functions: list[Callable[[], None]] = []

    def callInThreadWithCallback(
        self, told: Callable[[bool, object], None], function: Callable[..., Any], *values: Any
    ) -> None:
        """Keep it, as `ThreadPool` queues it."""

        def run() -> None:
            try:
                result = function(*values)
            except Exception as error:
                told(False, Failure(error))
            else:
                told(True, result)

        self.functions.append(run)

    def end(self) -> None:
        """Run the oldest function, which ends its thread."""
        self.functions.pop(0)()


class Harness:
    """A performer and everything around it.

    Args:
        capacity: Weight that may run at a time.
        opener: Opens a job's own transaction.
        longest_result: The longest result, in bytes of JSON text.
        most: How many threads there are.
    """

    def __init__(
        self,
        capacity: int = 100,
        opener: OpenTransaction = _nobody,
        *,
        longest_result: int = RESULT_LIMIT,
        most: int = 1,
    ) -> None:
        self.clock = Clock()
        vars(self.clock)["callFromThread"] = lambda function, *values: function(*values)
        self.thread = Thread()
        # No sockets: no handler of these tests has need of them.
        reactor = cast("Any", self.clock)
        threads = HandlerThreads(reactor, cast("Any", self.thread), most)
        self.in_flight = InFlight(capacity)
        self.performer = Performer(
            reactor,
            threads,
            capacity,
            self,
            opener,
            steps=StepStore(reactor, _no_connections, "txqueue", longest_result),
            in_flight=self.in_flight,
            longest_result=longest_result,
        )
        self.finished: list[tuple[int, int, list[int], int, int]] = []
        self.reports = 0
        self.results: dict[str, Any] = {}
        self.committed: list[int] = []
        self.settled: list[dict[str, Any]] = []
        self.settled_weight = 0
        self.refused: list[tuple[int, str]] = []
        self.logged: list[tuple[bool, str]] = []
        self.late_errors: list[tuple[int, str]] = []
        self.late_results: list[tuple[int, str]] = []
        self.logged_runs: list[Mapping[str, Any] | None] = []
        self.counts: Counter[int] = Counter()
        self.started: list[StartedJob] = []
        self.tally = RunTally()
        self.running: dict[int, Deferred[Any]] = {}
        self.is_sent = True
        self.occupied: tuple[int, list[int], bool] = (0, [], False)

    def complete(self, assignments: Iterable[HeldAssignment]) -> None:
        """Note jobs that are done."""
        self.reports += 1
        for held in assignments:
            self.results |= json.loads(held.results_text or "{}")
            self.committed += sorted(held.committed)
            number = held.token.assignment
            self.finished.append((number, held.lane, held.done, held.jobs, held.weight))

    def log_text(self, is_grave: bool, text: str, run: Mapping[str, Any] | None) -> None:
        """Note what is to stand in the log."""
        self.logged.append((is_grave, text))
        self.logged_runs.append(run)

    def late(self, job: RunningJob, what: str, text: str) -> None:
        """Note what is to stand with a done job."""
        (self.late_errors if what == "error" else self.late_results).append((job.id, text))

    def count(self, tally: str) -> None:
        """Add up what jobs did."""
        self.tally.add(tally)

    def settle(self, weight: int, counts: Mapping[int, int], jobs: Sequence[SettledJob]) -> None:
        """Note jobs that ended otherwise, as they would go over the wire."""
        self.settled_weight += weight
        self.counts.update(counts)
        self.settled += json.loads(outcomes_text(jobs))

    def refuse(self, assignment: Assignment, reason: str) -> None:
        """Note an assignment whose chunk does not have its jobs."""
        self.refused.append((assignment.number, reason))

    def occupy(self, weight: int, jobs: Iterable[int], *, is_stuck: bool) -> None:
        """Note which threads outlive their jobs."""
        self.occupied = (weight, sorted(jobs), is_stuck)

    def start(self, jobs: list[StartedJob]) -> None:
        """Note jobs that run long."""
        self.started += jobs

    @contextmanager
    def handler(
        self,
        perform: Callable[[Any, RunningJob], Any],
        assignment: int = 0,
        *jobs: AssignedJob,
        retry: Retry | None = None,
        timeout: float | None = None,
    ) -> Iterator[None]:
        """Have `Handled` performed by this function, under this policy; hand over jobs, if any."""
        kept = {name: Handled.__dict__.get(name) for name in ("perform", "retry", "timeout")}
        given = {"perform": perform, "retry": retry or Retry(), "timeout": timeout}
        try:
            for name, value in given.items():
                setattr(Handled, name, value)
            if jobs:
                self.hand(assignment, *jobs)
                self.turn()
            yield
        finally:
            for name, value in kept.items():
                if value is None:
                    delattr(Handled, name)
                else:
                    setattr(Handled, name, value)

    def hand(self, assignment: int, *jobs: AssignedJob) -> None:
        """Hand the performer a chunk."""
        chunk = json.dumps({"fields": FIELDS, "jobs": [astuple(job) for job in jobs]})
        weight = sum(job.weight for job in jobs)
        self.performer.perform(Assignment(INCARNATION, assignment, LANE, len(jobs), weight, chunk))

    def perform(
        self,
        perform: Callable[[Any, RunningJob], Any],
        assignment: int,
        *jobs: AssignedJob,
        **policy: Any,
    ) -> None:
        """Have a chunk performed by this function, under this policy."""
        with self.handler(perform, assignment, *jobs, **policy):
            pass

    def turn(self) -> None:
        """Let the reactor turn until nothing is due now."""
        for _ in range(20):
            self.clock.advance(0)

    def wait(self, job: RunningJob) -> Deferred[Any]:
        """What a handler waits for until the test ends the job."""
        self.running[job.id] = Deferred()
        return self.running[job.id]

    def end(self, job_id: int, value: object = None) -> None:
        """Let a job continue."""
        self.running.pop(job_id).callback(value)
        self.turn()

    def end_all(self) -> None:
        """Let all waiting jobs continue."""
        for job_id in list(self.running):
            self.end(job_id)


def _no_connections() -> ConnectionPool:
    raise AssertionError("a test without a database writes or reads a step")

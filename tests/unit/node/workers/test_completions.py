"""What the ledger writes: much at once, and nothing twice."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import cast

import psycopg2
import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock, deferLater

from tests.unit.node.doubles import fake, lease_of
from txqueue.errors import DatabaseUnavailable, NotPermitted, Refused
from txqueue.model.assignment import (
    CompletedJobs,
    ReturnedJobs,
    SettledJob,
    SettledJobs,
    StartedJob,
)
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.periodic import LAST_STEP, Wakeups
from txqueue.node.workers import completions
from txqueue.node.workers.completions import LAST_TIME, Completions
from txqueue.policy.endings.reports import GATHERING, LONG
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.outcomes import as_settled_jobs, joined_outcomes, settled_jobs_in
from txqueue.store.node.run_functions import WrittenEnds


class Book:
    """The stored functions that a ledger calls, as far as these tests need them."""

    def __init__(self) -> None:
        self.released: list[tuple[list[int], bool, list[int] | None]] = []
        self.completed: list[list[int]] = []
        self.settled: list[SettledJob] = []
        self.running: list[list[tuple[int, str | None]]] = []
        self.is_away = False
        # How many of the next statements are refused.
        self.refusals = 0
        self.foreign = 0
        self.frees = False
        self.most = 1_000_000
        self.refused = self.slow = "what is not there"
        self.tried: list[int] = []
        self.pause: Callable[[], None] = lambda: None
        self.told: list[str] = []
        self.is_awaited = False
        self.locked: set[int] = set()

    def on_ends(self, numbers: str) -> None:
        """Note the ends of which waiting clients would be notified."""
        self.told.append(numbers)

    async def complete(self, incarnation: int, finished: Sequence[CompletedJobs]) -> WrittenEnds:
        """Complete, unless that are too many."""
        if len(finished) > self.most:
            raise DatabaseUnavailable("out of shared memory", "write less")
        self._check_locks(int(number) for each in finished for number in each.ids.split(","))
        self._check_right()
        self._check_time("".join(each.results or "" for each in finished))
        if any(self.refused in (each.results or each.ids) for each in finished):
            raise Refused("it cannot be stored")
        self.pause()
        self.completed.append([each.assignment for each in finished])
        jobs = sum(len(each.ids.split(",")) for each in finished)
        return WrittenEnds(jobs - self.foreign, self.frees)

    async def settle(self, incarnation: int, settled: Sequence[SettledJobs]) -> WrittenEnds:
        """Settle, unless one cannot be stored."""
        self.tried.append(len(settled))
        self._check_locks(job.job_id for job in settled_jobs_in(settled))
        self._check_right()
        self._check_time(joined_outcomes(settled))
        if self.refused in joined_outcomes(settled) and '"failed"' not in settled[0].outcomes:
            raise Refused("it cannot be stored")
        jobs = settled_jobs_in(settled)
        self.settled += jobs
        numbers = ",".join(str(job.job_id) for job in jobs)
        return WrittenEnds(len(jobs) - self.foreign, self.frees, settled=numbers)

    def _check_locks(self, numbers: Iterable[int]) -> None:
        if not self.locked.isdisjoint(numbers):
            raise psycopg2.errors.LockNotAvailable

    def _check_right(self) -> None:
        if self.refusals:
            self.refusals -= 1
            raise NotPermitted("permission denied for function settle")

    def _check_time(self, text: str) -> None:
        if self.is_away or self.slow in text:
            raise DatabaseUnavailable("no answer in time", "wait")

    async def started(self, incarnation: int, jobs: Sequence[StartedJob]) -> None:
        """Note what runs."""
        if self.is_away:
            raise DatabaseUnavailable("away", "wait")
        self._check_locks(job.job_id for job in jobs)
        if jobs:
            self.running.append([(job.job_id, job.progress) for job in jobs])

    async def held_jobs(self, incarnation: int, ids: Sequence[int]) -> list[int]:
        """Return the jobs that are locked."""
        return [number for number in ids if number in self.locked]

    async def release(self, incarnation: int, returned: Sequence[ReturnedJobs]) -> int:
        """Give back."""
        assert incarnation == 1
        (died,) = {each.died for each in returned}
        (is_whole,) = {each.ids is None for each in returned}
        ids = None if is_whole else [number for each in returned for number in each.ids or ()]
        self.released.append(([each.assignment for each in returned], died, ids))
        return 1


def made(book: Book, clock: Clock, meters: Meters | None = None) -> Completions:
    """Make what is tested."""
    return Completions(
        clock,
        cast("StoredFunctions", book),
        lease=lease_of(1),
        ends=fake(book),
        wakeups=Wakeups(clock),
        meters=meters or Meters(),
    )


@pytest.fixture
def book() -> Book:
    """A database in which nothing takes time."""
    return Book()


@pytest.fixture
def clock() -> Clock:
    """A clock."""
    clock = Clock()
    clock.advance(100)
    return clock


@pytest.fixture
def ledger(book: Book, clock: Clock) -> Iterator[Completions]:
    """A ledger that runs."""
    ledger = made(book, clock)
    ledger.startService()
    yield ledger
    ledger.stopService()


def written(*entries: tuple[int, bool, list[int] | None]) -> Book:
    """Note what is to be given back, and have it written."""
    book = Book()
    ledger = made(book, Clock())
    for assignment, died, ids in entries:
        ledger.give_back(assignment, died=died, ids=ids)
    ended: list[object] = []
    Deferred.fromCoroutine(ledger.step()).addBoth(ended.append)
    assert ended == [None]
    assert ledger.is_clean
    return book


def test_what_is_given_back_alike_is_one_statement() -> None:
    """Whole assignments, jobs of several, and what a dead process held, which is the first: the
    rest of an assignment is all that is left, and nothing would be blamed any more.
    """
    book = written((5, False, [1, 2]), (6, False, None), (7, False, [3]), (6, True, [8]))
    assert book.released == [
        ([6], True, [8]),
        ([5, 7], False, [1, 2, 3]),
        ([6], False, None),
    ]


def test_a_statement_gives_back_only_so_much() -> None:
    """The rest follows."""
    many = [(number, False, [number]) for number in range(completions.MOST_GIVEN_BACK + 1)]
    assert [len(numbers) for numbers, _, _ in written(*many).released] == [500, 1]


def test_written_ends_are_told(book: Book, clock: Clock, ledger: Completions) -> None:
    """After the statement, of all ways in which jobs end; own transactions have none here."""
    book.is_away = True
    ledger.complete(CompletedJobs(0, 1, "1,2"))
    ledger.settle(as_settled_jobs([SettledJob(3, 1, "failed", error="x")]))
    ledger.on_commit("4,5")
    assert book.told == ["4,5"]
    book.is_away = False
    clock.pump([1.0] * 10)
    assert book.told == ["4,5", "1,2", "3"]
    assert ledger.is_clean


def test_completions_that_follow_closely_are_one_statement(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """The first is written at once, those of the next few milliseconds together."""
    for assignment in (1, 2, 3):
        ledger.complete(CompletedJobs(0, assignment, "1"))
    assert book.completed == [[1]]
    clock.advance(GATHERING)
    assert book.completed == [[1], [2, 3]]
    clock.advance(1)
    ledger.complete(CompletedJobs(0, 4, "1"))
    assert book.completed[2:] == [[4]]


@pytest.mark.parametrize(("commit", "gathering"), [(0.0, 0.01), (0.002, 0.016), (0.009, 0.02)])
def test_where_commits_are_slow_more_completions_are_one_statement(
    book: Book, clock: Clock, ledger: Completions, commit: float, gathering: float
) -> None:
    """Clients' commits wait while the disk writes this one; within bounds."""
    book.pause = lambda: clock.advance(commit)
    ledger.complete(CompletedJobs(0, 1, "1"))
    ledger.complete(CompletedJobs(0, 2, "1"))
    clock.advance(gathering - 0.001)
    assert book.completed == [[1]]
    clock.advance(0.001)
    assert book.completed == [[1], [2]]


def test_completions_that_come_seldom_are_written_at_once(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """Otherwise the disk would write one at any moment, also as the next job's client commits."""
    book.pause = lambda: clock.advance(0.1)
    for number in range(1, 4):
        ledger.complete(CompletedJobs(0, number, "1"))
        assert book.completed[-1] == [number]
        clock.advance(GATHERING)


def test_while_clients_wait_completions_are_written_at_once(
    book: Book, ledger: Completions
) -> None:
    """Each may be the one for which a client waits, also without a result."""
    book.is_awaited = True
    ledger.complete(CompletedJobs(0, 1, "1"))
    ledger.complete(CompletedJobs(0, 2, "1"))
    assert book.completed == [[1], [2]]


def test_a_completion_that_lets_others_run_is_followed_at_once(
    book: Book, ledger: Completions
) -> None:
    """The next of a group must not wait."""
    book.frees = True
    ledger.complete(CompletedJobs(0, 1, "1"))
    ledger.complete(CompletedJobs(0, 2, "1"))
    assert book.completed == [[1], [2]]


def test_a_result_is_written_at_once(book: Book, ledger: Completions) -> None:
    """A caller may wait for it."""
    ledger.complete(CompletedJobs(0, 1, "1"))
    ledger.settle(as_settled_jobs([(outcome := SettledJob(2, 1, "failed", error="x"))]))
    assert (book.completed, book.settled) == ([[1]], [outcome])


def test_results_are_written_at_once_with_their_jobs(book: Book, ledger: Completions) -> None:
    """A client may wait for one; jobs that returned nothing can wait a moment."""
    ledger.complete(CompletedJobs(0, 1, "1"))
    ledger.complete(CompletedJobs(0, 2, "2", '{"2":[1]}'))
    assert book.completed == [[1], [2]]


def test_results_of_many_jobs_are_collected(book: Book, clock: Clock, ledger: Completions) -> None:
    """A caller that waits for one of so many waits hardly longer, and a statement is not small."""
    ledger.complete(CompletedJobs(0, 2, ",".join(map(str, range(completions.MANY)))))
    written_before = list(book.completed)
    ledger.complete(CompletedJobs(0, 3, "1,2", '{"1":1}'))
    ledger.complete(CompletedJobs(0, 4, "3", '{"3":1}'))
    assert book.completed == written_before
    clock.advance(GATHERING)
    assert book.completed[-1] == [3, 4]
    ledger.complete(CompletedJobs(0, 5, "5", '{"5":1}'))
    assert book.completed[-1] == [5]


def test_a_result_that_cannot_be_stored_fails_its_job_alone(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """The jobs beside it are done, with what they returned."""
    book.refused = "bad"
    ledger.complete(CompletedJobs(0, 5, "1,2,3", '{"1":"bad","2":"good"}'))
    ledger.complete(CompletedJobs(0, 6, "4"))
    clock.pump([1.0] * 10)
    ends = book.settled
    assert [(each.job_id, each.outcome) for each in ends] == [
        (1, "failed"),
        (2, "done"),
        (3, "done"),
    ]
    assert (ends[1].result, book.completed) == ("good", [[6]])
    assert ledger.is_clean


def test_a_job_that_cannot_be_completed_fails_alone(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """Whatever the reason: those beside it, in other assignments and in its own, are done."""
    book.refused = "777"
    ledger.complete(CompletedJobs(0, 1, "1"))
    for assignment in range(2, 20):
        ledger.complete(CompletedJobs(0, assignment, str(assignment)))
    ledger.complete(CompletedJobs(0, 20, "20,777,21"))
    clock.pump([1.0] * 10)
    assert sorted(number for some in book.completed for number in some) == list(range(1, 20))
    ends = {each.job_id: each.outcome for each in book.settled}
    assert ends == {20: "done", 777: "failed", 21: "done"}


def test_a_missing_right_fails_no_job(book: Book, clock: Clock, ledger: Completions) -> None:
    """However soon it is granted again, each outcome is written as it is."""
    for refusals in (1, 2, 3):
        book.refusals = refusals
        ledger.settle(as_settled_jobs([SettledJob(refusals, 1, "discarded")]))
        clock.pump([1.0] * 10)
        book.refusals = refusals
        ledger.complete(CompletedJobs(0, 2, str(10 + refusals), f'{{"{10 + refusals}": 1}}'))
        clock.pump([1.0] * 10)
    ends = {each.job_id: each.outcome for each in book.settled}
    assert ends == {**dict.fromkeys((1, 2, 3), "discarded"), **dict.fromkeys((11, 12, 13), "done")}


def test_of_what_runs_only_the_last_word_is_kept(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """However long the database is away: progress comes in once a second and job."""
    book.is_away = True
    ledger.start([StartedJob(1, 7, 1.0, None)])
    for done in range(100):
        ledger.start([StartedJob(1, 7, 1.0 + done, f"[{done}]"), StartedJob(1, 8, 1.0, None)])
    book.is_away = False
    clock.pump([1.0] * 10)
    assert book.running == [[(7, "[99]"), (8, None)]]


def test_completions_that_are_too_many_for_a_statement_are_halved(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """No completion is stuck because of its size."""
    book.most = 3
    for assignment in range(20):
        ledger.complete(CompletedJobs(0, assignment, "1"))
    clock.pump([1.0] * 60)
    assert sorted(number for some in book.completed for number in some) == list(range(20))
    assert max(map(len, book.completed)) <= 3
    assert ledger.is_clean


def test_outcomes_that_change_nothing_are_counted() -> None:
    """Their jobs were assigned anew by then."""
    book, meters, clock = Book(), Meters(), Clock()
    ledger = made(book, clock, meters)
    book.foreign = 1
    ledger.complete(CompletedJobs(0, 1, "1,2,3"))
    ledger.settle(as_settled_jobs([SettledJob(4, 1, "failed", error='said "job_id": 5')]))
    ended: list[object] = []
    Deferred.fromCoroutine(ledger.step()).addBoth(ended.append)
    assert ended == [None]
    assert meters.tokens_lost == 2


LONG_RESULT = "slow" + "x" * LONG


def test_a_long_outcome_that_takes_too_long_delays_no_other(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """The others are written before each try; after a few tries its job fails, with the reason."""
    book.slow = "slow"
    ledger.settle(as_settled_jobs([SettledJob(1, 1, "done", result=LONG_RESULT)]))
    for number in range(2, 30):
        ledger.complete(CompletedJobs(0, number, str(number)))
        ledger.settle(as_settled_jobs([SettledJob(number, 1, "failed", error="x")]))
        clock.advance(GATHERING)
    assert sum(map(len, book.completed)) == len(book.settled) == 28
    clock.pump([1.0] * 20)
    last = book.settled[-1]
    assert (last.job_id, last.outcome) == (1, "failed")
    assert "the database does not take it in time" in (last.error or "")
    assert ledger.is_clean


def test_a_long_outcome_waits_while_the_database_is_away(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """However long: the outage is not the fault of its length."""
    book.is_away = True
    ledger.settle(as_settled_jobs([SettledJob(1, 1, "done", result=LONG_RESULT)]))
    clock.pump([1.0] * 100)
    book.is_away = False
    clock.pump([1.0] * 10)
    assert [(each.job_id, each.outcome) for each in book.settled] == [(1, "done")]


def test_results_that_take_too_long_together_are_written_one_by_one(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """Those of one assignment; only the one that takes too long even alone fails its job."""
    book.slow = "slow"
    results = f'{{"1":"good","2":"{LONG_RESULT}","3":"fine"}}'
    ledger.complete(CompletedJobs(0, 5, "1,2,3", results))
    clock.pump([1.0] * 20)
    ends = {each.job_id: each.outcome for each in book.settled}
    assert ends == {1: "done", 2: "failed", 3: "done"}


def test_long_outcomes_are_written_one_at_a_time(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """Also those of one report; and what is given back of their assignments comes after them."""
    book.is_away = True
    long = [SettledJob(number, 1, "done", result="x" * LONG) for number in (1, 2)]
    ledger.settle(as_settled_jobs(long))
    ledger.give_back(1, died=False)
    clock.advance(0.5)
    assert not book.released
    book.is_away = False
    clock.pump([1.0] * 10)
    assert [each.job_id for each in book.settled] == [1, 2]
    assert book.released == [([1], False, None)]
    assert set(book.tried) == {1}


class Silent(Book):
    """A database that never answers the first outcome, and takes the same one later."""

    async def settle(self, incarnation: int, settled: Sequence[SettledJobs]) -> WrittenEnds:
        """Settle, but not at once."""
        if not self.tried:
            self.tried.append(0)
            await Deferred[None]()
        return await super().settle(incarnation, settled)


def test_an_outcome_without_an_answer_is_written_as_it_is_at_the_end() -> None:
    """The end of the node cancels the statement, and this is no reason to let the job fail."""
    book, clock = Silent(), Clock()
    ledger = made(book, clock)
    job = SettledJob(7, 3, "dead", error="it was so")
    ledger.startService()
    ledger.settle(as_settled_jobs([job]))
    clock.pump([0.1] * 5)
    closing = Deferred.fromCoroutine(ledger.close())
    clock.advance(LAST_STEP)
    clock.pump([0.1] * 5)
    assert closing.called
    assert book.settled == [job]


class Stuck(Book):
    """A database that never takes a long outcome."""

    async def settle(self, incarnation: int, settled: Sequence[SettledJobs]) -> WrittenEnds:
        """Settle, but for long outcomes."""
        if len(joined_outcomes(settled)) > LONG:
            await Deferred[None]()
        return await super().settle(incarnation, settled)


def test_other_outcomes_are_written_while_a_long_one_is() -> None:
    """Even if that never ends; the end of the node waits for it only for a while."""
    book, clock = Stuck(), Clock()
    ledger = made(book, clock)
    ledger.startService()
    ledger.settle(as_settled_jobs([SettledJob(1, 1, "done", result=LONG_RESULT)]))
    ledger.complete(CompletedJobs(0, 2, "2"))
    ledger.settle(as_settled_jobs([SettledJob(3, 3, "failed", error="x")]))
    ledger.give_back(4, died=False)
    assert (book.completed, [job.job_id for job in book.settled]) == ([[2]], [3])
    assert book.released == [([4], False, None)]
    assert (ledger.unwritten, ledger.is_clean) == (1, False)
    closing = Deferred.fromCoroutine(ledger.close())
    clock.advance(LAST_TIME)
    assert closing.called


def test_after_a_lock_statements_are_as_large_as_before(
    book: Book, clock: Clock, ledger: Completions
) -> None:
    """The lock was not due to their size."""
    book.locked = {1}
    ledger.complete(CompletedJobs(0, 1, "1"))
    for number in range(2, 6):
        ledger.complete(CompletedJobs(0, number, str(number)))
    clock.pump([GATHERING] * 3)
    assert book.completed == [[2, 3, 4, 5]]


class Troubled(Book):
    """A database in which jobs are locked and outcomes take long, and that notes each end."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: Counter[int] = Counter()
        self.given_back: list[int] = []
        self.stuck: set[int] = set()

    async def complete(self, incarnation: int, finished: Sequence[CompletedJobs]) -> WrittenEnds:
        """Complete all, or none."""
        answer = await super().complete(incarnation, finished)
        self.ends.update(int(number) for each in finished for number in each.ids.split(","))
        return answer

    async def settle(self, incarnation: int, settled: Sequence[SettledJobs]) -> WrittenEnds:
        """Settle all, or none; some never get an answer, until all do."""
        numbers = [job.job_id for job in settled_jobs_in(settled)]
        while not self.stuck.isdisjoint(numbers):
            await self.pausing()
        answer = await super().settle(incarnation, settled)
        self.ends.update(numbers)
        return answer

    pausing: Callable[[], Deferred[None]]

    async def release(self, incarnation: int, returned: Sequence[ReturnedJobs]) -> int:
        """Note which assignments have returned."""
        self.given_back += [each.assignment for each in returned]
        return await super().release(incarnation, returned)


@pytest.mark.parametrize("seed", range(40))
def test_no_job_delays_the_ends_of_others(seed: int) -> None:
    """Whatever is locked, long, or both: all else is written at once, each once, and so is this."""
    random, book, clock = Random(seed), Troubled(), Clock()
    ledger = made(book, clock)
    ledger.startService()
    book.pausing = lambda: deferLater(clock, 1.0)
    number = 0
    expected: dict[int, set[int]] = {}
    for assignment in range(1, random.randint(4, 20)):
        jobs = list(range(number + 1, number + 1 + random.randint(1, 4)))
        number = jobs[-1]
        expected[assignment] = set(jobs)
        book.locked |= {job for job in jobs if random.random() < 0.2}
        if random.random() < 0.5:
            results = random.choice([None, json.dumps({str(job): job for job in jobs})])
            ledger.complete(CompletedJobs(0, assignment, ",".join(map(str, jobs)), results))
        else:
            long = {job for job in jobs if random.random() < 0.3}
            book.stuck |= long
            ledger.settle(
                as_settled_jobs(
                    SettledJob(job, assignment, "done", result="x" * LONG * (job in long))
                    for job in jobs
                )
            )
        ledger.start(StartedJob(assignment, job, 1.0, None) for job in jobs)
        if random.random() < 0.5:
            ledger.give_back(assignment, died=False)
            expected[-assignment] = set()
        clock.advance(random.choice([0.0, GATHERING, 1.0]))
    clock.pump([GATHERING] * 5)
    held = book.locked | book.stuck
    every = {job for jobs in expected.values() for job in jobs}
    assert book.ends.keys() == every - held
    assert {job for some in book.running for job, _ in some} == every - book.locked
    mark = ledger.mark
    assert ledger.has_written(mark) is not bool(held)
    returned = {-each for each in expected if each < 0}
    assert set(book.given_back) == {each for each in returned if expected[each].isdisjoint(held)}
    book.locked, book.stuck = set(), set()
    clock.pump([1.0] * 20)
    assert book.ends == dict.fromkeys(every, 1)
    assert sorted(book.given_back) == sorted(returned)
    assert ledger.is_clean
    assert ledger.has_written(mark)
    ledger.stopService()

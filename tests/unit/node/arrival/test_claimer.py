"""What a claim reports about the queue: whether ready jobs are left."""

import time
from datetime import UTC, datetime
from typing import Any

import psycopg2
import pytest
from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import Workers, fake, lease_of
from txqueue.model.assignment import Assignment
from txqueue.node.arrival.claimer import Claimer
from txqueue.node.peers.peer import PeerTable
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.periodic import Wakeups
from txqueue.node.workers.starter import WorkerVersions
from txqueue.policy.placement import claim_plan
from txqueue.policy.placement.claim_plan import Claim
from txqueue.policy.placement.credit import UNTIMED
from txqueue.policy.placement.idling import FIRST_IDLE
from txqueue.policy.placement.room import FEW, MANY, STREAM, Room

PLACE = "2030-01-01", 5
SEEN = datetime(2030, 1, 1, tzinfo=UTC)
TAKEN = [Assignment(1, 5, 0, 1, 1, "[]")]


class Harness:
    """A claimer, and a database that answers as the test says."""

    def __init__(self, *queues: str) -> None:
        self.claims: list[Claim] = []
        self.asked_from: list[tuple[str, int] | None] = []
        self.looks: list[bool] = []
        self.ordinary: list[tuple[int, bool]] = []
        self.asked_for: list[int] = []
        self.begun: list[frozenset[int]] = []
        self.queues: list[list[str]] = []
        self.failures: list[Exception] = []
        self.misses = 0
        clock = Clock()
        self.wakeups = Wakeups(clock)
        self.during_claims: list[tuple[str, int] | None] = []
        self.claimer = Claimer(
            clock,
            self,  # type: ignore[arg-type]
            lease=lease_of(),
            queues=queues or ["default"],
            versions=WorkerVersions(["test"], []),
            workers=fake(Workers(capacity=1_000)),
            peers=PeerTable(clock),
            lanes=fake(self),
            listeners=[self],
            open_credit=fake(self),
            meters=Meters(),
            wakeups=self.wakeups,
        )

    def count_claimed(self, jobs: int) -> None:
        """Look at no lane."""

    def on_claim(self, jobs: int) -> None:
        """Grant no credit."""

    def on_backlog(self, *, has_backlog: bool) -> None:
        """Note whether jobs are left."""
        self.looks.append(has_backlog)

    def on_miss(self) -> None:
        """Count it."""
        self.misses += 1

    async def release(self, *_: Any, **__: Any) -> int:
        """Take back what a stopped claimer has claimed."""
        return 0

    async def next_job(self, *asked: Any, reached: tuple[str, int] | None, **__: Any) -> Claim:
        """Answer the next claim."""
        self.asked_from.append(reached)
        self.queues.append(list(asked[2]))
        if self.failures:
            raise self.failures.pop(0)
        if self.during_claims:
            self.wakeups.look_for_work(self.during_claims.pop(0))
        return self.claims.pop(0)

    async def claim_ready(self, *asked: Any) -> tuple[list[Assignment], bool, frozenset[int]]:
        """Answer the next claim of ordinary jobs."""
        self.asked_for.append(asked[-1])
        jobs, is_ordinary = self.ordinary.pop(0)
        begun = self.begun.pop(0) if self.begun else frozenset[int]()
        return [Assignment(1, 6, 0, jobs, jobs, "[]")] if jobs else [], is_ordinary, begun

    async def steps(self, count: int) -> list[float | None]:
        """Claim so many times, each woken before its pause is over; returns the pauses."""
        return [await self.claimer.step() for _ in range(count)]


def claim(*taken: Assignment, reached: tuple[str, int] | None) -> Claim:
    """What a claim found, and where it stopped."""
    return Claim(list(taken), None, SEEN, reached)


async def test_a_look_at_a_part_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """It began behind jobs that may have come in since; the next look is at all of them."""
    monkeypatch.setattr(claim_plan, "REWIND", float("inf"))
    harness = Harness()
    harness.claims = [claim(*TAKEN, reached=PLACE), claim(reached=None), claim(reached=None)]
    for _ in range(3):
        await harness.claimer.step()
    assert harness.asked_from == [None, PLACE, None]
    assert harness.looks == [True, False]


@pytest.mark.parametrize(
    ("jobs", "reached", "pause"),
    [(1, None, FIRST_IDLE), (1, PLACE, 0.0), (2, None, claim_plan.BREATH), (2, PLACE, 0.0)],
)
async def test_a_single_job_is_followed_by_no_claim(
    jobs: int, reached: tuple[str, int] | None, pause: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If it was all there was; nor does the worker that has done with it ask for one."""
    monkeypatch.setattr(claim_plan, "FEW_QUEUES", 0)
    harness = Harness()
    one = claim(Assignment(1, 5, 0, jobs, jobs, "[]"), reached=reached)
    harness.claims = [claim(reached=None), one]
    await harness.steps(1)
    assert await harness.claimer.step() == pause
    harness.claimer.on_room()
    waiting = Deferred.fromCoroutine(harness.claimer.alarm.wait(1.0))
    assert waiting.called == (pause != FIRST_IDLE)
    harness.claimer.alarm.ring()
    await waiting


@pytest.mark.parametrize(("is_stocked", "since"), [(True, 0.0), (True, 1.0), (False, 0.0)])
async def test_workers_with_enough_work_ask_for_no_claim_before_it_is_due(
    is_stocked: bool, since: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of their reports would wake the claimer, which would only wait again."""
    harness = Harness()
    harness.claims = [claim(*TAKEN, reached=PLACE)]
    await harness.claimer.step()
    claimed_at = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: claimed_at + since)
    monkeypatch.setattr(Workers, "room", Room(5, 100, 5, 50, 1, 50, is_stocked))
    harness.claimer.on_room()
    waiting = Deferred.fromCoroutine(harness.claimer.alarm.wait(1.0))
    assert waiting.called == (not is_stocked or since > 0)
    harness.claimer.alarm.ring()
    await waiting


async def test_pauses_grow_only_while_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A single job restarts them: its enqueue may have found the master awake."""
    monkeypatch.setattr(claim_plan, "FEW_QUEUES", 0)
    harness = Harness()
    one = claim(Assignment(1, 5, 0, 1, 1, "[]"), reached=None)
    harness.claims = [claim(reached=None), claim(reached=None), one, claim(reached=None)]
    pauses = await harness.steps(4)
    assert pauses == [UNTIMED, 2 * FIRST_IDLE, FIRST_IDLE, 2 * FIRST_IDLE]


async def test_open_transactions_are_looked_for_by_claims_of_ordinary_jobs() -> None:
    """Soon after the claim that a notification has brought, until they have ended."""
    harness = Harness()
    harness.claims = [claim(reached=None)]
    harness.ordinary = [(1, True), (0, True), (0, True)]
    harness.begun = [frozenset({7}), frozenset({7, 8}), frozenset({8})]
    pauses = [pause for pause in await harness.steps(4) if pause is not None]
    assert pauses[1:3] == [UNTIMED, UNTIMED]
    assert pauses[3] > UNTIMED


async def test_a_claim_that_was_cut_short_is_followed_at_once() -> None:
    """It took nothing, but the next one may: it was busy with jobs that may not run."""
    harness = Harness()
    cut = Claim([], 0.0, SEEN, PLACE)
    harness.claims = [cut, claim(reached=None), cut, claim(reached=None), claim(reached=None)]
    assert await harness.steps(5) == [0.0, 0.0, 0.0, 0.0, UNTIMED]


LONG_SEARCH = Claim([], None, SEEN, None, None, searched=60.0, passed=PLACE)


async def test_claims_go_on_behind_jobs_that_took_long_to_read() -> None:
    """They are of types that other nodes run; until the next look back, full claims read none."""
    harness = Harness()
    harness.claims = [LONG_SEARCH, claim(*TAKEN, reached=None), claim(reached=None)]
    harness.ordinary = [(1, True), (FEW, True), (FEW, True)]
    await harness.steps(6)
    assert harness.asked_from == [None, PLACE, PLACE]
    assert harness.looks == [False]


async def test_no_claim_of_ordinary_jobs_follows_one_that_took_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While there are many jobs of other nodes: they may be in the current lane, too."""
    monkeypatch.setattr(claim_plan, "SLOW", 0.0)
    harness = Harness()
    harness.claims = [LONG_SEARCH, claim(reached=None)]
    harness.ordinary = [(1, True)]
    await harness.steps(3)
    assert harness.asked_from == [None, PLACE]


@pytest.mark.parametrize(("again", "start"), [(0.0, None), (60.0, PLACE)])
async def test_a_claim_of_jobs_that_took_long_once_is_followed_by_a_look_back(
    monkeypatch: pytest.MonkeyPatch, again: float, start: tuple[str, int] | None
) -> None:
    """The server was busy: jobs that commit late, with a smaller rank, need not wait for that."""
    monkeypatch.setattr(claim_plan, "FEW_QUEUES", 0)
    harness = Harness()
    slow = evolve(claim(*TAKEN, reached=None), searched=60.0, passed=PLACE)
    harness.claims = [slow, evolve(slow, searched=again), claim(reached=None)]
    await harness.steps(3)
    assert harness.asked_from == [None, None, start]


async def test_jobs_that_are_not_ordinary_need_a_look_back() -> None:
    """They may rank before the place at which the claims go on."""
    harness = Harness()
    harness.claims = [LONG_SEARCH, LONG_SEARCH]
    harness.ordinary = [(0, False)]
    await harness.steps(3)
    assert harness.asked_from == [None, None]


EARLIER, PASSED, LATER = ((f"{year}-01-01 00:00:00+00", 5) for year in (2029, 2030, 2031))
SEARCH = evolve(LONG_SEARCH, passed=PASSED)
FOUND_ALL = claim(reached=None)


@pytest.fixture
def searching(monkeypatch: pytest.MonkeyPatch) -> Harness:
    """A claimer that makes no claims of ordinary jobs only."""
    monkeypatch.setattr(claim_plan, "FEW_QUEUES", 0)
    return Harness()


@pytest.mark.parametrize(
    ("freed", "start"),
    [([EARLIER], EARLIER), ([LATER], PASSED), ([LATER, EARLIER, LATER], EARLIER)],
)
async def test_claims_go_back_to_the_first_job_that_became_ready(
    searching: Harness, freed: list[tuple[str, int]], start: tuple[str, int]
) -> None:
    """It may rank before the place at which the claims go on; the next ones begin there as well."""
    searching.claims = [SEARCH, FOUND_ALL, FOUND_ALL]
    await searching.steps(1)
    for place in freed:
        searching.wakeups.look_for_work(place)
    await searching.steps(2)
    assert searching.asked_from == [None, start, start]


async def test_jobs_that_become_ready_during_a_claim_are_for_the_next_one(
    searching: Harness,
) -> None:
    """The running one may have read their places before."""
    searching.claims = [SEARCH, FOUND_ALL, FOUND_ALL]
    searching.during_claims = [None, EARLIER]
    await searching.steps(3)
    assert searching.asked_from == [None, PASSED, EARLIER]


async def test_going_back_takes_a_small_part_of_the_time(searching: Harness) -> None:
    """If it takes a search, too, jobs that become ready wait for the next look back."""
    searching.claims = [SEARCH, evolve(SEARCH, passed=None), FOUND_ALL]
    searching.during_claims = [EARLIER, EARLIER]
    await searching.steps(3)
    assert searching.asked_from == [None, EARLIER, PASSED]


async def test_a_look_back_that_finds_nothing_leaves_the_place(searching: Harness) -> None:
    """Only dead rows are before it."""
    nothing = evolve(SEARCH, passed=None)
    searching.claims = [evolve(SEARCH, searched=1e-9), nothing, FOUND_ALL]
    await searching.steps(3)
    assert searching.asked_from == [None, None, PASSED]


async def test_a_full_claim_that_is_nearly_due_follows_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Just then new jobs have been claimed; later ones would wait for what it looks at."""
    monkeypatch.setattr(claim_plan, "NEARLY", claim_plan.REWIND)
    harness = Harness()
    harness.claims = [claim(reached=None), claim(reached=None)]
    harness.ordinary = [(1, True)]
    assert (await harness.steps(3))[1] == claim_plan.BREATH
    assert not harness.claims


async def test_a_full_claim_takes_what_is_not_ordinary() -> None:
    """At once; and no claim of ordinary jobs is tried for a moment."""
    harness = Harness()
    harness.claims = [claim(reached=None), claim(*TAKEN, reached=None), claim(reached=None)]
    harness.ordinary = [(0, False)]
    _, pause, *_ = await harness.steps(4)
    assert (pause, len(harness.asked_for), len(harness.asked_from)) == (0.0, 1, 3)


async def test_a_full_claim_follows_when_more_are_ready() -> None:
    """As many as were asked for: there may be a stream of them."""
    harness = Harness()
    harness.claims = [claim(reached=None), claim(reached=None)]
    harness.ordinary = [(FEW, True)]
    assert (await harness.steps(3))[1] == claim_plan.BREATH
    assert len(harness.asked_from) == 2


STREAMING = Assignment(1, 5, 0, STREAM, STREAM, "[]")


async def test_in_a_stream_most_claims_are_of_ordinary_jobs() -> None:
    """They cost less; a claim of any jobs follows one that found few, as the master may sleep."""
    harness = Harness()
    harness.claims = [claim(STREAMING, reached=None), claim(reached=None)]
    harness.ordinary = [(STREAM, True), (STREAM, True), (STREAM - 1, True)]
    assert await harness.steps(4) == [claim_plan.BREATH] * 4
    assert (harness.asked_for, len(harness.asked_from)) == ([MANY] * 3, 1)
    await harness.steps(1)
    assert len(harness.asked_from) == 2


@pytest.mark.parametrize(
    "first",
    [
        claim(evolve(STREAMING, jobs=STREAM - 1), reached=None),
        claim(STREAMING, reached=PLACE),
        evolve(claim(STREAMING, reached=None), due_in=0.0),
    ],
    ids=["few jobs", "others are left", "another job is due"],
)
async def test_no_stream(first: Claim) -> None:
    """Other jobs than new ones in the current lane may be ready, or few will be."""
    harness = Harness()
    harness.claims = [first, claim(reached=None)]
    await harness.steps(2)
    assert (harness.asked_for, len(harness.asked_from)) == ([], 2)


@pytest.mark.parametrize("answer", [(MANY, True), (0, False), (0, True)])
async def test_a_claim_of_any_jobs_follows_in_a_stream(answer: tuple[int, bool]) -> None:
    """As there are more, or others, or none."""
    harness = Harness()
    harness.claims = [claim(STREAMING, reached=None), claim(reached=None)]
    harness.ordinary = [answer]
    await harness.steps(3)
    assert (harness.asked_for, len(harness.asked_from)) == ([MANY], 2)


async def test_in_a_stream_a_claim_of_any_jobs_is_due_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other jobs may be ready in other lanes."""
    harness = Harness()
    harness.claims = [claim(STREAMING, reached=None), claim(reached=None)]
    await harness.steps(1)
    claimed_at = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: claimed_at + claim_plan.REWIND)
    await harness.steps(1)
    assert (harness.asked_for, len(harness.asked_from)) == ([], 2)


async def test_a_job_that_was_claimed_alone_might_have_been_enqueued_as_assigned() -> None:
    """Unlike one of many, and one that is not ordinary."""
    harness = Harness()
    harness.claims = [claim(reached=None)]
    await harness.steps(1)
    harness.ordinary = [(0, True), (1, True), (FEW, True)]
    await harness.steps(3)
    assert harness.misses == 1


class TooLong(psycopg2.errors.QueryCanceled):
    """A claim that the server gives up for its time."""

    pgcode = "57014"


async def test_a_claim_that_takes_too_long_is_tried_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Parts of the queues by turns, until claims are quick again."""
    harness = Harness(*map(str, range(20)))
    harness.failures = [TooLong(), TooLong()]
    for _ in range(2):
        with pytest.raises(TooLong):
            await harness.claimer.step()
    monkeypatch.setattr(claim_plan, "QUICK", 0.0)
    harness.claims = [claim(*TAKEN, reached=PLACE)] * 40
    assert await harness.steps(20) == [claim_plan.BREATH] * 20
    small = harness.queues[2:]
    assert sorted(small) == sorted([str(number)] for number in range(20))
    monkeypatch.setattr(claim_plan, "QUICK", 1.0)
    await harness.steps(7)
    assert len(harness.queues[-1]) == 20
    assert harness.asked_from == [None] * 29


async def test_a_part_without_jobs_is_followed_by_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """The claimer does not rest before it has asked for all, nor keep the server busy alone."""
    harness = Harness(*map(str, range(20)))
    harness.failures = [TooLong()]
    with pytest.raises(TooLong):
        await harness.claimer.step()
    monkeypatch.setattr(claim_plan, "QUICK", 0.0)
    harness.claims = [claim(reached=None)]
    (pause,) = await harness.steps(1)
    assert pause is not None
    assert pause < 0.1
    assert harness.looks == []

"""Where claims go on, how much they ask for, and the heavy jobs that they leave to others."""

from datetime import UTC, datetime

import pytest
from attrs import Factory, define
from hypothesis import given
from hypothesis import strategies as st
from twisted.internet.task import Clock

from txqueue.policy.placement.claim_plan import (
    FIRST_PLACE,
    LONGEST_REWIND,
    PATIENCE,
    REST,
    REWIND,
    SEARCH_SHARE,
    ClaimPlace,
    ClaimShare,
    HeavyJobs,
    JobPlace,
    earlier,
    rewind_interval,
)
from txqueue.policy.placement.room import Room


@given(st.floats(0.001, 1e3))
def test_searches_take_a_small_part_of_the_time(searched: float) -> None:
    """Unless one look back takes very long: it comes round all the same."""
    interval = rewind_interval(searched)
    assert 0 < interval <= LONGEST_REWIND
    assert searched <= interval * SEARCH_SHARE * 1.001 or interval == LONGEST_REWIND


places = st.tuples(st.datetimes(timezones=st.just(UTC)).map(str), st.integers(1, 2**62))


@given(places, places)
def test_the_earlier_place_ranks_first(one: JobPlace, other: JobPlace) -> None:
    """By the moment, and of equal moments by the number."""
    moments = [(datetime.fromisoformat(rank), number) for rank, number in (one, other)]
    assert earlier(one, other) == (one if moments[0] <= moments[1] else other)


@pytest.mark.parametrize("rank", ["-infinity", "2000-01-01 00:00:00+00 BC", "01/02/2030 10:00 UTC"])
def test_a_place_that_python_cannot_compare_is_before_all(rank: str) -> None:
    """A claim from there reads more than it must, and misses nothing."""
    assert earlier((rank, 5), ("2030-01-01 00:00:00+00", 5)) == FIRST_PLACE


def at(job_id: int) -> JobPlace:
    """A place of a job."""
    return "2030-01-01 00:00:00+00", job_id


def claimed(
    place: ClaimPlace,
    now: float,
    *,
    reached: JobPlace | None = None,
    passed: JobPlace | None = None,
    searched: float = 0.0,
    freed: JobPlace | None = None,
) -> JobPlace | None:
    """Claim at a time, and return where the claim began."""
    begun = place.next(now, freed)
    place.note_claim(begun, reached, passed, searched=searched, took_jobs=False, now=now)
    return begun


def test_claims_go_on_where_jobs_were_left() -> None:
    """And one begins at the first rank once that is due."""
    place = ClaimPlace()
    assert claimed(place, 0.0, reached=at(5)) is None
    assert claimed(place, REWIND / 2, reached=at(9)) == at(5)
    assert claimed(place, REWIND, reached=at(9)) is None


ROOM = Room(free=1_000, limit=1_000, largest=50, capacity=100, workers=10, ahead=300)


def test_a_claim_that_took_too_long_is_followed_by_less_room() -> None:
    """But as much as the heaviest job needs."""
    share = ClaimShare(["a"])
    assert share.of(ROOM) is ROOM
    share.shrink()
    assert (share.of(ROOM).free, share.of(ROOM).ahead, share.next_queues()) == (125, 125, ["a"])
    share.shrink()
    assert share.of(ROOM).free == 50


def test_quick_claims_ask_for_more_again() -> None:
    """Slow ones do not."""
    share = ClaimShare(["a"])
    share.shrink()
    share.note_time(5.0)
    assert share.parts == 8
    for _ in range(3):
        share.note_time(0.1)
    assert not share.is_part


LOAD = 0.65


@define
class Bench:
    """A node that is loaded."""

    clock: Clock = Factory(Clock)
    wakes: int = 0
    heavy_jobs: HeavyJobs = Factory(HeavyJobs)

    def claim(self, left_job: int | None) -> None:
        """Claim, and leave a job; count the notifications of the peers."""
        self.wakes += self.heavy_jobs.note(left_job, self.clock.seconds())

    def pause(self, pause: float) -> float:
        """Return the pause before the next claim."""
        return self.heavy_jobs.pause(pause, self.clock.seconds())

    def leaves(self) -> bool:
        """Whether the next claim may leave jobs to others."""
        return self.heavy_jobs.compared_load(LOAD, self.clock.seconds()) == LOAD


@pytest.fixture
def bench() -> Bench:
    """One that has not claimed yet."""
    return Bench()


def test_a_job_that_no_other_node_takes_is_taken_after_a_while(bench: Bench) -> None:
    """And so are those that follow for some time, as the others may be unable to."""
    bench.claim(7)
    bench.clock.advance(PATIENCE - 0.1)
    bench.claim(7)
    assert bench.leaves()
    assert bench.pause(1.0) == pytest.approx(0.1)
    bench.clock.advance(0.11)
    bench.claim(7)
    assert not bench.leaves()
    assert bench.pause(1.0) == 0.0
    bench.claim(None)
    assert bench.pause(1.0) == 1.0
    bench.clock.advance(REST)
    assert bench.leaves()


def test_patience_is_with_each_job(bench: Bench) -> None:
    """A stream of heavy jobs is left to the others for as long as they take them."""
    for job_id in range(10):
        bench.claim(job_id)
        bench.clock.advance(PATIENCE - 0.1)
        assert bench.leaves()
    assert bench.wakes == 10


def test_peers_are_notified_once_of_each_job(bench: Bench) -> None:
    """However often a claim leaves it."""
    for job_id in (7, 7, None, 7, 8):
        bench.claim(job_id)
    assert bench.wakes == 3

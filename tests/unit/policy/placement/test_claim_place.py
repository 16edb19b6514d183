"""Where among the ready jobs a claim begins."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.placement.claim_plan import (
    FIRST_PLACE,
    LONGEST_REWIND,
    REWIND,
    SEARCH_SHARE,
    ClaimPlace,
    JobPlace,
    confirmed_search,
    earlier,
    rewind_interval,
)


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


def test_a_search_of_a_claim_that_took_jobs_is_believed_when_it_happens_again() -> None:
    """Once, the server may have been busy; what is not ours to take is there the next time, too."""
    assert confirmed_search(0.2, 0.0, took_jobs=True) == 0.0
    assert confirmed_search(0.2, 0.1, took_jobs=True) == 0.1
    assert confirmed_search(0.1, 0.2, took_jobs=True) == 0.1
    assert confirmed_search(0.2, 0.0, took_jobs=False) == 0.2


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


def test_a_claim_that_left_no_job_is_followed_by_one_from_the_first_rank() -> None:
    """As is one that left jobs because a share was used up, at any rank."""
    place = ClaimPlace()
    assert claimed(place, 0.0) is None
    assert claimed(place, 0.01, reached=FIRST_PLACE) is None
    assert claimed(place, 0.02) is None


def test_a_search_is_not_made_again_until_it_is_worth_it() -> None:
    """Claims that left no job go on, too, behind what was read."""
    place = ClaimPlace()
    claimed(place, 0.0, passed=at(5), searched=0.05)
    assert place.is_searching
    assert claimed(place, REWIND * 2) == at(5)
    assert claimed(place, place.rewind_due) is None


def test_a_search_goes_back_to_a_job_that_became_ready() -> None:
    """Without a search, claims do not: the next one from the first rank is due soon."""
    place = ClaimPlace()
    claimed(place, 0.0, passed=at(5), searched=0.05)
    assert claimed(place, 0.01, freed=at(2)) == at(2)
    other = ClaimPlace()
    claimed(other, 0.0, reached=at(5))
    assert claimed(other, 0.01, freed=at(2)) == at(5)


def test_the_next_claim_can_be_made_to_begin_at_the_first_rank() -> None:
    """As when jobs were met that the last claims have left out."""
    place = ClaimPlace()
    claimed(place, 0.0, reached=at(5))
    place.rewind()
    assert claimed(place, 0.01) is None

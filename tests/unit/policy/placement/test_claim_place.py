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

"""How many jobs any session may enqueue as assigned to a node."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.placement.credit import (
    BURST,
    LONE_CREDIT,
    SHARED_CREDIT,
    SLOW_COMMIT,
    STREAM,
    OpenCreditTerms,
    is_stream,
    is_too_fast,
    open_credit,
    open_credit_terms,
)
from txqueue.policy.placement.room import Room

BOTH = pytest.mark.parametrize("terms", [LONE_CREDIT, SHARED_CREDIT], ids=["lone", "shared"])


def room(free: int) -> Room:
    """The room of one worker that can still take so much."""
    return Room(free, 1000, free, 1000, 1)


@BOTH
def test_a_node_grants_no_more_than_half_of_its_room(terms: OpenCreditTerms) -> None:
    """The rest is for claims: jobs that are not committed yet do not count as load."""
    granted = [open_credit(room(free), terms, is_alone=True) for free in (0, 1, 10, 1000)]
    assert granted == [0, 0, 5, terms.most]


@BOTH
def test_nodes_take_turns(terms: OpenCreditTerms) -> None:
    """While there are others, a node grants little, and so soon it is another's turn."""
    assert open_credit(room(1000), terms, is_alone=False) == terms.turn < terms.most


@BOTH
def test_jobs_that_come_too_fast(terms: OpenCreditTerms) -> None:
    """They are to be claimed, many at a time."""
    jobs = terms.most // 2
    least = jobs / terms.most_a_second
    assert is_too_fast(jobs, jobs, least * 0.9, terms)
    assert not is_too_fast(jobs, jobs, least, terms)
    assert not is_too_fast(0, 0, 0.0, terms)


def test_many_jobs_in_each_read_are_too_many() -> None:
    """The processors are so busy that a claim, which takes many at a time, costs less."""
    terms, jobs = SHARED_CREDIT, SHARED_CREDIT.most // 2
    assert is_too_fast(jobs, jobs // terms.most_a_read - 1, 60.0, terms)
    assert not is_too_fast(jobs, jobs // terms.most_a_read, 60.0, terms)


@given(st.integers(0, SHARED_CREDIT.least - 1), st.integers(0, 100), st.floats(0, 1))
def test_clients_that_commit_together_are_not_too_fast(
    jobs: int, reads: int, seconds: float
) -> None:
    """One flush of the disk ends the transactions of many clients."""
    assert not is_too_fast(jobs, reads, seconds, SHARED_CREDIT)


@given(
    st.integers(0, 1_000), st.integers(0, 1_000), st.floats(0, 10), st.sampled_from([1, 2, 10, 100])
)
def test_fewer_jobs_in_more_reads_are_not_faster(
    jobs: int, reads: int, seconds: float, part: int
) -> None:
    """Nor if they take longer."""
    for terms in (LONE_CREDIT, SHARED_CREDIT):
        if not is_too_fast(jobs, reads, seconds, terms):
            assert not is_too_fast(jobs // part, reads + part, seconds + part, terms)


def test_a_burst_of_claimed_jobs_is_no_stream() -> None:
    """While many clients enqueue at a time, most of their jobs are claimed."""
    least = BURST / STREAM
    assert is_stream(BURST, least * 0.9)
    assert not is_stream(BURST, least)
    assert not is_stream(BURST - 1, 0.0)


def test_credit_is_shared_where_commits_are_slow() -> None:
    """Elsewhere a claim, which commits, takes little longer than a read."""
    terms = [open_credit_terms(time) for time in (None, SLOW_COMMIT / 2, SLOW_COMMIT)]
    assert terms == [LONE_CREDIT, LONE_CREDIT, SHARED_CREDIT]

"""How many jobs any session may enqueue as assigned to a node."""

from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.placement.credit import (
    BURST,
    MOST_OPEN,
    STREAM,
    TURN_OPEN,
    is_too_fast,
    open_credit,
    outpaces_credit,
)
from txqueue.policy.placement.room import Room


def room(free: int) -> Room:
    """The room of one worker that can still take so much."""
    return Room(free, 1000, free, 1000, 1)


def test_a_node_grants_no_more_than_half_of_its_room() -> None:
    """The rest is for claims: jobs that are not committed yet do not count as load."""
    granted = [open_credit(room(free), is_alone=True) for free in (0, 1, 10, 1000)]
    assert granted == [0, 0, 5, MOST_OPEN]


def test_nodes_take_turns() -> None:
    """While there are others, a node grants little, and so soon it is another's turn."""
    assert open_credit(room(1000), is_alone=False) == TURN_OPEN < MOST_OPEN


@given(
    st.integers(0, 1_000), st.integers(0, 1_000), st.floats(0, 10), st.sampled_from([1, 2, 10, 100])
)
def test_fewer_jobs_at_more_moments_are_not_faster(
    jobs: int, arrivals: int, seconds: float, part: int
) -> None:
    """Nor if they take longer."""
    if not is_too_fast(jobs, arrivals, seconds):
        assert not is_too_fast(jobs // part, arrivals + part, seconds + part)


def test_a_burst_of_claimed_jobs_is_no_stream() -> None:
    """While many clients enqueue at a time, most of their jobs are claimed."""
    least = BURST / STREAM
    assert outpaces_credit(BURST, least * 0.9)
    assert not outpaces_credit(BURST, least)
    assert not outpaces_credit(BURST - 1, 0.0)

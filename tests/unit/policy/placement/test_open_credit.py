"""How many jobs any session may enqueue as assigned to a node."""

from txqueue.policy.placement.credit import BURST, MOST, TURN, is_stream, is_too_fast, open_credit
from txqueue.policy.placement.room import Room


def room(free: int) -> Room:
    """The room of one worker that can still take so much."""
    return Room(free, 100, free, 100, 1)


def test_a_node_grants_no_more_than_half_of_its_room() -> None:
    """The rest is for claims: jobs that are not committed yet do not count as load."""
    assert [open_credit(room(free), is_alone=True) for free in (0, 1, 10, 100)] == [0, 0, 5, MOST]


def test_nodes_take_turns() -> None:
    """While there are others, a node grants little, and so soon it is another's turn."""
    assert open_credit(room(100), is_alone=False) == TURN < MOST


def test_jobs_that_come_faster_than_a_thousand_a_second() -> None:
    """They are to be claimed, many at a time."""
    assert is_too_fast(16, 0.01)
    assert not is_too_fast(16, 0.02)
    assert not is_too_fast(0, 0.0)


def test_a_burst_of_claimed_jobs_is_no_stream() -> None:
    """While many clients enqueue at a time, most of their jobs are claimed."""
    assert is_stream(BURST, 0.09)
    assert not is_stream(BURST, 0.1)
    assert not is_stream(BURST - 1, 0.0)

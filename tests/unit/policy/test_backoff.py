"""Pauses between attempts: longer with each failure, short again after a success."""

from txqueue.policy.backoff import Backoff


def test_pauses_grow_up_to_the_longest() -> None:
    """Each is twice the one before."""
    backoff = Backoff(1.0, 5.0)
    assert [backoff.take() for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_a_success_begins_again() -> None:
    """The next failure takes the first pause."""
    backoff = Backoff(0.5, 5.0, factor=3.0)
    assert backoff.is_fresh
    assert [backoff.take(), backoff.take()] == [0.5, 1.5]
    assert not backoff.is_fresh
    backoff.reset()
    assert backoff.is_fresh
    assert backoff.pause == backoff.take() == 0.5


def test_chance_shortens_a_pause_by_up_to_a_half() -> None:
    """Even the longest one, and the next pause is as long as without it."""
    backoff = Backoff(1.0, 2.0)
    assert [backoff.take(0.5), backoff.take(1.0), backoff.take()] == [0.75, 1.0, 2.0]

"""How many reports one statement writes."""

from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.endings import batching
from txqueue.policy.endings.batching import MOST_TEXT, BatchSize


@given(st.lists(st.integers(0, 2 * MOST_TEXT), min_size=1))
def test_a_batch_is_limited_in_text_and_never_empty(lengths: list[int]) -> None:
    """It takes as many as fit, and one that does not fit alone."""
    number = BatchSize().first(lengths)
    assert number == 1 or sum(lengths[:number]) <= MOST_TEXT
    assert number == len(lengths) or sum(lengths[: number + 1]) > MOST_TEXT


def test_a_batch_shrinks_after_failures_and_grows_again() -> None:
    """By half each time, down to one; and back to the most after a while without failure."""
    size = BatchSize()
    lengths = [1] * 20
    assert size.first(lengths) == 20
    size.failed(20, now=0.0)
    assert size.first(lengths) == 10
    size.failed(1, now=1.0)
    assert size.first(lengths) == 1
    size.succeeded(now=1.0 + batching.FORGIVEN)
    assert size.first(lengths) == 1
    size.succeeded(now=1.1 + batching.FORGIVEN)
    assert size.first(lengths) == 20

"""How many reports one statement writes."""

from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.endings import reports as batching
from txqueue.policy.endings.reports import (
    COMMITS,
    GATHERING,
    LONGEST_GATHERING,
    MOST_TEXT,
    BatchSize,
    gathering,
)


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


@given(st.none() | st.floats(0.0, 1.0))
def test_completions_are_gathered_for_several_commits(commit_time: float | None) -> None:
    """So that clients' commits seldom meet one; within bounds, and briefly where none was timed."""
    seconds = gathering(commit_time)
    assert GATHERING <= seconds <= LONGEST_GATHERING
    assert seconds in (GATHERING, LONGEST_GATHERING, COMMITS * (commit_time or 0.0))
    assert gathering(None) == GATHERING


@given(st.none() | st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_completions_are_not_gathered_where_no_second_one_comes(
    commit_time: float | None, interval: float
) -> None:
    """If jobs end with longer pauses than the shortest delay."""
    whole = gathering(commit_time)
    assert gathering(commit_time, interval) == (whole if interval < GATHERING else 0.0)

"""How many reports one statement writes, and of which ended jobs clients are notified."""

from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.endings import reports as batching
from txqueue.policy.endings.reports import (
    ASKED_EVERY,
    COMMITS,
    GATHERING,
    LONGEST_GATHERING,
    LONGEST_NOTICE,
    MOST_TEXT,
    BatchSize,
    EndNotices,
    gathering,
)


def answered(awaited: float) -> EndNotices:
    """Notices after a first notification at moment 0, to which the database has answered."""
    notices = EndNotices()
    notices.note("1")
    notices.take(0.0)
    notices.answered(awaited, 0.0)
    return notices


def test_without_an_end_there_is_nothing_to_say() -> None:
    """However long clients wait."""
    assert EndNotices().pause(0.0) is None
    assert answered(10.0).pause(1.0) is None


def test_the_first_end_is_told_at_once() -> None:
    """A client may wait, as far as the node knows."""
    notices = EndNotices()
    notices.note("5")
    assert notices.pause(100.0) == 0.0
    assert notices.take(100.0) == "5"


def test_while_clients_wait_ends_are_told_at_once() -> None:
    """Together, those that have gathered."""
    notices = answered(10.0)
    notices.note("5,6")
    notices.note("7")
    assert notices.pause(9.9) == 0.0
    assert notices.take(9.9) == "5,6,7"
    assert notices.pause(9.9) is None


def test_while_no_client_waits_ends_are_gathered() -> None:
    """One statement for all of a moment, as none may be interested."""
    notices = answered(0.0)
    notices.note("5")
    assert notices.pause(0.0) == ASKED_EVERY
    assert notices.pause(2 * ASKED_EVERY) == 0.0


def test_clients_that_no_longer_ask_count_as_gone() -> None:
    """They renew their request while they wait."""
    notices = answered(10.0)
    notices.note("5")
    notices.take(9.99)
    notices.note("6")
    assert notices.pause(9.99) == 0.0
    assert 0.0 < (notices.pause(10.0) or 0.0) < ASKED_EVERY


def test_too_many_ends_stand_for_any_job() -> None:
    """And take no more memory, as during an outage."""
    notices = EndNotices()
    for _ in range(LONGEST_NOTICE):
        notices.note("123,456")
    assert notices.take(0.0) == ""
    notices.note("7")
    assert notices.take(0.0) == "7"


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

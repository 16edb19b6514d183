"""Which nodes a notification wakes, and how often idle ones poll."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from txqueue.policy.placement.idling import (
    LEAST_BEATS,
    LONGEST_IDLE,
    LONGEST_OF_MANY,
    LOOK,
    SELDOM,
    SHARED,
    WOKEN,
    IdlePace,
    WakePlace,
    idle_delay,
    is_about_jobs,
    wakes,
)

places = st.integers(1, 600).flatmap(
    lambda nodes: st.builds(WakePlace, number=st.integers(0, nodes - 1), of=st.just(nodes))
)


def woken(text: str, nodes: int) -> set[int]:
    """Return the places of the nodes that a notification wakes."""
    return {number for number in range(nodes) if wakes(text, WakePlace(number, nodes))}


@given(st.integers(1, 600), st.integers(1, 700), st.integers(0, 2**64 - 1))
def test_as_many_nodes_wake_as_there_are_jobs_and_at_least_a_few(
    nodes: int, jobs: int, transaction: int
) -> None:
    """All of them, if there are more jobs than nodes."""
    assert len(woken(f"jobs {jobs} {transaction}", nodes)) == min(nodes, max(jobs, WOKEN))


def test_one_transaction_after_another_wakes_other_nodes() -> None:
    """A hundred transactions wake a hundred nodes four times each."""
    calls = [number for each in range(100) for number in woken(f"jobs 1 {each}", 100)]
    assert sorted(calls) == sorted([*range(100)] * WOKEN)


@given(st.sampled_from(["", "jobs", "jobs x 1", "jobs 1", "jobs 1 2 3", "jobs -1 2"]), places)
def test_a_notification_without_numbers_wakes_every_node(text: str, place: WakePlace) -> None:
    """Such as one about schedules, or of a version before."""
    assert wakes(text, place)


def test_a_node_that_does_not_know_its_place_wakes() -> None:
    """Such as one that has just registered."""
    assert wakes("jobs 1 7", None)


def test_only_a_notification_about_jobs_leaves_schedules_alone() -> None:
    """Those of a version before had no numbers."""
    assert [is_about_jobs(text) for text in ("jobs", "jobs 3 77", "", "schedules")] == [
        True,
        True,
        False,
        False,
    ]


@given(st.integers(1, 10**9), st.none() | places)
def test_idle_sleeps_grow_to_a_bound(empty: int, place: WakePlace | None) -> None:
    """Each empty claim is followed by a sleep at least as long as the last, up to the poll."""
    assert 0 < idle_delay(empty, place) <= idle_delay(empty + 1, place) <= LONGEST_OF_MANY


def test_the_first_idle_sleep_is_short_and_the_last_is_the_poll() -> None:
    """An enqueue may have read the sleep flag just before it was set."""
    assert idle_delay(1, WakePlace(0, 500)) <= 0.1
    assert idle_delay(10) == LONGEST_IDLE


@given(places)
def test_many_nodes_together_poll_as_often_as_a_few(place: WakePlace) -> None:
    """So a job of which no notification arrived is found as soon; each node polls less."""
    assert place.of / idle_delay(100, place) >= min(place.of, SHARED)


def test_claims_of_a_node_that_receives_notifications_become_rare() -> None:
    """Not before it has been idle for about as long as they are apart."""
    slept, empty = 0.0, 1
    while (delay := idle_delay(empty, slowest=SELDOM)) <= LONGEST_IDLE:
        slept, empty = slept + delay, empty + 1
    assert delay == idle_delay(empty + 50, slowest=SELDOM) == SELDOM
    assert 9 < slept < 11


@pytest.mark.parametrize(
    ("pace", "beat", "claim"),
    [
        (IdlePace(10.0), 2.5, SELDOM),
        (IdlePace(60.0), 15.0, LOOK),
        (IdlePace(10.0, poll=1.0), 2.5, 1.0),
        (IdlePace(900.0, poll=300.0), 300.0, 300.0),
        (IdlePace(30.0, poll=300.0), 10.0, 300.0),
    ],
)
def test_the_pace_of_an_idle_node(pace: IdlePace, beat: float, claim: float) -> None:
    """A heartbeat or a claim looks at least every four seconds, or as often as --poll says."""
    assert (pace.idle_beat, pace.claim) == (beat, claim)
    assert pace.idle_beat * LEAST_BEATS <= pace.lease

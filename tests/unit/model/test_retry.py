"""When a failed job runs again: `Retry`."""

import math
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from txqueue import Retry
from txqueue.errors import InvalidWork

policies = st.builds(
    Retry,
    attempts=st.integers(1, 1000),
    first=st.floats(0, 1e6),
    factor=st.floats(1, 1e6),
    longest=st.floats(0.001, 1e9),
    jitter=st.floats(0, 1),
) | st.builds(Retry, first=st.floats(0, 1e6), longest=st.floats(0.001, 1e9), linear=st.just(True))
steady = st.builds(
    Retry,
    first=st.floats(0, 1e6),
    factor=st.floats(1, 1e6),
    longest=st.floats(0.001, 1e9),
    jitter=st.just(0.0),
)
failures = st.integers(1, 10**6)
chances = st.floats(0, 1, exclude_max=True)


@given(policies, failures, chances)
def test_a_delay_is_within_bounds(retry: Retry, failed: int, chance: float) -> None:
    """No delay is negative, none exceeds the longest, whatever the policy and the chance."""
    assert 0 <= retry.delay(failed, chance) <= retry.longest


def test_linear_delays_grow_by_the_first() -> None:
    """To the longest one."""
    retry = Retry(first=300, longest=1000, jitter=0, linear=True)
    assert [retry.delay(failed, 0.5) for failed in (1, 2, 3, 4, 10**6)] == [
        300,
        600,
        900,
        1000,
        1000,
    ]


def test_linear_delays_have_no_factor() -> None:
    """It would have no effect."""
    with pytest.raises(InvalidWork, match="leave out factor or linear"):
        Retry(factor=3, linear=True)


@given(steady, st.integers(1, 2000), chances)
def test_without_jitter_delays_never_shrink(retry: Retry, failed: int, chance: float) -> None:
    """Each further delay is at least as long as the one before."""
    assert retry.delay(failed, chance) <= retry.delay(failed + 1, chance)


@given(policies, failures, chances)
def test_jitter_varies_by_its_fraction(retry: Retry, failed: int, chance: float) -> None:
    """Jitter moves a delay either way by at most its fraction of it."""
    base = evolve(retry, jitter=0)
    middle = base.delay(failed, 0.5)
    allowed = middle * retry.jitter + 1e-9 * middle
    assert abs(retry.delay(failed, chance) - middle) <= allowed


@pytest.mark.parametrize(("failed", "delay"), [(1, 1.0), (2, 3.0), (3, 9.0), (4, 10.0), (5, 10.0)])
def test_delays_grow_by_the_factor_up_to_the_longest(failed: int, delay: float) -> None:
    """The first delay is `first`, each next one `factor` times as long."""
    retry = Retry(first=1.0, factor=3.0, longest=10.0, jitter=0)
    assert delay == retry.delay(failed, 0.5)


@pytest.mark.parametrize("chance", [0.0, 0.25, 0.5, 0.999])
def test_jitter_spreads_evenly(chance: float) -> None:
    """The chance decides where between the extremes a delay lies."""
    retry = Retry(first=10.0, jitter=0.5)
    assert math.isclose(10.0 * (0.5 + chance), retry.delay(1, chance))


@pytest.mark.parametrize("failed", [1, 310, 10**9])
def test_a_power_too_large_for_a_float_is_the_longest(failed: int) -> None:
    """After however many failures a delay is a number."""
    assert Retry(first=1e300, factor=1e300, longest=60, jitter=0).delay(failed, 0.5) == 60


@pytest.mark.parametrize("failed", [1, 2, 310, 10**9])
def test_no_first_delay_means_no_delay_ever(failed: int) -> None:
    """`first=0` retries at once, after however many failures."""
    assert Retry(first=0.0, factor=10.0).delay(failed, 0.9) == 0


@pytest.mark.parametrize(
    ("attempts", "failed", "spent"), [(1, 1, True), (3, 2, False), (3, 3, True)]
)
def test_attempts_are_runs_in_all(attempts: int, failed: int, spent: bool) -> None:
    """One attempt means no retry."""
    assert spent == Retry(attempts=attempts).is_spent(failed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"attempts": 0},
        {"attempts": 1.5},
        {"first": -1.0},
        {"first": math.nan},
        {"factor": 0.5},
        {"factor": math.inf},
        {"longest": 0.0},
        {"longest": math.inf},
        {"jitter": 1.5},
        {"jitter": -0.1},
        {"fatal": (ValueError, "KeyError")},
        {"fatal": ValueError},
    ],
    ids=str,
)
def test_a_policy_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """A wrong value raises where it is written."""
    with pytest.raises(InvalidWork, match=next(iter(wrong))):
        Retry(**wrong)

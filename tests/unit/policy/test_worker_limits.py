"""When a worker has run enough jobs, or grown enough, to be replaced."""

import pytest

from txqueue.policy.worker_limits import JITTER, NO_LIMITS, Reason, WorkerLimits


@pytest.mark.parametrize(
    ("jobs", "memory", "reason"),
    [(9, 99, None), (10, 99, "jobs"), (9, 100, "memory"), (0, 1000, None)],
)
def test_the_limit_that_is_reached(jobs: int, memory: int, reason: Reason | None) -> None:
    """None before the first job: the application alone may need more memory than the limit."""
    assert WorkerLimits(jobs=10, memory=100).reached(jobs, memory) == reason


@pytest.mark.parametrize(("fresh", "raised"), [(0, 100), (90, 100), (92, 101), (500, 550)])
def test_a_worker_may_grow_from_its_start(fresh: int, raised: int) -> None:
    """By a tenth: else each would be replaced after its first job."""
    assert WorkerLimits(jobs=10, memory=100).above(fresh) == WorkerLimits(jobs=10, memory=raised)
    assert NO_LIMITS.above(fresh) == NO_LIMITS


def test_without_limits_a_worker_stays() -> None:
    """As by default."""
    assert NO_LIMITS.drawn(0.9).reached(10**9, 10**9) is None


def test_the_limits_of_workers_differ() -> None:
    """By a part of what was set, and never more than that; a limit of one job stays one."""
    limits = WorkerLimits(jobs=1000, memory=1)
    assert limits.drawn(0.0) == limits
    assert limits.drawn(0.5) == WorkerLimits(jobs=round(1000 * (1 - JITTER / 2)), memory=1)

"""The counts of what jobs did."""

from hypothesis import given
from hypothesis import strategies as st

from txqueue.model.run_log import RUN_BOUNDS, Histogram, RunTally


@given(st.lists(st.floats(0, 1e6)))
def test_each_observation_lies_in_one_interval(values: list[float]) -> None:
    """A value counts below the first bound that it does not exceed, or behind the last."""
    histogram = Histogram(RUN_BOUNDS)
    for value in values:
        histogram.observe(value)
    assert sum(histogram.counts) == len(values)
    for place, bound in enumerate(RUN_BOUNDS):
        assert sum(histogram.counts[: place + 1]) == sum(value <= bound for value in values)


def test_a_burst_counts_the_mean_of_its_time() -> None:
    """Three runs that took 6 ms together count 2 ms each; the one that goes on is not over."""
    tally = RunTally()
    tally.burst(["a", "b", "a"], ["a"], 0.006)
    assert tally.started == {"a": 2, "b": 1}
    assert sum(tally.runs["a"].counts) == sum(tally.runs["b"].counts) == 1
    assert tally.runs["a"].total == 0.002


def test_counts_that_are_taken_are_added_elsewhere_once() -> None:
    """What a worker reports twice adds up to what it has counted."""
    worker, master = RunTally(), RunTally()
    for _ in range(2):
        worker.burst(["a"], [], 0.5)
        worker.ended["a", "done"] += 1
        master.add(worker.take())
    assert not worker
    assert master.started == {"a": 2}
    assert master.ended == {("a", "done"): 2}
    assert master.runs["a"].total == 1.0

"""Jobs that workers gave back, divided."""

from txqueue.model.assignment import JobKey
from txqueue.policy.placement.room import Unstarted


def test_unstarted_jobs_are_cut_and_batched() -> None:
    """Each job is in one part."""
    jobs = Unstarted([JobKey(5, 1), JobKey(5, 2), JobKey(6, 3), JobKey(6, 4), JobKey(7, 5)], 10)
    first, rest = jobs.cut(5)
    assert (first.ids, first.weight, rest.ids) == ({5: [1, 2], 6: [3]}, 6, {6: [4], 7: [5]})
    assert [each.ids for each in jobs.batches(2)] == [{5: [1, 2]}, {6: [3, 4]}, {7: [5]}]
    assert jobs.without({1, 2, 4}).ids == {6: [3], 7: [5]}
    assert (first + rest).ids == jobs.ids
    assert Unstarted().cut(5) == (Unstarted(), Unstarted())

"""A worker's capacity: what runs beside what, what waits, what runs long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.performing import Handled, Harness
from txqueue import RunningJob
from txqueue.worker.running.performer import SOON
from txqueue.worker.running.waiting_run import BEAT

weights = st.lists(st.integers(1, 6), min_size=1, max_size=12)


def hand_waiting(harness: Harness, weights: list[int]) -> None:
    """Hand over jobs of these weights, numbered from 1, and turn."""
    harness.hand(5, *[Handled.entry(number, weight=w) for number, w in enumerate(weights, 1)])
    harness.turn()


@pytest.mark.parametrize(
    ("capacity", "its_weights", "begun"),
    [
        (3, [1, 1, 1, 1, 1], [1, 2, 3]),
        (3, [2, 2, 1], [1]),
        (10, [1, 20, 1], [1]),
        (10, [20, 1, 1], [1]),
        (10, [10, 1], [1]),
        (10, [9, 1, 1], [1, 2]),
    ],
)
def test_only_what_fits_is_begun(capacity: int, its_weights: list[int], begun: list[int]) -> None:
    """In the order handed over: nothing overtakes, and the heavy runs alone."""
    harness = Harness(capacity)
    with harness.handler(lambda _, job: harness.wait(job)):
        hand_waiting(harness, its_weights)
        assert begun == sorted(harness.running)
        while harness.running:
            harness.end_all()
    assert sorted(job for *_, ids, _, _ in harness.finished for job in ids) == list(
        range(1, len(its_weights) + 1)
    )


@given(weights, st.integers(1, 8))
def test_capacity_is_never_exceeded(its_weights: list[int], capacity: int) -> None:
    """Except by one job that is heavier than all of it, alone; and every job runs."""
    harness = Harness(capacity)
    order: list[int] = []

    def perform(self: object, job: RunningJob) -> object:
        order.append(job.id)
        return harness.wait(job)

    with harness.handler(perform):
        hand_waiting(harness, its_weights)
        while harness.running:
            running = [its_weights[job_id - 1] for job_id in harness.running]
            assert sum(running) <= capacity or len(running) == 1
            harness.end(min(harness.running))
    assert order == list(range(1, len(its_weights) + 1))


def test_as_one_ends_another_begins() -> None:
    """Without waiting for the rest of the chunk."""
    harness = Harness(2)
    with harness.handler(lambda _, job: harness.wait(job)):
        hand_waiting(harness, [1, 1, 1])
        assert sorted(harness.running) == [1, 2]
        harness.end(2)
        assert sorted(harness.running) == [1, 3]
        harness.end_all()


def finished(harness: Harness) -> int:
    """How many jobs were reported done."""
    return sum(len(ids) for *_, ids, _, _ in harness.finished)


def test_a_long_chunk_leaves_the_reactor_its_turns() -> None:
    """After a slice of time others get their turn, and what is done is reported."""
    harness = Harness(1000)
    seen: list[int] = []

    def perform(self: object, job: RunningJob) -> None:
        harness.clock.rightNow += 0.001

    with harness.handler(perform):
        harness.hand(5, *map(Handled.entry, range(1, 301)))
        harness.clock.callLater(0.01, lambda: seen.append(finished(harness)))
        harness.turn()
    assert 0 < seen[0] < 300
    assert finished(harness) == 300


def test_what_waits_can_be_given_up() -> None:
    """By assignment; running jobs continue."""
    harness = Harness(1)
    with harness.handler(lambda _, job: harness.wait(job)):
        harness.hand(5, Handled.entry(1), Handled.entry(2, weight=3))
        harness.hand(6, Handled.entry(3), Handled.entry(4))
        harness.turn()
        assert harness.performer.give_up_waiting() == ({5: [2], 6: [3, 4]}, 5)
        assert harness.performer.give_up_waiting() == ({}, 0)
        harness.end_all()
    assert harness.finished == [(5, 3, [1], 1, 1)]


@pytest.mark.parametrize(
    ("most", "given_up"), [(0, []), (1, [4]), (2, [3, 4]), (3, [3, 4]), (4, [2, 3, 4])]
)
def test_only_the_tail_can_be_given_up(most: int, given_up: list[int]) -> None:
    """What came last, until the weight is reached; the rest runs here."""
    harness = Harness(1)
    with harness.handler(lambda _, job: harness.wait(job)):
        harness.hand(5, Handled.entry(1), Handled.entry(2), Handled.entry(3, weight=2))
        harness.hand(6, Handled.entry(4))
        harness.turn()
        unstarted, _ = harness.performer.give_up_waiting(most)
        assert sorted(job_id for ids in unstarted.values() for job_id in ids) == given_up
        harness.end_all()
        while harness.running:
            harness.turn()
            harness.end_all()
    assert finished(harness) == 4 - len(given_up)


def test_a_long_run_is_reported_once() -> None:
    """After a beat, with how long it has run; a short one is not."""
    harness = Harness()
    with harness.handler(lambda _, job: harness.wait(job)):
        harness.performer.start()
        hand_waiting(harness, [1])
        harness.clock.advance(BEAT / 2)
        harness.hand(6, Handled.entry(2))
        harness.turn()
        harness.end(2)
        harness.clock.pump([BEAT / 2] * 8)
        assert [job.key for job in harness.started] == [(5, 1)]
        assert BEAT <= harness.started[0].seconds <= 2 * BEAT
        harness.end_all()
        harness.performer.stop()
    assert harness.clock.getDelayedCalls() == []


@pytest.mark.parametrize(
    ("jobs", "terms", "reports"), [(18, None, 0), (9, None, 1), (18, {"grouped": 1}, 1)]
)
def test_an_end_is_reported_with_later_ones_while_many_jobs_wait(
    jobs: int, terms: dict[str, int] | None, reports: int
) -> None:
    """But at once if few wait, or the next job of its group does; the next job starts at once."""
    harness = Harness(2)
    with harness.handler(lambda _, job: harness.wait(job)):
        harness.hand(5, *(Handled.entry(number, terms=terms) for number in range(1, jobs + 1)))
        harness.turn()
        before = harness.reports
        harness.end(1)
        assert (harness.reports - before, sorted(harness.running)) == (reports, [2, 3])
        harness.clock.advance(SOON)
        assert harness.finished == [(5, 3, [1], 1, 1)]

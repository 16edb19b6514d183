"""A worker's capacity: what runs beside what, what waits, what runs long."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.worker.performing import Desk, Handled
from txqueue import RunningJob
from txqueue.worker.long_runs import BEAT

weights = st.lists(st.integers(1, 6), min_size=1, max_size=12)


def hand_waiting(desk: Desk, weights: list[int]) -> None:
    """Hand over jobs of these weights, numbered from 1, and turn."""
    desk.hand(5, *[Handled.entry(number, weight=w) for number, w in enumerate(weights, 1)])
    desk.turn()


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
    desk = Desk(capacity)
    with desk.handler(lambda _, job: desk.wait(job)):
        hand_waiting(desk, its_weights)
        assert begun == sorted(desk.running)
        while desk.running:
            desk.end_all()
    assert sorted(job for *_, ids, _, _ in desk.finished for job in ids) == list(
        range(1, len(its_weights) + 1)
    )


@given(weights, st.integers(1, 8))
def test_capacity_is_never_exceeded(its_weights: list[int], capacity: int) -> None:
    """Except by one job that is heavier than all of it, alone; and every job runs."""
    desk = Desk(capacity)
    order: list[int] = []

    def perform(self: object, job: RunningJob) -> object:
        order.append(job.id)
        return desk.wait(job)

    with desk.handler(perform):
        hand_waiting(desk, its_weights)
        while desk.running:
            running = [its_weights[job_id - 1] for job_id in desk.running]
            assert sum(running) <= capacity or len(running) == 1
            desk.end(min(desk.running))
    assert order == list(range(1, len(its_weights) + 1))


def test_as_one_ends_another_begins() -> None:
    """Without waiting for the rest of the chunk."""
    desk = Desk(2)
    with desk.handler(lambda _, job: desk.wait(job)):
        hand_waiting(desk, [1, 1, 1])
        assert sorted(desk.running) == [1, 2]
        desk.end(2)
        assert sorted(desk.running) == [1, 3]
        desk.end_all()


def finished(desk: Desk) -> int:
    """How many jobs were reported done."""
    return sum(len(ids) for *_, ids, _, _ in desk.finished)


def test_a_long_chunk_leaves_the_reactor_its_turns() -> None:
    """After a slice of time others get their turn, and what is done is reported."""
    desk = Desk(1000)
    seen: list[int] = []

    def perform(self: object, job: RunningJob) -> None:
        desk.clock.rightNow += 0.001

    with desk.handler(perform):
        desk.hand(5, *map(Handled.entry, range(1, 301)))
        desk.clock.callLater(0.01, lambda: seen.append(finished(desk)))
        desk.turn()
    assert 0 < seen[0] < 300
    assert finished(desk) == 300


def test_what_waits_can_be_given_up() -> None:
    """By assignment; what runs goes on."""
    desk = Desk(1)
    with desk.handler(lambda _, job: desk.wait(job)):
        desk.hand(5, Handled.entry(1), Handled.entry(2, weight=3))
        desk.hand(6, Handled.entry(3), Handled.entry(4))
        desk.turn()
        assert desk.performer.give_up_waiting() == ({5: [2], 6: [3, 4]}, 5)
        assert desk.performer.give_up_waiting() == ({}, 0)
        desk.end_all()
    assert desk.finished == [(5, 3, [1], 1, 1)]


@pytest.mark.parametrize(
    ("most", "given_up"), [(0, []), (1, [4]), (2, [3, 4]), (3, [3, 4]), (4, [2, 3, 4])]
)
def test_only_the_tail_can_be_given_up(most: int, given_up: list[int]) -> None:
    """What came last, until the weight is reached; the rest runs here."""
    desk = Desk(1)
    with desk.handler(lambda _, job: desk.wait(job)):
        desk.hand(5, Handled.entry(1), Handled.entry(2), Handled.entry(3, weight=2))
        desk.hand(6, Handled.entry(4))
        desk.turn()
        unstarted, _ = desk.performer.give_up_waiting(most)
        assert sorted(job_id for ids in unstarted.values() for job_id in ids) == given_up
        desk.end_all()
        while desk.running:
            desk.turn()
            desk.end_all()
    assert finished(desk) == 4 - len(given_up)


def test_a_long_run_is_reported_once() -> None:
    """After a beat, with how long it has run; a short one is not."""
    desk = Desk()
    with desk.handler(lambda _, job: desk.wait(job)):
        desk.performer.start()
        hand_waiting(desk, [1])
        desk.clock.advance(BEAT / 2)
        desk.hand(6, Handled.entry(2))
        desk.turn()
        desk.end(2)
        desk.clock.pump([BEAT / 2] * 8)
        assert [job.key for job in desk.started] == [(5, 1)]
        assert BEAT <= desk.started[0].seconds <= 2 * BEAT
        desk.end_all()
        desk.performer.stop()
    assert desk.clock.getDelayedCalls() == []

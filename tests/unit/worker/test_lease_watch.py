"""What a worker does when the lease of its node is out."""

import time

import pytest
from twisted.internet.task import Clock

from txqueue.worker.master_link import GRACE, LeaseWatch


class Worker:
    """Jobs of groups that end when interrupted, or do not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, obeys: bool) -> None:
        self.clock = Clock()
        monkeypatch.setattr(time, "monotonic", self.clock.seconds)
        self.told = self.left = 0
        self.ended_before: list[int] = []
        self.obeys = obeys
        self.watch = LeaseWatch(self.clock, self._end, self._leave)

    def _end(self, before: int | None) -> bool:
        if before is None:
            self.told += 1
        else:
            self.ended_before.append(before)
        return not self.obeys

    def _leave(self) -> None:
        self.left += 1


def test_jobs_of_groups_end_with_the_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before it, and not if it is renewed."""
    worker = Worker(monkeypatch, obeys=True)
    worker.watch.renew(10.0)
    worker.clock.advance(7)
    worker.watch.renew(17.0)
    worker.clock.advance(9.5)
    assert worker.told == 0
    worker.clock.advance(0.6)
    assert (worker.told, worker.left) == (1, 0)
    assert worker.clock.getDelayedCalls() == []


def test_a_process_whose_job_does_not_end_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A function in a thread cannot be interrupted, so the process must exit."""
    worker = Worker(monkeypatch, obeys=False)
    worker.watch.renew(10.0)
    worker.clock.advance(10)
    assert worker.left == 0
    worker.clock.advance(GRACE)
    assert worker.left == 1


def test_a_lease_that_comes_back_in_time_keeps_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Jobs were interrupted, the process continues."""
    worker = Worker(monkeypatch, obeys=False)
    worker.watch.renew(10.0)
    worker.clock.advance(10)
    worker.watch.renew(20.0)
    worker.clock.advance(GRACE)
    assert worker.left == 0
    worker.watch.stop()
    assert worker.clock.getDelayedCalls() == []


def test_a_timer_that_fires_early_waits_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock decides, not the reactor's."""
    worker = Worker(monkeypatch, obeys=True)
    worker.watch.renew(10.0)
    monkeypatch.setattr(time, "monotonic", lambda: worker.clock.seconds() - 2)
    worker.clock.advance(10)
    assert worker.told == 0
    worker.clock.advance(2)
    assert worker.told == 1


def test_the_lease_of_a_new_run_is_none_for_jobs_of_the_former(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Other nodes have them: they are interrupted, and if one does not end, the process exits."""
    worker = Worker(monkeypatch, obeys=False)
    worker.watch.renew(10.0, 1)
    assert worker.ended_before == [1]
    worker.obeys = True
    worker.clock.advance(12)
    worker.obeys = False
    worker.watch.renew(22.0, 2)
    worker.watch.renew(24.0, 2)
    assert worker.ended_before[-1] == 2
    worker.clock.advance(GRACE)
    assert worker.left == 1


def test_a_new_run_keeps_a_process_whose_former_jobs_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the lease is watched as before."""
    worker = Worker(monkeypatch, obeys=True)
    worker.watch.renew(10.0, 1)
    worker.watch.renew(20.0, 2)
    worker.clock.advance(19)
    assert (worker.told, worker.left) == (0, 0)
    worker.clock.advance(1)
    assert worker.told == 1

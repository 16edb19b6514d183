"""Whether a node leaves heavy jobs to others, and for how long."""

import pytest
from attrs import Factory, define
from twisted.internet.task import Clock

from txqueue.policy.placement.claim_plan import PATIENCE, REST, HeavyJobs

LOAD = 0.65


@define
class Bench:
    """A node that is loaded."""

    clock: Clock = Factory(Clock)
    wakes: int = 0
    heavy_jobs: HeavyJobs = Factory(HeavyJobs)

    def claim(self, left_job: int | None) -> None:
        """Claim, and leave a job; count the notifications of the peers."""
        self.wakes += self.heavy_jobs.note(left_job, self.clock.seconds())

    def pause(self, pause: float) -> float:
        """Return the pause before the next claim."""
        return self.heavy_jobs.pause(pause, self.clock.seconds())

    def leaves(self) -> bool:
        """Whether the next claim may leave jobs to others."""
        return self.heavy_jobs.compared_load(LOAD, self.clock.seconds()) == LOAD


@pytest.fixture
def bench() -> Bench:
    """One that has not claimed yet."""
    return Bench()


def test_a_job_that_no_other_node_takes_is_taken_after_a_while(bench: Bench) -> None:
    """And so are those that follow for some time, as the others may be unable to."""
    bench.claim(7)
    bench.clock.advance(PATIENCE - 0.1)
    bench.claim(7)
    assert bench.leaves()
    assert bench.pause(1.0) == pytest.approx(0.1)
    bench.clock.advance(0.11)
    bench.claim(7)
    assert not bench.leaves()
    assert bench.pause(1.0) == 0.0
    bench.claim(None)
    assert bench.pause(1.0) == 1.0
    bench.clock.advance(REST)
    assert bench.leaves()


def test_patience_is_with_each_job(bench: Bench) -> None:
    """A stream of heavy jobs is left to the others for as long as they take them."""
    for job_id in range(10):
        bench.claim(job_id)
        bench.clock.advance(PATIENCE - 0.1)
        assert bench.leaves()
    assert bench.wakes == 10


def test_peers_are_notified_once_of_each_job(bench: Bench) -> None:
    """However often a claim leaves it."""
    for job_id in (7, 7, None, 7, 8):
        bench.claim(job_id)
    assert bench.wakes == 3

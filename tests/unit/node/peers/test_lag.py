"""The measurements of a master: reactor lag, and waiting jobs."""

import os

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import Workers, fake
from txqueue.node.peers import peer as lag
from txqueue.node.peers.peer import BEAT, RESTING, LagMeter
from txqueue.policy.placement.room import Load
from txqueue.system.processes import memory_of


class Felt:
    """A pulse, and the time and the waiting weight that the test gives it."""

    def __init__(self) -> None:
        self.now = 100.0
        self.workers = Workers()
        self.has_fresh = True
        self.pulse = LagMeter(Clock(), fake(self.workers), fake(self))

    def monotonic(self) -> float:
        """The monotonic clock."""
        return self.now

    def beat(self, seconds: float = BEAT, pause: float = BEAT) -> None:
        """Let it beat after some time; it pauses until the next beat."""
        self.now += seconds
        said: list[object] = []
        Deferred.fromCoroutine(self.pulse.step()).addBoth(said.append)
        assert said == [pause]


@pytest.fixture
def felt(monkeypatch: pytest.MonkeyPatch) -> Felt:
    """A pulse that has beaten once."""
    made = Felt()
    monkeypatch.setattr(lag, "time", made)
    made.beat()
    return made


def test_a_stall_is_seen_for_a_while(felt: Felt) -> None:
    """And fades."""
    assert felt.pulse.lag == 0
    felt.beat(BEAT + 0.5)
    assert felt.pulse.lag == pytest.approx(0.5)
    felt.beat()
    assert 0.3 < felt.pulse.lag < 0.5
    for _ in range(30):
        felt.beat()
    assert felt.pulse.lag < 0.01


def test_only_what_keeps_waiting_counts(felt: Felt) -> None:
    """Not what comes and goes between two beats."""
    seen = []
    for waits in (0, 50, 0, 30, 40, 20):
        felt.workers.loads = [Load(1, 10, 10 + waits)]
        felt.beat()
        seen.append(felt.pulse.steady)
    assert seen == [0, 0, 0, 0, 30, 20]


def test_a_node_without_peers_and_jobs_measures_seldom(felt: Felt) -> None:
    """A stall fades as quickly."""
    felt.beat(BEAT + 0.5)
    felt.has_fresh = False
    felt.beat(pause=RESTING)
    felt.beat(RESTING, pause=RESTING)
    assert felt.pulse.lag < 0.1
    felt.workers.held = 1
    felt.beat(RESTING)
    felt.beat()


def test_memory_is_reported_in_bytes() -> None:
    """Where the system does not tell, it is 0."""
    assert memory_of(os.getpid()) > 1_000_000
    assert memory_of(0) == 0


def test_memory_is_read_once_a_second(felt: Felt, monkeypatch: pytest.MonkeyPatch) -> None:
    """A report is made ten times a second, and reading it would cost more than the rest."""
    sizes = iter((1, 2, 3))
    monkeypatch.setattr(lag, "memory_of", lambda _: next(sizes))
    seen = []
    for _ in range(4):
        seen.append(felt.pulse.memory)
        felt.now += 0.5
    assert seen == [1, 1, 2, 2]

"""What a node reports to its peers: its load, its reactor lag, and jobs that wait."""

import os

import pytest
from attrs import define
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import Loop, Workers, fake, lease_of
from txqueue.node.peers import peer as lag
from txqueue.node.peers.peer import BEAT, RESTING, LagMeter, OwnReport
from txqueue.node.state.lease import Identity, Lease, Lifecycle
from txqueue.policy.placement.room import Load
from txqueue.system.processes import memory_of


@define
class Measured:
    """What the process measures."""

    lag: float = 0.5
    steady: int = 3
    memory: int = 1_000


def own(lease: Lease, lifecycle: Lifecycle | None = None, *loads: Load) -> OwnReport:
    """Make the report of a node."""
    return OwnReport(
        lease,
        lifecycle or Lifecycle(fake(Loop())),
        fake(Workers(loads=list(loads))),
        fake(Measured()),
    )


def test_the_report_is_that_of_the_workers() -> None:
    """Their capacity, what they hold, and what they may hold."""
    report = own(lease_of(4, 3), None, Load(1, 10, 12, rate=10.0), Load(2, 10, 5)).now()
    assert (report.node_id, report.incarnation, report.workers) == (3, 4, 2)
    assert (report.capacity, report.outstanding, report.limit) == (20, 17, 21)
    assert (report.excess, report.ahead, report.lag, report.memory) == (1, 3, 0.5, 1_000)
    assert not report.is_draining


@pytest.mark.parametrize("why", ["not reached", "no lease", "draining"])
def test_a_node_that_could_start_nothing_has_no_room(why: str) -> None:
    """A peer may keep its lease; work that it is handed it could not read, nor complete."""
    lease, lifecycle = lease_of(4, 3), Lifecycle(fake(Loop()))
    report = own(lease, lifecycle, Load(1, 10, 0), Load(2, 10, 5))
    assert report.now().free == 15
    if why == "draining":
        lifecycle.order(drain=True)
    elif why == "no lease":
        lease.forget()
    else:
        lease = Lease(float("inf"))
        lease.register(Identity(3, 4))
        lease.renew(0.0)
        report = own(lease, lifecycle, Load(1, 10, 0), Load(2, 10, 5))
    assert (report.now().free, report.now().idle) == (0, 0)


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

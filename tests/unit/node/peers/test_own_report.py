"""A node's report to its peers."""

import pytest
from attrs import define

from tests.unit.node.doubles import Loop, Workers, fake, lease_of
from txqueue.node.peers.peer import OwnReport
from txqueue.node.state.lease import Identity, Lease, Lifecycle
from txqueue.policy.placement.room import Load


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

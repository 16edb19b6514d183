"""Whether a loaded node leaves heavy jobs to an idle peer, and for how long."""

from collections.abc import Collection
from typing import Any

import pytest
from attrs import evolve
from twisted.internet.task import Clock

from txqueue.node.heavy_jobs import PATIENCE, REST, HeavyJobLimit
from txqueue.policy.balancing import NodeReport
from txqueue.policy.dispatch import Room

FULL = Room(free=40, limit=100, largest=40, capacity=100, workers=1)
EMPTY = evolve(FULL, free=60, largest=60)


class Peer:
    """A peer that is idle or not."""

    def __init__(self) -> None:
        self.clock, self.is_idle = Clock(), True
        self.heavy_jobs = HeavyJobLimit(self.clock, self, ["default"], ["mail"])

    def has_idle(self, queues: Collection[str], work_types: Collection[str]) -> bool:
        """Tell whether it is, to a node that serves what it serves."""
        assert (queues, work_types) == (["default"], ["mail"])
        return self.is_idle


@pytest.fixture
def peer() -> Peer:
    """One that is idle."""
    return Peer()


def test_a_loaded_node_leaves_heavy_jobs_to_an_idle_peer(peer: Peer) -> None:
    """And takes light ones; one that is not loaded takes all, and so does one whose peers work."""
    assert peer.heavy_jobs.heaviest(FULL) == 25
    assert peer.heavy_jobs.heaviest(EMPTY) == 60
    peer.is_idle = False
    assert peer.heavy_jobs.heaviest(FULL) == 40


def test_a_job_of_weight_one_is_never_heavy(peer: Peer) -> None:
    """However small a worker's capacity is."""
    assert peer.heavy_jobs.heaviest(Room(free=1, limit=2, largest=1, capacity=2, workers=1)) == 1


def test_what_no_room_is_left_for_is_not_claimed(peer: Peer) -> None:
    """The bound is never raised."""
    assert peer.heavy_jobs.heaviest(evolve(FULL, free=3, largest=3)) == 3


def claim(peer: Peer, *, is_left: bool = True) -> int:
    """Claim once; returns how heavy jobs may be."""
    heaviest = peer.heavy_jobs.heaviest(FULL)
    peer.heavy_jobs.claimed(is_left=is_left)
    return heaviest


def test_a_peer_that_takes_nothing_is_left_nothing_for_a_while(peer: Peer) -> None:
    """It may be unable to, for a reason that this node does not know."""
    assert claim(peer) == 25
    peer.clock.advance(PATIENCE - 0.1)
    assert claim(peer) == 25
    peer.clock.advance(0.11)
    assert claim(peer) == 40
    peer.clock.advance(REST - 0.1)
    assert claim(peer, is_left=False) == 40
    peer.clock.advance(0.11)
    assert claim(peer) == 25


def test_patience_begins_when_something_is_left_to_the_peer(peer: Peer) -> None:
    """Not while no job is left, and again once the peer has claimed."""
    for is_left in (False, True, False, True):
        assert claim(peer, is_left=is_left) == 25
        peer.clock.advance(PATIENCE - 0.1)
    assert claim(peer) == 25
    peer.clock.advance(0.11)
    assert claim(peer) == 40


@pytest.mark.parametrize(
    ("changed", "is_idle"),
    [
        ({}, True),
        ({"outstanding": 1}, True),
        ({"outstanding": 2}, False),
        ({"is_draining": True}, False),
        ({"limit": 0}, False),
        ({"capacity": 0, "limit": 0}, False),
    ],
)
def test_a_node_is_idle_if_nearly_all_its_capacity_is_free(
    changed: dict[str, Any], is_idle: bool
) -> None:
    """A node that drains, or cannot reach the database, could start nothing."""
    assert evolve(NodeReport(1, 1, 10, 0, 10), **changed).is_idle is is_idle

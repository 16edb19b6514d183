"""The upkeep that each node does for all: the more nodes there are, the more seldom."""

from collections.abc import Sequence
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import Records, Workers, fake
from txqueue.node.state.arrivals import Meters
from txqueue.node.state.periodic import Wakeups
from txqueue.node.upkeep import LONGEST, ROTATE_BUSY, ROTATE_IDLE, ROTATING, Maintenance
from txqueue.store.node.run_functions import HeartbeatReply


class Tables:
    """The stored functions, which find nothing to do."""

    async def ensure_history(self) -> None:
        """Do nothing."""

    async def measure_minute(self, bounds: Sequence[float]) -> list[tuple[Any, ...]]:
        """Return no waits."""
        return []

    async def rotate(self, holders: list[str]) -> tuple[bool, list[str]]:
        """Rotate nothing."""
        return False, holders


def pause_among(nodes: int, load: float) -> float:
    """Return the pause of a node after a rotation, among so many."""
    workers = Workers(held=round(load * 100))
    clock = Clock()
    upkeep = Maintenance(
        clock,
        functions=Tables(),  # type: ignore[arg-type]
        workers=fake(workers),
        records=fake(Records()),
        meters=Meters(),
        wakeups=Wakeups(clock),
    )
    upkeep.on_heartbeat(HeartbeatReply(True, "alive", [], [], nodes=nodes))
    found: list[object] = []
    Deferred.fromCoroutine(upkeep.step()).addBoth(found.append)
    (pause,) = found
    assert isinstance(pause, float)
    return pause


@pytest.mark.parametrize("nodes", [1, ROTATING])
def test_few_nodes_rotate_at_the_same_pace(nodes: int) -> None:
    """Often while there is work."""
    assert pause_among(nodes, 0.0) == ROTATE_IDLE
    assert pause_among(nodes, 0.5) == ROTATE_BUSY


def test_many_nodes_together_rotate_as_often_as_few() -> None:
    """Or the rotations of hundreds would take a core of the server."""
    assert pause_among(10 * ROTATING, 0.5) == 10 * ROTATE_BUSY
    assert pause_among(1000 * ROTATING, 0.0) == LONGEST

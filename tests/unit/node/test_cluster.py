"""What a node makes of the state that its heartbeats tell, and of work while it drains."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from txqueue.node.cluster import Cluster
from txqueue.node.worker_pool import WorkerPool
from txqueue.policy.balancing import Unstarted
from txqueue.policy.dispatch import Load
from txqueue.store.functions import Beat, Chunk, StoredFunctions


class Around:
    """A node's cluster without peers, and what it asks of its neighbours in the process."""

    def __init__(self) -> None:
        self.loads = [Load(1, 10, 12, rate=10.0), Load(2, 10, 5)]
        self.unstarted = Unstarted([(5, 1), (5, 2)], 2)
        self.given_back: list[tuple[int, list[int] | None]] = []
        self.read: list[int] = []
        self.turns: list[bool] = []
        self.reaches = True
        self.cluster = Cluster(
            Clock(),
            cast("StoredFunctions", None),
            name="a",
            endpoint=None,
            workers=cast("WorkerPool", self),
            identity=lambda: (3, 4),
            reaches=lambda: self.reaches,
            accept=lambda assignment: True,  # noqa: ARG005
            read=self.read.extend,
            give_back=lambda number, ids: self.given_back.append((number, ids)),
            woken=lambda: None,
            turned=self.turns.append,
            look_again=lambda: None,
            kept=lambda answered_at: None,  # noqa: ARG005
            failed=lambda: None,
        )

    async def take_back(self, most: int | None = None) -> Unstarted:
        """The workers give up all that they have not started."""
        assert most is None
        taken, self.unstarted = self.unstarted, Unstarted()
        return taken

    def perform(self, chunks: Sequence[Chunk]) -> None:
        """Nothing comes."""
        raise AssertionError(chunks)

    def beats(self, state: str) -> None:
        """A heartbeat tells the state."""
        self.cluster.heard(4, Beat(owned=True, state=state, peers=[], cancels=[]))


@pytest.fixture
def around() -> Any:
    """A cluster that runs."""
    made = Around()
    made.cluster.running = True
    return made


def test_an_operator_drains_a_node_and_has_it_go_on(around: Around) -> None:
    """It gives back what it has not started, and is told each change once."""
    for state in ("alive", "draining", "draining", "alive"):
        around.beats(state)
    assert around.turns == [False, True]
    assert around.given_back == [(5, [1, 2])]
    assert not around.cluster.load().is_draining


def test_what_is_handed_to_a_draining_node_goes_back(around: Around) -> None:
    """The peer did not know yet."""
    around.cluster._taken([7])
    around.beats("draining")
    around.given_back.clear()
    around.cluster._taken([8, 9])
    assert (around.read, around.given_back) == ([7], [(8, None), (9, None)])
    assert around.cluster.load().free == 0


def test_a_node_that_ends_is_not_talked_out_of_it(around: Around) -> None:
    """By a heartbeat that was under way when it began to drain."""
    done: list[object] = []
    Deferred.fromCoroutine(around.cluster.drain()).addBoth(done.append)
    around.beats("alive")
    assert (done, around.turns, around.cluster.is_draining) == ([None], [], True)


def test_the_load_is_that_of_the_workers(around: Around) -> None:
    """Their capacity, what they hold, and what they may hold."""
    load = around.cluster.load()
    assert (load.node_id, load.incarnation, load.workers) == (3, 4, 2)
    assert (load.capacity, load.outstanding, load.limit, load.excess) == (20, 17, 21, 1)
    assert load.memory > 0
    assert around.cluster.report().keys() == {"lag", "memory"}


def test_a_node_that_does_not_reach_the_database_has_no_room(around: Any) -> None:
    """A peer may keep its lease; work that it is handed it could not read, nor complete."""
    around.loads = [Load(1, 10, 0), Load(2, 10, 5)]
    assert around.cluster.load().free == 15
    around.reaches = False
    assert (around.cluster.load().free, around.cluster.load().idle) == (0, 0)

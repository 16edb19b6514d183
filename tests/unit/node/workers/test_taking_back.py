"""Work taken back from worker processes that answer at once, late, or never."""

from typing import Any, cast
from unittest.mock import Mock

import pytest
from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import ConnectionLost
from twisted.internet.task import Clock

from txqueue.model.assignment import JobKey
from txqueue.node.workers.completions import Completions
from txqueue.node.workers.process import WorkerProcess
from txqueue.node.workers.suspects import Suspects
from txqueue.node.workers.workload import SOON, Workers
from txqueue.policy.placement.room import Load, Unstarted


class Hand:
    """A worker process as its pool sees it, whose answer the test gives."""

    is_ready = True
    is_late = is_apart = is_ending = False

    def __init__(self, key: int, outstanding: int) -> None:
        self.key = key
        self.load = Load(key, 10, outstanding)
        self.asked: list[int | None] = []
        self.answer: Deferred[Unstarted] = Deferred()
        self.returned: list[Unstarted] = []

    async def take_back(self, most: int | None = None) -> Unstarted:
        """Answer when the test does."""
        self.asked.append(most)
        return await self.answer

    def return_(self, unstarted: Unstarted) -> None:
        """Give back what came too late."""
        self.returned.append(unstarted)


class Bench:
    """Two workers."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.reports = Mock(Completions)
        self.suspects = Suspects(self.clock)
        self.workers = Workers(
            self.clock, count=2, capacity=10, reports=self.reports, suspects=self.suspects
        )
        self.hands = [Hand(1, 15), Hand(2, 12)]
        self.workers._workers = {hand.key: cast("WorkerProcess", hand) for hand in self.hands}
        self.said: list[Any] = []

    def take_back(self, most: int | None) -> None:
        """Begin."""
        taking = Deferred.fromCoroutine(self.workers.take_back(most))
        taking.addCallback(self.said.append)


@pytest.fixture
def bench() -> Bench:
    """Two workers."""
    return Bench()


def test_all_that_is_given_up_is_one(bench: Bench) -> None:
    """Each worker is asked for its part of what waits."""
    bench.take_back(6)
    bench.hands[0].answer.callback(Unstarted([JobKey(5, 1), JobKey(5, 2)], 5))
    assert bench.said == []
    bench.hands[1].answer.callback(Unstarted([JobKey(6, 3)], 1))
    assert bench.said == [Unstarted([JobKey(5, 1), JobKey(5, 2), JobKey(6, 3)], 6)]
    assert [hand.asked for hand in bench.hands] == [[5], [1]]
    assert not bench.clock.getDelayedCalls()


def test_who_has_nothing_to_give_is_not_asked(bench: Bench) -> None:
    """What is wanted waits elsewhere."""
    bench.take_back(3)
    bench.hands[0].answer.callback(Unstarted([JobKey(5, 1)], 3))
    assert bench.said == [Unstarted([JobKey(5, 1)], 3)]
    assert bench.hands[1].asked == []


def test_a_hanging_worker_does_not_delay_the_others(bench: Bench) -> None:
    """What it says in the end is given back, and until then it is not asked again."""
    bench.take_back(None)
    bench.hands[1].answer.callback(Unstarted([JobKey(6, 3)], 1))
    bench.clock.advance(SOON)
    assert bench.said == [Unstarted([JobKey(6, 3)], 1)]
    assert bench.hands[0].is_late
    bench.hands[1].answer = succeed(Unstarted())
    bench.take_back(None)
    assert [len(hand.asked) for hand in bench.hands] == [1, 2]
    late = Unstarted([JobKey(5, 1)], 1)
    bench.hands[0].answer.callback(late)
    assert bench.hands[0].returned == [late]


def test_a_worker_that_dies_meanwhile_is_left_out(bench: Bench) -> None:
    """What it held is given back as what a dead process held."""
    bench.take_back(None)
    bench.hands[0].answer.errback(ConnectionLost())
    bench.hands[1].answer.callback(Unstarted([JobKey(6, 3)], 1))
    assert bench.said == [Unstarted([JobKey(6, 3)], 1)]


def test_workers_are_starting_while_the_application_is_imported(bench: Bench) -> None:
    """Not once one runs, nor after half a minute, nor if the import has failed."""
    workers, hands = bench.workers, bench.workers._workers
    workers.begin_import()
    assert not workers.are_starting
    workers._workers = {}
    assert workers.closed == {"starting": 2}
    bench.clock.advance(30)
    assert workers.closed == {}
    workers.begin_import()
    workers.end_import()
    assert not workers.are_starting
    workers._workers = hands


def test_without_workers_there_is_nothing(bench: Bench) -> None:
    """And no waiting."""
    bench.workers._workers.clear()
    bench.take_back(None)
    assert bench.said == [Unstarted()]

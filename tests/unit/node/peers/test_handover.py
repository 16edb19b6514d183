"""Work handed between nodes, with everything around it played: nothing is lost on any way."""

from collections.abc import Sequence
from typing import Any, cast

import pytest
from attrs import evolve
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock

from tests.unit.node.doubles import Loop, Named, Records, Workers, fake, lease_of
from txqueue.errors import DatabaseUnavailable
from txqueue.model.assignment import JobKey, PassedJobs
from txqueue.node.peers.handover import ALONE, FIRST_REST, LASTING, LOOK, Handover
from txqueue.node.state.lease import Lifecycle
from txqueue.policy.placement.peers import NodeReport
from txqueue.policy.placement.room import Unstarted
from txqueue.store.node.functions import StoredFunctions
from txqueue.store.node.run_functions import HeartbeatReply

ME, OTHER, THIRD = 1, 2, 3


class Stage:
    """A node and its peers: the database, the workers and the peers as the test has them."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.mine = NodeReport(ME, ME, 10, 0, 10)
        self.reports = [NodeReport(OTHER, OTHER, 10, 0, 10, workers=2)]
        self.workers = Workers()
        self.records = Records()
        self.lifecycle = Lifecycle(fake(Loop()))
        self.inbox = Named()
        self.refused: set[int] = set()
        self.error: Exception | None = None
        self.offer: tuple[list[int], int] = ([], 0)
        self.asked: list[tuple[int, int]] = []
        self.moved: list[tuple[int, list[int], int]] = []
        self.forwarded: list[tuple[int, list[int]]] = []
        self.handoff = Handover(
            self.clock,
            cast("StoredFunctions", self),
            lease=lease_of(ME),
            lifecycle=self.lifecycle,
            workers=fake(self.workers),
            peers=fake(self),
            own=fake(self),
            inbox=fake(self.inbox),
            records=fake(self.records),
        )
        self.handoff.on_backlog(has_backlog=False)

    def now(self) -> NodeReport:
        """The node's report."""
        return self.mine

    def holds(self, *jobs: int) -> None:
        """Have so many jobs too much, of weight 1 each and of two assignments."""
        self.workers.unstarted = Unstarted([JobKey(5 + each % 2, each) for each in jobs], len(jobs))
        waits = len(jobs)
        self.mine = evolve(self.mine, outstanding=10 + waits, ahead=waits, excess=waits)

    async def pass_on(
        self, incarnation: int, jobs: list[JobKey], to: int, parts: int
    ) -> list[PassedJobs]:
        """The database passes on what the other node serves."""
        assert incarnation == ME
        assert all(job.assignment == 5 + job.job_id % 2 for job in jobs)
        if self.error is not None:
            raise self.error
        suits = [job.job_id for job in jobs if job.job_id not in self.refused]
        self.moved.append((to, suits, parts))
        return [PassedJobs(100 + len(self.moved), len(suits), len(suits), suits)] if suits else []

    def forward(self, incarnation: int, assignments: Sequence[int]) -> None:
        """Record the message to the peer."""
        self.forwarded.append((incarnation, list(assignments)))

    async def steal(self, incarnation: int, weight: int) -> tuple[list[int], int]:
        """The peer is asked."""
        self.asked.append((incarnation, weight))
        return self.offer

    def step(self) -> Any:
        """Take a step; returns what it said."""
        return self.does(self.handoff.step())

    def does(self, coroutine: Any) -> Any:
        """Run what needs no time; an error is raised."""
        results: list[Any] = []
        Deferred.fromCoroutine(coroutine).addBoth(results.append)
        (result,) = results
        if hasattr(result, "raiseException"):
            result.raiseException()
        return result

    @property
    def returned(self) -> list[int]:
        """The jobs that were given back."""
        return [job_id for _, ids in self.records.given_back for job_id in ids or ()]


@pytest.fixture
def stage() -> Stage:
    """A node with one idle peer."""
    return Stage()


def test_what_is_too_much_goes_to_a_peer_with_room(stage: Stage) -> None:
    """In as many parts as it has workers; the message has the new assignments."""
    stage.holds(1, 2, 3)
    assert stage.step() == LOOK
    assert stage.moved == [(OTHER, [1, 2, 3], 2)]
    assert stage.forwarded == [(OTHER, [101])]
    assert stage.returned == []


def test_what_does_not_suit_the_peer_is_given_back(stage: Stage) -> None:
    """And if nothing does, the peer is left alone for a while."""
    stage.refused = {2}
    stage.holds(1, 2)
    stage.step()
    assert (stage.moved, stage.records.given_back) == ([(OTHER, [1], 2)], [(5, [2])])
    stage.holds(2)
    stage.step()
    stage.holds(1, 3)
    stage.step()
    assert stage.workers.asked == [2, 1]
    stage.clock.advance(FIRST_REST)
    stage.step()
    assert stage.workers.asked == [2, 1, 2]


def test_a_statement_without_an_answer_loses_nothing(stage: Stage) -> None:
    """What it may not have passed on is given back; if it did, that changes nothing."""
    stage.error = DatabaseUnavailable("gone")
    stage.holds(1, 2)
    with pytest.raises(DatabaseUnavailable):
        stage.step()
    assert sorted(stage.records.given_back) == [(5, [2]), (6, [1])]


def test_a_drain_without_an_answer_loses_nothing(stage: Stage) -> None:
    """What was still to be passed on is given back too."""
    stage.error = DatabaseUnavailable("gone")
    stage.reports = [evolve(stage.reports[0], outstanding=8)]
    stage.holds(1, 2, 3, 4)
    with pytest.raises(DatabaseUnavailable):
        stage.does(stage.handoff.pass_all())
    assert sorted(stage.returned) == [1, 2, 3, 4]


def test_an_idle_node_takes_what_it_is_given(stage: Stage) -> None:
    """And asks again soon, once that is read."""
    stage.reports = [evolve(stage.reports[0], outstanding=30, ahead=20, excess=20)]
    stage.offer = ([7, 8], 2)
    assert stage.step() < LOOK
    assert (stage.asked, stage.inbox.numbers) == ([(OTHER, 10)], [7, 8])
    stage.inbox.is_empty = False
    stage.step()
    assert len(stage.asked) == 1
    stage.inbox.is_empty = True
    stage.step()
    assert len(stage.asked) == 2


def test_who_gave_nothing_is_left_alone_ever_longer(stage: Stage) -> None:
    """Another peer is asked meanwhile."""
    first = evolve(stage.reports[0], outstanding=30, ahead=20, excess=20)
    second = evolve(first, node_id=THIRD, incarnation=THIRD, ahead=10)
    stage.reports = [first, second]
    stage.step()
    stage.step()
    stage.step()
    assert [peer for peer, _ in stage.asked] == [OTHER, THIRD]
    stage.clock.advance(FIRST_REST)
    stage.step()
    stage.step()
    stage.clock.advance(FIRST_REST)
    stage.step()
    assert [peer for peer, _ in stage.asked] == [OTHER, THIRD, OTHER, THIRD]


@pytest.mark.parametrize("why", ["backlog", "draining", "alone"])
def test_when_no_peer_is_asked(why: str, stage: Stage) -> None:
    """The database has work, or the node accepts none, or there is no peer."""
    stage.reports = [evolve(stage.reports[0], outstanding=30, ahead=20, excess=20)]
    stage.handoff.on_backlog(has_backlog=why == "backlog")
    stage.mine = evolve(stage.mine, is_draining=why == "draining")
    if why == "alone":
        stage.reports.clear()
    stage.step()
    assert stage.asked == []


def test_a_peer_that_asks_gets_what_waits(stage: Stage) -> None:
    """No more than that; it learns of it by the answer alone."""
    stage.holds(1, 2, 3)
    assert stage.does(stage.handoff.surrender(OTHER, 2)) == ([101], 2)
    assert stage.does(stage.handoff.surrender(OTHER, 100)) == ([102], 1)
    assert (stage.workers.asked, stage.forwarded) == ([2, 3], [])
    stage.mine = evolve(stage.mine, ahead=0)
    assert stage.does(stage.handoff.surrender(OTHER, 1)) == ([], 0)


def test_a_draining_node_passes_on_and_gives_the_rest_back(stage: Stage) -> None:
    """To each peer what it has room for, and to the queue what none has."""
    stage.reports = [
        evolve(stage.reports[0], outstanding=8),
        evolve(stage.reports[0], node_id=THIRD, incarnation=THIRD, outstanding=6),
    ]
    stage.holds(*range(1, 10))
    stage.does(stage.handoff.pass_all())
    assert [(to, len(ids)) for to, ids, _ in stage.moved] == [(THIRD, 4), (OTHER, 2)]
    assert stage.forwarded == [(THIRD, [101]), (OTHER, [102])]
    moved = {job_id for _, ids, _ in stage.moved for job_id in ids}
    rest = set(stage.returned)
    assert (moved & rest, moved | rest) == (set(), set(range(1, 10)))


def test_without_peers_a_draining_node_gives_all_back(stage: Stage) -> None:
    """As it did before there were any."""
    stage.reports.clear()
    stage.holds(1, 2)
    stage.does(stage.handoff.pass_all())
    assert stage.moved == []
    assert sorted(stage.records.given_back) == [(5, [2]), (6, [1])]


def test_what_does_not_start_in_a_moment_goes_back_to_the_queue(stage: Stage) -> None:
    """Whether there are peers or not: there it obeys pause, priority and limits again."""
    stage.reports = []
    stage.holds(1, 2, 3)
    assert stage.step() == LOOK
    assert stage.returned == []
    stage.clock.advance(LASTING)
    stage.mine = evolve(stage.mine, excess=2)
    stage.step()
    assert stage.workers.asked == [2]
    assert sorted(stage.returned) == [1, 2]


def test_what_starts_in_a_moment_stays(stage: Stage) -> None:
    """A worker's pace shows only after a while."""
    stage.reports = []
    stage.holds(1, 2, 3)
    stage.step()
    stage.mine = evolve(stage.mine, excess=0)
    stage.clock.advance(LASTING)
    assert stage.step() == ALONE
    stage.holds(1)
    stage.step()
    assert stage.returned == []


def beats(stage: Stage, *, is_draining: bool) -> None:
    """A heartbeat tells what an operator has ordered."""
    stage.lifecycle.order(drain=is_draining)
    state = "draining" if is_draining else "alive"
    stage.handoff.on_heartbeat(HeartbeatReply(owned=True, state=state, peers=[], cancels=[]))


def test_draining_by_an_operator_passes_all_jobs_on(stage: Stage) -> None:
    """With each heartbeat, and no more once it may take jobs again or has stopped."""
    stage.handoff.running = 1
    beats(stage, is_draining=False)
    assert stage.workers.asked == []
    stage.holds(1, 2)
    beats(stage, is_draining=True)
    assert stage.moved == [(OTHER, [1, 2], 2)]
    beats(stage, is_draining=True)
    assert stage.workers.asked == [None, None]
    stage.handoff.running = 0
    beats(stage, is_draining=True)
    assert stage.workers.asked == [None, None]


def test_a_drain_of_which_the_database_knows_nothing_ends_all_the_same(stage: Stage) -> None:
    """What could not be passed on is given back."""
    stage.error = DatabaseUnavailable("gone")
    stage.holds(1, 2)
    stage.does(stage.handoff.drain())
    assert sorted(stage.returned) == [1, 2]

"""A node gives back what is assigned to it and that it does not hold, once two looks agree."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

import pytest
from twisted.internet.defer import Deferred, TimeoutError
from twisted.internet.task import Clock, deferLater

from tests.unit.node.doubles import INCARNATION, NODE, Records, fake, lease_of
from txqueue.model.assignment import JobKey, ReturnedJobs
from txqueue.node.leasing.reconciliation import GAP, LONGEST, Reconciliation, missing
from txqueue.node.state.arrivals import Deduplicator
from txqueue.node.state.lease import Identity
from txqueue.node.state.periodic import Wakeups
from txqueue.policy.placement.idling import BEATS_A_LEASE, IdlePace

EVERY = 0.5


class Harness:
    """A node that holds some jobs, and a database that has some assigned to it."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.assigned: dict[int, list[int]] = {}
        self.held: dict[int, set[int]] = {}
        self.is_busy = False
        self.asking: Deferred[None] | None = None
        self.outage = self.took = 0.0
        self.records = Records()
        self.claim: int | None = None
        self.lease = lease_of()
        self.released: list[int] = []
        self.deduplicator = Deduplicator()
        self.wakeups = Wakeups(self.clock, IdlePace(BEATS_A_LEASE * EVERY))
        self.reconciliation = Reconciliation(
            self.clock,
            self,  # type: ignore[arg-type]
            lease=self.lease,
            workers=fake(self),
            records=fake(self.records),
            claims=fake(self),
            deduplicator=self.deduplicator,
            wakeups=self.wakeups,
        )

    async def assignments_of(
        self, incarnation: int, older_than: float
    ) -> tuple[dict[int, int], float]:
        """Answer as the stored functions do, once the network lets the answer through."""
        assert (incarnation, older_than > 0) == (INCARNATION, True)
        if self.outage:
            await deferLater(self.clock, self.outage)
        return {each: len(ids) for each, ids in self.assigned.items() if ids}, self.took

    async def jobs_of(self, _: int, assignments: Sequence[int]) -> list[JobKey]:
        """Answer as the stored functions do."""
        return [JobKey(each, job_id) for each in assignments for job_id in self.assigned[each]]

    async def release(self, _: int, returned: Sequence[ReturnedJobs]) -> int:
        """Take back what is named."""
        before = len(self.released)
        for each in returned:
            assert each.ids is not None
            left = [job_id for job_id in self.assigned[each.assignment] if job_id not in each.ids]
            self.assigned[each.assignment] = left
            self.released += each.ids
        return len(self.released) - before

    @property
    def assignments(self) -> list[int]:
        """The assignments that the workers hold."""
        return list(self.held)

    @property
    def holdings(self) -> Counter[int]:
        """How many jobs of each assignment the workers hold."""
        return Counter({assignment: len(ids) for assignment, ids in self.held.items()})

    async def holds(self, assignments: Collection[int]) -> dict[int, set[int]]:
        """Say which jobs those are, unless a worker does not answer."""
        if self.is_busy:
            raise TimeoutError
        if self.asking is not None:
            await self.asking
        return {assignment: self.held.get(assignment, set()) for assignment in assignments}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and stop it."""
        self.reconciliation.startService()
        yield
        self.reconciliation.stopService()
        assert self.clock.getDelayedCalls() == []

    def look(self, times: int = 2) -> None:
        """Let it look, so many times."""
        self.clock.pump([EVERY] * (times * round(GAP / EVERY)))


def test_what_a_lost_claim_took_is_given_back() -> None:
    """All of it, at the second look."""
    harness = Harness()
    harness.assigned = {5: [50, 51]}
    with harness.running():
        assert harness.released == []
        harness.look()
    assert harness.released == [50, 51]
    assert harness.reconciliation.given_back == 2


def test_nothing_is_compared_while_heartbeats_find_no_job() -> None:
    """Once one finds some, two checks must agree as ever."""
    harness = Harness()
    harness.assigned = {5: [50]}
    harness.wakeups.is_idle = True
    with harness.running():
        harness.look(4)
        assert harness.released == []
        harness.wakeups.doubt()
        assert harness.released == []
        harness.look()
    assert harness.released == [50]


def test_an_outage_does_not_delay_the_next_check() -> None:
    """A check whose answer was held back for some seconds did not cost the server more."""
    harness = Harness()
    harness.assigned = {5: [50]}
    harness.outage = 8.0
    with harness.running():
        harness.clock.pump([EVERY] * 16)
        harness.outage = 0.0
        harness.look()
    assert harness.released == [50]


@pytest.mark.parametrize(("took", "pause"), [(0.2, 10.0), (20.0, LONGEST)])
def test_a_check_that_costs_the_server_much_comes_seldom(took: float, pause: float) -> None:
    """It uses at most a fiftieth of the time, and comes every half a minute at the least."""
    harness = Harness()
    harness.assigned, harness.took = {5: [50]}, took
    with harness.running():
        harness.clock.advance(pause - EVERY)
        assert harness.released == []
        harness.clock.advance(EVERY)
        assert harness.released == [50]


def test_what_arrived_in_part_is_completed() -> None:
    """What the workers hold stays theirs; a message of it that is late starts nothing."""
    harness = Harness()
    harness.assigned = {5: [50, 51, 52]}
    harness.held = {5: {51}}
    with harness.running():
        harness.look()
    assert harness.released == [50, 52]
    assert not harness.deduplicator.accept(5)


def test_what_is_held_is_left_alone() -> None:
    """However long it runs."""
    harness = Harness()
    harness.assigned = {5: [50, 51], 6: [60]}
    harness.held = {5: {50, 51}, 6: {60}}
    with harness.running():
        harness.look(20)
    assert harness.released == []


def test_what_has_ended_and_is_not_written_is_left_alone() -> None:
    """It is assigned but not held, until the completions are written."""
    harness = Harness()
    harness.assigned = {5: [50]}
    harness.records.noted = 1
    with harness.running():
        harness.look(10)
        assert harness.released == []
        harness.assigned, harness.records.written = {}, 1
        harness.look(10)
    assert harness.released == []


def test_what_a_claim_under_way_took_is_left_alone() -> None:
    """Its answer may still come; once it is given up, what it took is given back."""
    harness = Harness()
    harness.assigned, harness.claim = {5: [50]}, 3
    with harness.running():
        harness.look(10)
        assert harness.released == []
        harness.claim = 4
        harness.look(3)
    assert harness.released == [50]


def test_a_worker_that_does_not_answer_is_asked_again() -> None:
    """Nothing is given back meanwhile: it may hold it."""
    harness = Harness()
    harness.assigned, harness.is_busy = {5: [50]}, True
    with harness.running():
        harness.look(5)
        assert harness.released == []
        harness.is_busy = False
        harness.look(5)
    assert harness.released == [50]


def test_no_message_starts_what_is_being_given_back() -> None:
    """One that comes while the workers are asked starts nothing, as the job may go elsewhere."""
    harness = Harness()
    harness.assigned, harness.asking = {5: [50]}, Deferred()
    with harness.running():
        harness.look(3)
        assert harness.released == []
        assert not harness.deduplicator.accept(5)
        harness.asking.callback(None)
        harness.look(1)
    assert harness.released == [50]


def test_a_node_without_a_lease_gives_nothing_back() -> None:
    """Others do, once it is presumed dead."""
    harness = Harness()
    harness.assigned = {5: [50]}
    harness.lease.forget()
    with harness.running():
        harness.look(5)
        assert harness.released == []
        harness.lease.register(Identity(NODE, INCARNATION))
        harness.look(3)
    assert harness.released == [50]


@pytest.mark.parametrize(
    ("assigned", "held", "found"),
    [
        ({}, {1: 1}, {}),
        ({1: 2}, {1: 2}, {}),
        ({1: 2}, {1: 3}, {}),
        ({1: 2, 2: 5}, {1: 1}, {1: 1, 2: 5}),
    ],
)
def test_missing(assigned: dict[int, int], held: dict[int, int], found: dict[int, int]) -> None:
    """What the workers hold too much is no concern: its rows are another's."""
    assert missing(assigned, held) == found

"""A node polls for jobs handed to it whose message was lost."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from twisted.internet.task import Clock

from tests.unit.node.doubles import INCARNATION, NODE, Loop, Records, Workers, fake, lease_of
from txqueue.model.assignment import Assignment
from txqueue.node.arrival.assigned import Intake
from txqueue.node.arrival.orphans import NOW_AND_THEN, OFTEN, SELDOM, OrphanFinder
from txqueue.node.state.arrivals import MOST_NAMED, Deduplicator, Inbox
from txqueue.node.state.lease import Identity, Lifecycle
from txqueue.node.state.periodic import Wakeups


def of_number(assignment: int, jobs: int = 1) -> Assignment:
    """The database's answer about an assignment."""
    return Assignment(INCARNATION, assignment, 0, jobs, jobs, "[]")


class Shelter:
    """An adoption and all around it: the database answers at once."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.handed_over: list[Assignment] = []
        self.asked: list[tuple[int | None, list[int]]] = []
        self.workers = Workers()
        self.lease = lease_of()
        self.are_out = self.has_fresh = False
        self.deduplicator = Deduplicator()
        self.lifecycle = Lifecycle(Loop())
        self.records = Records()
        self.wakeups = Wakeups(self.clock)
        self.inbox = Inbox(self.wakeups)
        self.adoption = OrphanFinder(
            self.clock,
            self,  # type: ignore[arg-type]
            lease=self.lease,
            inbox=self.inbox,
            workers=fake(self.workers),
            intake=Intake(
                fake(self.workers), self.deduplicator, self.lifecycle, fake(self.records)
            ),
            clients=fake(self),
            peers=fake(self),
            wakeups=self.wakeups,
        )

    @property
    def performed(self) -> list[int]:
        """The assignments that the workers perform."""
        return [each.number for each in self.workers.performed]

    async def direct_jobs(
        self, incarnation: int, assignment: int | None = None, known: Sequence[int] = ()
    ) -> list[Assignment]:
        """Answer as the stored functions do."""
        assert incarnation == INCARNATION
        self.asked.append((assignment, list(known)))
        return [
            each
            for each in self.handed_over
            if assignment in (None, each.number) and each.number not in known
        ]

    @contextmanager
    def running(self) -> Iterator[None]:
        """Start it, and stop it."""
        self.adoption.startService()
        yield
        self.adoption.stopService()
        assert self.clock.getDelayedCalls() == []


def test_what_is_found_is_performed_once() -> None:
    """However often it is found, and not if a message brought it."""
    shelter = Shelter()
    shelter.handed_over = [of_number(5, 3), of_number(6)]
    shelter.are_out = True
    shelter.deduplicator.accept(6)
    with shelter.running():
        shelter.clock.pump([OFTEN] * 3)
    assert shelter.performed == [5]
    assert shelter.adoption.adopted == 3
    # What is found is so much at a time: the next look follows at once.
    assert len(shelter.asked) == 5


def test_a_draining_node_returns_what_it_finds() -> None:
    """Its message was lost, as that of a transaction that was open when the node began to drain."""
    shelter = Shelter()
    shelter.lifecycle.end()
    shelter.handed_over = [of_number(5, 3)]
    with shelter.running():
        shelter.adoption.alarm.ring()
    assert shelter.performed == []
    assert shelter.records.given_back == [(5, None)]


def test_what_workers_hold_is_not_read_again() -> None:
    """It is known."""
    shelter = Shelter()
    shelter.workers.jobs = {5: {1}}
    with shelter.running():
        assert shelter.asked == [(None, [5])]


def test_how_often_it_looks() -> None:
    """The less is to be expected, the more seldom: an idle node asks next to nothing."""
    shelter = Shelter()
    with shelter.running():
        for expected in (SELDOM, NOW_AND_THEN, OFTEN):
            shelter.has_fresh = expected == NOW_AND_THEN
            shelter.are_out = expected == OFTEN
            shelter.adoption.alarm.ring()
            before = len(shelter.asked)
            shelter.clock.pump([0.5] * 60)
            assert len(shelter.asked) - before == 30 / expected


def test_while_heartbeats_find_no_job_only_what_clients_send_is_polled_for() -> None:
    """Until one finds some."""
    shelter = Shelter()
    shelter.wakeups.is_idle = True
    with shelter.running():
        shelter.clock.pump([SELDOM] * 5)
        assert shelter.asked == []
        shelter.has_fresh = True
        shelter.clock.pump([SELDOM] * 2)
        assert shelter.asked == []
        shelter.are_out = True
        shelter.clock.pump([SELDOM] * 2)
        assert len(shelter.asked) >= 1
        shelter.are_out = False
        shelter.asked.clear()
        shelter.wakeups.doubt()
        assert len(shelter.asked) == 1


def test_assignments_that_are_named() -> None:
    """Are read at once, and looks go on beside them."""
    shelter = Shelter()
    shelter.handed_over = [of_number(5), of_number(6)]
    with shelter.running():
        shelter.handed_over.append(of_number(7))
        shelter.inbox.read([7])
        assert shelter.asked == [(None, []), (None, []), (7, [])]
        shelter.clock.advance(OFTEN)
        shelter.inbox.read([7])
        assert shelter.asked[3:] == [(7, []), (None, [])]
    assert shelter.performed == [5, 6, 7]


def test_without_a_lease_it_waits() -> None:
    """Others may hold the node for dead."""
    shelter = Shelter()
    shelter.lease.forget()
    with shelter.running():
        assert shelter.asked == []
        shelter.lease.register(Identity(NODE, INCARNATION))
        shelter.clock.advance(OFTEN)
        assert len(shelter.asked) == 1


def test_too_many_names_are_one_look() -> None:
    """It finds them as well, at once; what is named meanwhile is part of it."""
    shelter = Shelter()
    with shelter.running():
        shelter.clock.advance(OFTEN / 2)
        shelter.lease.forget()
        shelter.inbox.read([1])
        shelter.inbox.read(range(2, MOST_NAMED + 2))
        shelter.inbox.read([9_999])
        shelter.lease.register(Identity(NODE, INCARNATION))
        shelter.adoption.alarm.ring()
        assert shelter.asked == [(None, []), (None, [])]

"""A node reads what messages name by numbers only, and runs it once."""

from collections.abc import Sequence

import pytest
from twisted.internet.task import Clock

from tests.unit.node.doubles import INCARNATION, NODE, Loop, Records, Workers, fake, lease_of
from txqueue.errors import DatabaseUnavailable
from txqueue.model.assignment import Assignment
from txqueue.node.arrival.assigned import MOST_NAMED, Inbox, Intake
from txqueue.node.state.arrivals import Deduplicator
from txqueue.node.state.lease import Identity, Lifecycle


class Reader:
    """An inbox and all around it: the database, which has some assignments, answers at once."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.assigned = {5, 7}
        self.is_away = False
        self.asked: list[int] = []
        self.workers = Workers()
        self.lease = lease_of()
        self.lifecycle = Lifecycle(fake(Loop()))
        self.records = Records()
        intake = Intake(fake(self.workers), Deduplicator(), self.lifecycle, fake(self.records))
        self.inbox = Inbox(self.clock, fake(self), self.lease, intake)
        self.inbox.startService()

    async def direct_jobs(self, incarnation: int, assignment: int) -> list[Assignment]:
        """Answer as the stored functions do."""
        if self.is_away:
            raise DatabaseUnavailable("gone")
        self.asked.append(assignment)
        own = Assignment(incarnation, assignment, 0, 3, 3, "[]")
        return [own] if assignment in self.assigned else []

    def performs(self, numbers: Sequence[int]) -> list[int]:
        """Have assignments named; return those that are performed now."""
        before = len(self.workers.performed)
        self.inbox.read(numbers)
        return [each.number for each in self.workers.performed[before:]]


@pytest.fixture
def reader() -> Reader:
    """An inbox that runs."""
    return Reader()


def test_only_what_the_database_assigns_is_performed_and_once(reader: Reader) -> None:
    """Foreign, absent and repeated numbers perform nothing."""
    assert reader.performs([5, 7, 7, 9, 2**63 - 1]) == [5, 7]
    assert reader.performs([7]) == []
    assert reader.asked == [5, 7, 9, 2**63 - 1, 7]
    assert reader.inbox.received == 6


def test_what_workers_hold_is_not_performed_again(reader: Reader) -> None:
    """However long ago it arrived."""
    reader.workers.jobs = {5: {1}}
    assert reader.performs([5, 7]) == [7]


def test_a_draining_node_returns_what_it_reads(reader: Reader) -> None:
    """The peer did not know yet; nothing that runs is returned."""
    assert reader.performs([5]) == [5]
    reader.lifecycle.end()
    assert reader.performs([5, 7]) == []
    assert reader.records.given_back == [(7, None)]


def test_without_a_lease_nothing_is_read(reader: Reader) -> None:
    """Other nodes may have presumed this one dead."""
    reader.lease.forget()
    assert reader.performs([5]) == []
    reader.lease.register(Identity(NODE, INCARNATION))
    assert (reader.performs([7]), reader.asked) == ([7], [7])


def test_what_an_outage_delays_is_read_after_it(reader: Reader) -> None:
    """Of too many numbers only the first ones: the others' jobs return to the queue."""
    reader.is_away = True
    reader.performs([*range(MOST_NAMED), *range(9_000, 9_010)])
    assert not reader.inbox.is_empty
    reader.performs(range(9_010, 9_020))
    reader.is_away = False
    reader.clock.advance(1)
    assert reader.asked == [*range(MOST_NAMED)]
    assert reader.inbox.is_empty

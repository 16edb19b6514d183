"""When a node reads which jobs that took of its open credit without a notification."""

from enum import IntEnum

import pytest
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from txqueue.policy.placement.credit_reads import (
    COMMIT_PARTS,
    LONGEST_OPEN,
    CreditReads,
    CreditState,
)
from txqueue.policy.placement.stragglers import LEAST


class Stage(IntEnum):
    """How far a transaction is: what it did last."""

    NEW, BEGUN, DREW, TOOK, WROTE, ASKED, COMMITTED, ROLLED_BACK = range(8)


@define
class Enqueue:
    """A transaction that enqueues a job by open credit, and ends."""

    rolls_back: bool
    stage: Stage = Stage.NEW
    number: int = 0
    notifies: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has begun to write, and not ended."""
        return Stage.BEGUN <= self.stage <= Stage.ASKED


@define
class Read:
    """A read of the node, which takes what it returns one after the other."""

    open: set[int]
    after: int
    known: list[int]
    taken: int | None = None
    drawn: int | None = None


@define
class World:
    """A server, one node, and transactions, of which each step is one event.

    Attributes:
        enqueues: The transactions, by their numbers.
        arriving: The jobs of notifications that have not arrived yet.
        is_rung: Whether a notification has arrived since the last read began.
        is_lost: Whether one that was due will not arrive.
        running: The read that runs; None if none does.
    """

    enqueues: list[Enqueue]
    reads: CreditReads = field(factory=CreditReads)
    found: set[int] = field(factory=set)
    taken: int = 0
    drawn: int = 0
    arriving: list[int] = field(factory=list)
    is_rung: bool = False
    is_lost: bool = False
    running: Read | None = None
    count: int = 0
    now: float = 0.0

    def go_on(self, number: int) -> None:
        """Let a transaction take its next step."""
        one = self.enqueues[number]
        if one.stage > Stage.ASKED:
            return
        one.stage = Stage(one.stage + 1)
        if one.stage is Stage.BEGUN and self.running is not None:
            self.running.open.add(number)
        elif one.stage is Stage.DREW:
            self.drawn = one.number = self.drawn + 1
        elif one.stage is Stage.TOOK:
            self.taken += 1
        elif one.stage is Stage.ASKED:
            one.notifies = not any(each.notifies and each.is_open for each in self.enqueues)
        elif one.stage is Stage.COMMITTED:
            self._end(one)

    def _end(self, one: Enqueue) -> None:
        if one.rolls_back:
            one.stage = Stage.ROLLED_BACK
        elif one.notifies:
            self.arriving.append(one.number)
        self.is_lost = self.is_lost or (one.notifies and one.rolls_back)

    def hear(self) -> None:
        """Let the notifications arrive, which bring their jobs."""
        numbers, self.arriving = self.arriving, []
        self.found.update(numbers)
        self.reads.brought(numbers)
        self.is_rung = self.is_rung or bool(numbers)

    def grant(self) -> None:
        """Let the node grant credit anew, which it does between two reads."""
        if self.running is None:
            self.reads.granted()
            self.taken = 0

    @property
    def is_due(self) -> bool:
        """Whether the node reads, without a poll."""
        return self.is_rung or self.reads.pause(self.now, 0.002) is not None

    def read(self) -> None:
        """Let the read that runs go on, or begin one if it is due."""
        if self.running is None:
            if self.is_due:
                self._begin()
        elif self.running.taken is None:
            self.running.taken = self.taken
        elif self.running.drawn is None:
            self.running.drawn = self.drawn
        else:
            self._finish(self.running, self.running.taken, self.running.drawn)

    def _begin(self) -> None:
        if self.is_rung:
            self.reads.notified()
        self.is_rung = False
        self.count += 1
        began = {number for number, one in enumerate(self.enqueues) if one.is_open}
        self.running = Read(began, self.reads.after, self.reads.known)

    def _finish(self, running: Read, taken: int, drawn: int) -> None:
        self.now += 0.001
        numbers = {
            number
            for number in self.committed
            if number > running.after and number not in running.known
        }
        self.found |= numbers
        self.reads.read(numbers, CreditState(taken, drawn, frozenset(running.open)), self.now)
        self.running = None

    def settle(self) -> None:
        """Let all transactions end, then the node read for as long as it does without a poll."""
        for number, one in enumerate(self.enqueues):
            while one.stage <= Stage.ASKED:
                self.go_on(number)
        self.hear()
        while self.running is not None or self.is_due:
            self.read()
            assert self.count < 100

    @property
    def committed(self) -> set[int]:
        """The numbers of the jobs that are committed."""
        return {one.number for one in self.enqueues if one.stage is Stage.COMMITTED}


@settings(max_examples=1_000, deadline=None)
@given(
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.lists(st.integers(0, 9), max_size=100),
)
def test_each_job_is_read_unless_its_notification_is_lost(
    rollbacks: list[bool], events: list[int]
) -> None:
    """In whatever order the events come, and however often the credit is granted anew."""
    world = World([Enqueue(rolls_back) for rolls_back in rollbacks])
    for event in events:
        if event < len(rollbacks):
            world.go_on(event)
        elif event == 4:
            world.grant()
        elif event == 5:
            world.now += LONGEST_OPEN
        elif event == 6:
            world.hear()
        else:
            world.read()
    world.settle()
    assert world.found == world.committed or world.is_lost


def test_a_job_that_a_notification_brings_is_counted_once() -> None:
    """A read that began before may return it, too; none is missing because it is known."""
    for is_read in (False, True):
        reads = CreditReads()
        reads.read([], state(10, 1), 0.0)
        reads.brought([2])
        reads.notified()
        reads.read([2] if is_read else [], state(11, 2, 7), 0.1)
        assert reads.pause(0.1, 0.002) is None
        reads.notified()
        reads.read([], state(12, 3, 7), 0.2)
        assert reads.pause(0.2, 0.01) is not None


def state(taken: int | None, drawn: int, *open_: int) -> CreditState:
    """Return a state."""
    return CreditState(taken, drawn, frozenset(open_))


def test_a_node_that_has_read_all_that_was_taken_does_not_look_again() -> None:
    """Whatever else is open, as on a server where other applications write."""
    reads = CreditReads()
    reads.read([], state(10, 1), 0.0)
    reads.notified()
    reads.read([2], state(11, 2, 7, 8), 0.1)
    assert reads.pause(0.1, 0.002) is None
    reads.notified()
    reads.read([3], state(13, 4, 7, 8), 0.2)
    assert reads.pause(0.2, 0.01) is not None
    reads.read([4], state(13, 4, 7), 0.3)
    assert reads.pause(0.3, 0.002) is None


def test_reads_follow_a_notification_soon_and_then_become_rarer() -> None:
    """Other transactions end with the one that has notified; or with the next flush."""
    reads = CreditReads()
    reads.notified()
    reads.read([], state(1, 1, 7), 0.1)
    assert reads.pause(0.1, 0.02) == LEAST
    reads.read([], state(1, 1, 7), 0.103)
    assert reads.pause(0.103, 0.02) == pytest.approx(0.003)
    reads.read([], state(1, 1, 7), 0.12)
    assert reads.pause(0.12, 0.02) == 0.02 / COMMIT_PARTS


def test_after_a_grant_the_node_looks_until_all_have_ended_that_were_open() -> None:
    """What they took is not counted; nor is what they took of another node's credit."""
    for taken in (10, None):
        reads = CreditReads()
        reads.read([], state(90, 0), 0.0)
        reads.granted()
        reads.notified()
        reads.read([1], state(taken, 1, 7), 0.0)
        reads.read([2], state(taken, 2, 7, 8), 0.1)
        assert reads.pause(0.1, 0.002) is not None
        reads.read([3], state(taken, 3, 8), 0.2)
        assert reads.pause(0.2, 0.002) is None


def test_a_job_that_took_of_the_credit_before_is_not_counted() -> None:
    """Only what was taken since the first read is: it could stand for another one."""
    reads = CreditReads()
    reads.read([], state(1, 1, 7), 0.0)
    reads.notified()
    reads.read([1], state(2, 2, 8), 0.1)
    assert reads.pause(0.1, 0.002) is not None


def test_a_read_passes_over_what_was_read() -> None:
    """Up to the last number that was drawn before all open transactions have begun."""
    reads = CreditReads()
    reads.read([1, 2], state(2, 2), 0.0)
    assert (reads.after, sorted(reads.known)) == (0, [1, 2])
    reads.read([4], state(4, 4, 7), 0.1)
    assert (reads.after, reads.known) == (2, [4])
    reads.read([5], state(5, 5, 7), 0.2)
    assert (reads.after, sorted(reads.known)) == (2, [4, 5])
    reads.read([3], state(5, 5), 0.3)
    assert (reads.after, reads.known) == (4, [5])


def test_reads_pass_over_a_transaction_that_stays_open_and_go_back_at_its_end() -> None:
    """Otherwise each of them would pass all jobs that were enqueued since."""
    reads = CreditReads()
    reads.notified()
    reads.read([], state(1, 1, 7), 0.0)
    reads.read([2], state(2, 2, 7), 0.1)
    assert (reads.after, reads.known) == (0, [2])
    reads.read([3], state(3, 3, 7), LONGEST_OPEN)
    assert (reads.after, sorted(reads.known)) == (1, [2, 3])
    reads.read([4], state(4, 4, 7), 2 * LONGEST_OPEN)
    assert (reads.after, reads.known) == (3, [4])
    reads.read([5], state(5, 5), 2.5 * LONGEST_OPEN)
    assert reads.after == 0
    assert reads.pause(2.5 * LONGEST_OPEN, 0.002) == 0
    reads.read([1, 4, 5], state(5, 5), 2.5 * LONGEST_OPEN)
    assert reads.pause(2.5 * LONGEST_OPEN, 0.002) is None

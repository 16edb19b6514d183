"""When a master looks for jobs whose transactions sent no notification."""

from enum import Enum

from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from txqueue.policy.placement.credit import (
    COMMITS,
    LEAST,
    LONGEST_TURN,
    PART,
    SHORTEST_TURN,
    UNTIMED,
    UNTIMED_TURN,
    Stragglers,
    turn_length,
)


class State(Enum):
    """How far a transaction is."""

    NEW, WRITTEN, ASKED, COMMITTED, ROLLED_BACK = range(5)


@define
class Enqueue:
    """A transaction that writes a job, asks whether to notify, and ends."""

    rolls_back: bool
    state: State = State.NEW
    notifies: bool = False

    @property
    def is_open(self) -> bool:
        """Whether it has begun to write, and not ended."""
        return self.state in {State.WRITTEN, State.ASKED}


@define
class World:
    """A server, one master, and transactions, of which each step is one event.

    Attributes:
        enqueues: The transactions, by their numbers.
        is_asleep: What the sequence says.
        is_rung: Whether a notification has arrived since the last claim began.
        is_lost: Whether one that was due will not arrive.
        seen: The snapshot of the claim that runs, and what it saw; None if none runs.
    """

    enqueues: list[Enqueue]
    stragglers: Stragglers = field(factory=Stragglers)
    claimed: set[int] = field(factory=set)
    is_asleep: bool = False
    is_rung: bool = True
    is_lost: bool = False
    seen: tuple[frozenset[int], set[int]] | None = None
    claims: int = 0
    now: float = 0.0

    def go_on(self, number: int) -> None:
        """Let a transaction take its next step."""
        one = self.enqueues[number]
        if one.state is State.NEW:
            one.state = State.WRITTEN
        elif one.state is State.WRITTEN:
            has_turn = not any(each.notifies and each.is_open for each in self.enqueues)
            one.notifies = self.is_asleep and has_turn
            one.state = State.ASKED
        elif one.state is State.ASKED:
            one.state = State.ROLLED_BACK if one.rolls_back else State.COMMITTED
            self.is_rung = self.is_rung or (one.notifies and not one.rolls_back)
            self.is_lost = self.is_lost or (one.notifies and one.rolls_back)

    @property
    def is_due(self) -> bool:
        """Whether the master claims, without a poll."""
        return self.is_rung or self.stragglers.pause(self.now, 0.002) is not None

    def claim(self) -> None:
        """Begin a claim or end the one that runs, if one is due."""
        if self.seen is not None:
            self._end_claim(*self.seen)
        elif self.is_due:
            self.begin_claim()

    def begin_claim(self) -> None:
        """Take the claim's snapshots: that of the call, and that in which it looks for jobs."""
        self.is_rung = False
        self.claims += 1
        begun = frozenset(number for number, one in enumerate(self.enqueues) if one.is_open)
        committed = {n for n, one in enumerate(self.enqueues) if one.state is State.COMMITTED}
        self.seen = begun, committed - self.claimed

    def _end_claim(self, begun: frozenset[int], found: set[int]) -> None:
        self.now += 0.001
        self.claimed |= found
        self.seen = None
        self.stragglers.note_claim(begun, self.now, found=bool(found))
        self.is_asleep = len(found) < 2
        if self.is_asleep:
            self.stragglers.arm()
        else:
            self.stragglers.disarm()

    def settle(self) -> None:
        """Let all transactions end, then the master claim for as long as it does without a poll."""
        for number, one in enumerate(self.enqueues):
            while one.state not in {State.COMMITTED, State.ROLLED_BACK}:
                self.go_on(number)
        while self.seen is not None or self.is_due:
            self.claim()
            assert self.claims < 100

    @property
    def left(self) -> set[int]:
        """The jobs that are committed, and not claimed."""
        committed = {n for n, one in enumerate(self.enqueues) if one.state is State.COMMITTED}
        return committed - self.claimed


@settings(max_examples=2_000, deadline=None)
@given(
    st.lists(st.booleans(), min_size=1, max_size=4),
    st.lists(st.integers(0, 7), max_size=60),
)
def test_no_job_waits_for_a_poll_unless_its_notification_is_lost(
    rollbacks: list[bool], events: list[int]
) -> None:
    """In whatever order the events come; then one poll finds what is left."""
    world = World([Enqueue(rolls_back) for rolls_back in rollbacks])
    for event in events:
        if event < len(rollbacks):
            world.go_on(event)
        else:
            world.claim()
    world.settle()
    if world.left:
        assert world.is_lost
        world.begin_claim()
        world.settle()
    assert not world.left


def test_looks_become_rare_while_a_transaction_stays_open() -> None:
    """Its job waits about an eighth of the time for which the transaction was open."""
    stragglers = Stragglers()
    stragglers.arm()
    stragglers.note_claim({5}, 10.0, found=True)
    assert stragglers.pause(10.0, None) == UNTIMED
    assert stragglers.pause(10.0, 0.00001) == LEAST
    assert stragglers.pause(10.008, 0.002) == 0.002
    stragglers.note_claim({5, 6}, 18.0, found=False)
    assert stragglers.pause(18.0, 0.002) == 8.0 / PART
    stragglers.note_claim({6}, 19.0, found=False)
    assert stragglers.pause(19.0, 0.002) is None


def test_a_transaction_that_is_seen_again_does_not_become_young() -> None:
    """After the next notification the master looks as rarely for it; for a new one, soon."""
    stragglers = Stragglers()
    stragglers.arm()
    stragglers.note_claim({5}, 0.0, found=True)
    stragglers.note_claim({5}, 8.0, found=True)
    assert stragglers.pause(8.0, 0.002) == 1.0
    stragglers.note_claim({5, 6}, 9.0, found=True)
    assert stragglers.pause(9.0, 0.002) == 0.002


def test_a_turn_lasts_for_several_commits() -> None:
    """Within bounds; as long as is likely to suffice while no commit was timed."""
    times = (None, 0.0001, 0.01, 10.0)
    lengths = [UNTIMED_TURN, SHORTEST_TURN, COMMITS * 10, LONGEST_TURN]
    assert [turn_length(time) for time in times] == lengths
